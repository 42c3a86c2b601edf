// @ts-check
/** Starts the dashboard: session, shell, routes. */

import { get, session } from "./lib/api.js";
import { route, startRouter } from "./lib/router.js";
import { effect, scoped } from "./lib/view.js";
import { shell } from "./parts/shell.js";
import { signIn } from "./pages/sign_in.js";

const ROUTES = /** @type {const} */ ([
  ["/", "pages/overview.js"],
  ["/jobs", "pages/jobs.js"],
  ["/jobs/new", "pages/new_job.js"],
  ["/jobs/:id", "pages/job.js"],
  ["/tasks/:id", "pages/task.js"],
  ["/dead", "pages/dead.js"],
  ["/records", "pages/records.js"],
  ["/records/:kind", "pages/records.js"],
  ["/records/:kind/:key", "pages/record.js"],
  ["/changes", "pages/changes.js"],
  ["/schedules", "pages/schedules.js"],
  ["/watches", "pages/watches.js"],
  ["/lanes", "pages/lanes.js"],
  ["/lanes/:name", "pages/lane.js"],
  ["/sinks", "pages/sinks.js"],
  ["/system", "pages/system.js"],
  ["/keys", "pages/keys.js"],
  ["/docs", "pages/docs.js"],
  ["/docs/:id", "pages/docs.js"],
]);

for (const [path, module] of ROUTES) route(path, module);
document.documentElement.dataset.scheme = localStorage.getItem("scheme") ?? "";

document.documentElement.dataset.menu = localStorage.getItem("menu") ?? "";

let end = () => {};
let signedIn = /** @type {boolean | undefined} */ (undefined);
effect(() => {
  const present = session.value;
  if (present === undefined || Boolean(present) === signedIn) return;
  signedIn = Boolean(present);
  document.documentElement.dataset.role = present?.role ?? "";
  end();
  const [body, dispose] = scoped(() => (present ? shell() : signIn()));
  end = dispose;
  document.body.replaceChildren(body);
  if (present) {
    // A page of a pipeline shows what lies below its address, too: /listings, /listings/7, /listings/markets.
    for (const { name, module } of present.features) if (module) for (const path of ["", "/:id", "/:id/:part"]) route(`/${name}${path}`, module);
    startRouter();
  }
});

get("/dashboard/session").then(
  (answer) => (session.value = answer.data),
  () => (session.value = null),
);
