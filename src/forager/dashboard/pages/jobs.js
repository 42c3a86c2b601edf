// @ts-check
/** All jobs, with filters and actions on several at once. */

import { get, post, session } from "../lib/api.js";
import { ago, duration, number, plural, utc } from "../lib/format.js";
import { follow } from "../lib/live.js";
import { setQuery } from "../lib/router.js";
import { effect, html, signal } from "../lib/view.js";
import { act, confirmed, toast } from "../parts/feedback.js";
import { jobBar, jobName, progressText, tag } from "../parts/states.js";
import { pagedTable } from "../parts/table.js";

/** The jobs that an action can change, for “all that match”. @type {Record<string, (job: any) => boolean>} */
const FITS = { pause: (job) => job.state === "running" || job.state === "queued", resume: (job) => job.state === "paused", retry: (job) => job.failed > 0, cancel: (job) => !job.finished_at };
const STATES = ["queued", "running", "paused", "completed", "partially_completed", "failed", "cancelled"];

/** @param {Record<string, string>} _params @param {URLSearchParams} query */
export function page(_params, query) {
  const state = signal(query.get("state") ?? "");
  const pipeline = signal(query.get("pipeline") ?? "");
  const again = signal(0);
  const checked = signal(/** @type {Set<string | number>} */ (new Set()));
  let seen = "";
  /** The running jobs of the stream: their rows move by it, and are read again only when one begins, ends or changes its state. */
  const live = signal(/** @type {Map<string, any>} */ (new Map()));
  /** @param {any} row */
  const newest = (row) => ({ ...row, ...live.value.get(row.id) });
  follow("overview", (now) => {
    live.value = new Map(now.running.map((/** @type {any} */ job) => [job.id, job]));
    const present = now.running.map((/** @type {any} */ job) => `${job.id}${job.state}`).join();
    if (present !== seen && !document.hidden) again.value = again.peek() + 1;
    seen = present;
  });
  /** @param {import("../lib/view.js").Signal<string>} of @param {string} name @param {string} value */
  const choose = (of, name, value) => {
    of.value = of.peek() === value ? "" : value;
    setQuery({ [name]: of.peek() });
  };
  const pipelines = () => session.value?.features.filter((each) => each.pipeline).map((each) => each.name) ?? [];
  const prefix = signal(query.get("id") ?? "");
  const filters = () => ({ state: state.value, pipeline: pipeline.value, id: /^[0-9a-f-]{4,36}$/.test(prefix.value) ? prefix.value : "" });
  const all = signal(false);
  effect(() => {
    filters();
    all.value = false;
    checked.value = new Set();
  });
  /** The ids that an action is for: those that are checked, or every job that matches the filters. @param {string} verb */
  async function chosen(verb) {
    if (!all.peek()) return [...checked.peek()];
    const found = [];
    let cursor = /** @type {string | null} */ (null);
    do {
      const answer = await get("/api/v1/jobs", { ...filters(), limit: 500, cursor });
      found.push(...answer.data.filter(/** @type {(job: any) => boolean} */ (FITS[verb] ?? (() => true))));
      cursor = answer.meta?.next_cursor ?? null;
    } while (cursor);
    return found.map((job) => job.id);
  }
  /** @param {Event} event @param {string} verb */
  const forAll = (event, verb) => act(event, async () => {
    const ids = await chosen(verb);
    if (verb === "cancel" && ids.length && !(await confirmed(`Cancel ${plural(ids.length, "job")}? What they have found stays.`, "Cancel jobs"))) return;
    /** @type {string[]} */
    const refused = [];
    for (const id of ids) await post(`/api/v1/jobs/${id}/${verb}`).catch((error) => refused.push(error.message));
    checked.value = new Set();
    all.value = false;
    again.value = again.peek() + 1;
    if (refused.length) throw new Error(`${number(ids.length - refused.length)} of ${plural(ids.length, "job")}: done. ${refused[0]}`);
    toast(ids.length ? `${plural(ids.length, "job")}: done.` : "No job that matches can be changed that way.");
  });
  return {
    title: "Jobs",
    actions: html`<a class="button primary writes" href="/jobs/new">New job</a>`,
    body: html`<div>
      <div class="chips" role="group" aria-label="Filters">
        ${STATES.map((each) => html`<button class="chip" aria-pressed=${() => String(state.value === each)} @click=${() => choose(state, "state", each)}>${each.replaceAll("_", " ")}</button>`)}
        <label class=${() => `pill ${pipeline.value ? "on" : ""}`}><span>Pipeline</span><select aria-label="Pipeline" @change=${(/** @type {Event} */ event) => choose(pipeline, "pipeline", /** @type {HTMLSelectElement} */ (event.target).value)}>
          <option value="">all</option>${() => pipelines().map((each) => html`<option value=${each} ?selected=${each === pipeline.peek()}>${each}</option>`)}</select></label>
        <label class=${() => `pill ${prefix.value ? "on" : ""}`}><span>Id</span><input type="text" aria-label="First characters of the id" placeholder="any" .value=${prefix.peek()} @input=${(/** @type {Event} */ event) => ((prefix.value = /** @type {HTMLInputElement} */ (event.target).value.trim().toLowerCase()), setQuery({ id: prefix.peek() }))}></label>
        ${() => (checked.value.size || all.value ? html`<span class="row"><span class="quiet">${all.value ? "every job that matches" : `${number(checked.value.size)} selected`}</span>
          ${all.value ? null : html`<button class="button plain small" @click=${() => (all.value = true)}>Select all that match</button>`}
          ${["pause", "resume", "retry", "cancel"].map((verb) => html`<button class="button writes small" @click=${(/** @type {Event} */ event) => forAll(event, verb)}>${verb}</button>`)}</span>` : null)}
      </div>
      <section class="panel">${pagedTable({
        path: "/api/v1/jobs", query: filters, keyOf: (job) => job.id, href: (job) => `/jobs/${job.id}`, again, checked,
        columns: [
          { title: "Job", cell: (job) => html`<span class="job-name">${jobName(job)}</span><br><code>${job.pipeline} ${job.id.slice(0, 8)}</code>` },
          { title: "Progress", cell: (row) => html`${jobBar(newest(row))}<span class="quiet">${progressText(newest(row))}</span>` },
          { title: "Records", right: true, wide: true, cell: (job) => number(job.records) },
          { title: "Took", right: true, wide: true, cell: (job) => duration(((job.finished_at ? Date.parse(job.finished_at) : Date.now()) - Date.parse(job.started_at ?? job.created_at)) / 1000) },
          { title: "Started", right: true, wide: true, cell: (job) => html`<span title=${utc(job.created_at)}>${ago(job.created_at)}</span>` },
          { title: "State", cell: (row) => stateOf(newest(row)) },
        ],
        empty: () => html`<p>No job matches.</p><a class="button writes" href="/jobs/new">Start a job</a><code>forager places run --keyword "coffee shops" --state AZ</code>`,
      })}</section></div>`,
  };
}

/** @param {any} job */
const stateOf = (job) => html`${tag(job.waiting && job.state === "running" ? "waiting" : job.state)}
  ${job.waiting || job.reason ? html`<div class="quiet">${job.waiting?.message ?? (job.reason === "budget" ? "stopped at its limit" : job.reason)}</div>` : null}`;
