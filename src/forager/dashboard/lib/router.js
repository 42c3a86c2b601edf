// @ts-check
/** Addresses and pages. Every page is a module with `page(params, query)`, loaded when it is first opened. */

import { scoped, signal } from "./view.js";

/** A title that is a function follows the signals it reads. @typedef {{ title: string | (() => string), body: Node, actions?: Node | null, state?: Node | null }} Shown */
/** @typedef {{ pattern: RegExp, names: string[], module: string }} Route */

/** The present path and query, for links that mark themselves as current. */
export const place = signal(location.pathname + location.search);
/** The query that each path was last shown with. @type {Map<string, string>} */
const queries = new Map();
const arrived = () => void ((place.value = location.pathname + location.search), queries.set(location.pathname, location.search));
/** A path as a person left it, filters included: for the way back to a list. @param {string} path */
export const asLeft = (path) => path + (queries.get(path) ?? "");
/** What the shell shows. @type {import("./view.js").Signal<Shown | null>} */
export const shown = signal(/** @type {Shown | null} */ (null));

/** @type {Route[]} */
const routes = [];
let end = () => {};
let visit = 0;

/** @param {string} path like "/jobs/:id" @param {string} module relative to /dashboard/ */
export function route(path, module) {
  const names = [...path.matchAll(/:(\w+)/g)].map((found) => found[1] ?? "");
  routes.push({ pattern: new RegExp(`^${path.replace(/:\w+/g, "([^/]+)")}$`), names, module });
}

/** Open an address of the dashboard. @param {string} target @param {{ replace?: boolean }} [options] */
export function go(target, { replace = false } = {}) {
  if (target !== location.pathname + location.search) history[replace ? "replaceState" : "pushState"](null, "", target);
  return open();
}

/** Change the query of the present address without leaving the page. @param {Record<string, unknown>} changes */
export function setQuery(changes) {
  const query = new URLSearchParams(location.search);
  for (const [name, value] of Object.entries(changes)) {
    if (value === undefined || value === null || value === "") query.delete(name);
    else query.set(name, String(value));
  }
  const text = query.toString();
  history.replaceState(null, "", location.pathname + (text ? `?${text}` : ""));
  arrived();
}

export async function open() {
  arrived();
  const mine = ++visit;
  const path = location.pathname.replace(/\/$/, "") || "/";
  for (const { pattern, names, module } of routes) {
    const found = pattern.exec(path);
    if (!found) continue;
    const params = Object.fromEntries(names.map((name, index) => [name, decodeURIComponent(found[index + 1] ?? "")]));
    const loaded = await import(`/dashboard/${module}`);
    if (mine !== visit) return;
    show(() => loaded.page(params, new URLSearchParams(location.search)));
    return;
  }
  const { page } = await import("../pages/missing.js");
  show(() => page());
}

/** @param {() => Shown} make */
function show(make) {
  end();
  const [page, dispose] = scoped(make);
  end = dispose;
  shown.value = page;
  scrollTo(0, 0);
}

/** Follow links inside the page, and the back button. */
export function startRouter() {
  addEventListener("popstate", open);
  document.addEventListener("click", (event) => {
    const link = event.target instanceof Element ? event.target.closest("a[href]") : null;
    if (!(link instanceof HTMLAnchorElement) || link.target || link.hasAttribute("download") || link.origin !== location.origin) return;
    if (event.defaultPrevented || event.button || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
    if (/^\/(api|docs\/plain|openapi|metrics|health|dashboard)\b/.test(link.pathname)) return;
    event.preventDefault();
    go(link.pathname + link.search);
  });
  return open();
}
