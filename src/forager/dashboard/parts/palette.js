// @ts-check
/** The command palette: type a few letters, press Enter. Jobs, lanes and records are searched as you type. */

import { get, session } from "../lib/api.js";
import { go } from "../lib/router.js";
import { html, scoped, signal } from "../lib/view.js";
import { dialog } from "./feedback.js";
import { jobName } from "./states.js";

/** @typedef {{ title: string, beside: string, href: string }} Target */

/** @returns {Target[]} */
const fixed = () => [
  { title: "New job", beside: "action", href: "/jobs/new" },
  ...["Overview", "Jobs", "Records", "Changes", "Dead letters", "Schedules", "Lanes", "Sinks", "System", "Keys"].map((title) => ({
    title, beside: "page", href: title === "Overview" ? "/" : title === "Dead letters" ? "/dead" : `/${title.toLowerCase()}`,
  })),
  { title: "Watches & alerts", beside: "page", href: "/watches" },
  ...(session.peek()?.features ?? []).filter((page) => page.module).map((page) => ({ title: page.title, beside: "pipeline", href: `/${page.name}` })),
];

/** @returns {Promise<Target[]>} */
async function known() {
  const answers = await Promise.allSettled([get("/api/v1/jobs", { limit: 100 }), get("/api/v1/lanes", { limit: 100 }), get("/api/v1/records")]);
  const [jobs, lanes, kinds] = answers.map((each) => (each.status === "fulfilled" ? each.value.data : []));
  return [
    ...jobs.map((/** @type {any} */ job) => ({ title: jobName(job), beside: `${job.pipeline} job · ${job.id.slice(0, 8)}`, href: `/jobs/${job.id}` })),
    ...lanes.map((/** @type {any} */ lane) => ({ title: lane.name, beside: "lane", href: `/lanes/${encodeURIComponent(lane.name)}` })),
    ...kinds.map((/** @type {any} */ kind) => ({ title: kind.kind, beside: "records", href: `/records/${kind.kind}` })),
  ];
}

export function palette() {
  const typed = signal("");
  const at = signal(0);
  const targets = signal(fixed());
  known().then((more) => (targets.value = [...fixed(), ...more]));
  const matches = () => {
    const wanted = typed.value.toLowerCase().split(/\s+/).filter(Boolean);
    return targets.value.filter(({ title, beside, href }) => wanted.every((word) => `${title} ${beside} ${href}`.toLowerCase().includes(word))).slice(0, 12);
  };
  const [content, end] = scoped(() => html`<div>
    <input type="search" aria-label="Jump to" placeholder="Jump to a job, lane, record, page…" autofocus
      @input=${(/** @type {Event} */ event) => ((typed.value = /** @type {HTMLInputElement} */ (event.target).value), (at.value = 0))}
      @keydown=${(/** @type {KeyboardEvent} */ event) => press(event)}>
    <ul role="listbox">${() => matches().map((target, index) => html`<li role="option" aria-selected=${() => String(index === at.value)}
      @click=${() => choose(target)} @pointerenter=${() => (at.value = index)}><span>${target.title}</span><span class="faint">${target.beside}</span></li>`)}</ul></div>`);
  const element = dialog(() => content, "Jump to");
  element.classList.add("palette");
  element.addEventListener("close", end);
  /** @param {Target} target */
  function choose(target) {
    element.close();
    go(target.href);
  }
  /** @param {KeyboardEvent} event */
  function press(event) {
    const step = event.key === "ArrowDown" ? 1 : event.key === "ArrowUp" ? -1 : 0;
    if (step) event.preventDefault(), (at.value = Math.max(0, Math.min(matches().length - 1, at.value + step)));
    const target = matches()[at.value];
    if (event.key === "Enter" && target) choose(target);
  }
}
