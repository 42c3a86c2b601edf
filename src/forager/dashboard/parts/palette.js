// @ts-check
/** The command palette: type a few letters, press Enter. Jobs, lanes and pages are found as you type, jobs by their id and records by their text as soon as you pause. */

import { get, mayWrite, post, session } from "../lib/api.js";
import { go } from "../lib/router.js";
import { html, scoped, signal } from "../lib/view.js";
import { nameOf } from "../pages/records.js";
import { dialog, toast } from "./feedback.js";
import { jobName } from "./states.js";

/** `run` instead of an address: an action. @typedef {{ title: string, beside: string, href: string, run?: () => Promise<unknown> }} Target */

const PAUSE_MS = 300;
/** Kinds whose records are searched: the best known one of each pipeline. */
const SEARCHED = ["product", "listing", "place", "site_page"];

/** @returns {Target[]} */
const fixed = () => [
  { title: "New job", beside: "action", href: "/jobs/new" },
  ...["Overview", "Jobs", "Records", "Changes", "Dead letters", "Schedules", "Lanes", "Sinks", "System", "Keys"].map((title) => ({
    title, beside: "page", href: title === "Overview" ? "/" : title === "Dead letters" ? "/dead" : `/${title.toLowerCase()}`,
  })),
  { title: "Watches & alerts", beside: "page", href: "/watches" },
  { title: "API", beside: "page", href: "/docs" },
  ...(session.peek()?.features ?? []).filter((page) => page.module).map((page) => ({ title: page.title, beside: "pipeline", href: `/${page.name}` })),
];

/** @returns {Promise<Target[]>} */
async function known() {
  const answers = await Promise.allSettled([get("/api/v1/jobs", { limit: 100 }), get("/api/v1/lanes", { limit: 100 }), get("/api/v1/records")]);
  const [jobs, lanes, kinds] = answers.map((each) => (each.status === "fulfilled" ? each.value.data : []));
  return [
    ...jobs.filter((/** @type {any} */ job) => mayWrite() && !job.finished_at).map((/** @type {any} */ job) => steer(job, job.state === "paused" ? "resume" : "pause")),
    ...lanes.filter(() => mayWrite()).map((/** @type {any} */ lane) => ({ title: `${lane.paused ? "Resume" : "Pause"} lane ${lane.name}`, beside: "action", href: `/lanes/${encodeURIComponent(lane.name)}`,
      run: () => post(`/api/v1/lanes/${encodeURIComponent(lane.name)}/${lane.paused ? "resume" : "pause"}`) })),
    ...jobs.map((/** @type {any} */ job) => ({ title: jobName(job), beside: `${job.pipeline} job · ${job.id.slice(0, 8)}`, href: `/jobs/${job.id}` })),
    ...lanes.map((/** @type {any} */ lane) => ({ title: lane.name, beside: "lane", href: `/lanes/${encodeURIComponent(lane.name)}` })),
    ...kinds.map((/** @type {any} */ kind) => ({ title: kind.kind, beside: "records", href: `/records/${kind.kind}` })),
  ];
}

/** @param {any} job @param {string} verb @returns {Target} */
const steer = (job, verb) => ({ title: `${verb === "pause" ? "Pause" : "Resume"} ${jobName(job)}`, beside: `action · ${job.id.slice(0, 8)}`, href: `/jobs/${job.id}`, run: () => post(`/api/v1/jobs/${job.id}/${verb}`) });

/** What only the store knows: a job by the first characters of its id, a record by its text. @param {string} text @returns {Promise<Target[]>} */
async function searched(text) {
  /** @type {Promise<Target[]>[]} */
  const asked = [];
  if (/^[0-9a-f-]{4,36}$/.test(text)) asked.push(get("/api/v1/jobs", { id: text, limit: 5 }).then((answer) => answer.data.map((/** @type {any} */ job) => ({ title: jobName(job), beside: `${job.pipeline} job · ${job.id}`, href: `/jobs/${job.id}` }))));
  for (const kind of SEARCHED) {
    asked.push(get(`/api/v1/records/${kind}`, { search: text, limit: 3 }).then((answer) => answer.data.map((/** @type {any} */ row) => ({ title: nameOf(row), beside: kind.replaceAll("_", " "), href: `/records/${kind}/${encodeURIComponent(String(row._key ?? row.key ?? Object.values(row)[0]))}` }))));
  }
  const answers = await Promise.allSettled(asked);
  return answers.flatMap((each) => (each.status === "fulfilled" ? each.value : []));
}

export function palette() {
  const found = signal(/** @type {Target[]} */ ([]));
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  let timer;
  /** @param {string} text */
  const look = (text) => {
    clearTimeout(timer);
    found.value = [];
    if (text.length > 2) timer = setTimeout(() => searched(text).then((more) => text === typed.peek().trim().toLowerCase() && (found.value = more)), PAUSE_MS);
  };
  const typed = signal("");
  const at = signal(0);
  const targets = signal(fixed());
  known().then((more) => (targets.value = [...fixed(), ...more]));
  const matches = () => {
    const wanted = typed.value.toLowerCase().split(/\s+/).filter(Boolean);
    return targets.value.filter(({ title, beside, href }) => wanted.every((word) => `${title} ${beside} ${href}`.toLowerCase().includes(word))).slice(0, 12).concat(found.value).slice(0, 16);
  };
  const [content, end] = scoped(() => html`<div>
    <input type="search" aria-label="Jump to" placeholder="Jump to a job, lane, record, page…" autofocus
      @input=${(/** @type {Event} */ event) => ((typed.value = /** @type {HTMLInputElement} */ (event.target).value), (at.value = 0), look(typed.peek().trim().toLowerCase()))}
      @keydown=${(/** @type {KeyboardEvent} */ event) => press(event)}>
    <ul role="listbox">${() => matches().map((target, index) => html`<li role="option" aria-selected=${() => String(index === at.value)}
      @click=${() => choose(target)} @pointerenter=${() => (at.value = index)}><span>${target.title}</span><span class="faint">${target.beside}</span></li>`)}</ul></div>`);
  const element = dialog(() => content, "Jump to");
  element.classList.add("palette");
  element.addEventListener("close", end);
  /** @param {Target} target */
  function choose(target) {
    element.close();
    if (target.run) target.run().then(() => toast(`${target.title}: done.`), (error) => toast(error.message, { bad: true }));
    else go(target.href);
  }
  /** @param {KeyboardEvent} event */
  function press(event) {
    const step = event.key === "ArrowDown" ? 1 : event.key === "ArrowUp" ? -1 : 0;
    if (step) event.preventDefault(), (at.value = Math.max(0, Math.min(matches().length - 1, at.value + step)));
    const target = matches()[at.value];
    if (event.key === "Enter" && target) choose(target);
  }
}
