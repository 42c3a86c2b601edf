// @ts-check
/** All jobs, with filters and actions on several at once. */

import { post, session } from "../lib/api.js";
import { ago, duration, number, utc } from "../lib/format.js";
import { follow } from "../lib/live.js";
import { setQuery } from "../lib/router.js";
import { html, signal } from "../lib/view.js";
import { act, confirmed } from "../parts/feedback.js";
import { jobBar, jobName, progressText, tag } from "../parts/states.js";
import { pagedTable } from "../parts/table.js";

const STATES = ["running", "paused", "completed", "partially_completed", "failed", "cancelled"];

/** @param {Record<string, string>} _params @param {URLSearchParams} query */
export function page(_params, query) {
  const state = signal(query.get("state") ?? "");
  const pipeline = signal(query.get("pipeline") ?? "");
  const again = signal(0);
  const checked = signal(/** @type {Set<string | number>} */ (new Set()));
  let seen = "";
  follow("overview", (now) => {
    const present = now.running.map((/** @type {any} */ job) => `${job.id}${job.completed}${job.state}`).join();
    if (present !== seen && !document.hidden) again.value = again.peek() + 1;
    seen = present;
  });
  /** @param {import("../lib/view.js").Signal<string>} of @param {string} name @param {string} value */
  const choose = (of, name, value) => {
    of.value = of.peek() === value ? "" : value;
    setQuery({ [name]: of.peek() });
  };
  const pipelines = () => session.value?.features.filter((each) => each.pipeline).map((each) => each.name) ?? [];
  /** @param {Event} event @param {string} verb */
  const forAll = (event, verb) => act(event, async () => {
    const ids = [...checked.peek()];
    if (verb === "cancel" && !(await confirmed(`Cancel ${ids.length} jobs? What they have found stays.`, "Cancel jobs"))) return;
    for (const id of ids) await post(`/api/v1/jobs/${id}/${verb}`);
    checked.value = new Set();
    again.value = again.peek() + 1;
  });
  return {
    title: "Jobs",
    actions: html`<a class="button primary writes" href="/jobs/new">New job</a>`,
    body: html`<div>
      <div class="chips" role="group" aria-label="Filters">
        ${STATES.map((each) => html`<button class="chip" aria-pressed=${() => String(state.value === each)} @click=${() => choose(state, "state", each)}>${each.replaceAll("_", " ")}</button>`)}
        <select aria-label="Pipeline" @change=${(/** @type {Event} */ event) => choose(pipeline, "pipeline", /** @type {HTMLSelectElement} */ (event.target).value)}>
          <option value="">All pipelines</option>${() => pipelines().map((each) => html`<option value=${each} ?selected=${each === pipeline.peek()}>${each}</option>`)}</select>
        ${() => (checked.value.size ? html`<span class="row"><span class="quiet">${checked.value.size} selected</span>
          ${["pause", "resume", "retry", "cancel"].map((verb) => html`<button class="button writes small" @click=${(/** @type {Event} */ event) => forAll(event, verb)}>${verb}</button>`)}</span>` : null)}
      </div>
      <section class="panel">${pagedTable({
        path: "/api/v1/jobs", query: () => ({ state: state.value, pipeline: pipeline.value }), keyOf: (job) => job.id, href: (job) => `/jobs/${job.id}`, again, checked,
        columns: [
          { title: "Job", cell: (job) => html`<span class="job-name">${jobName(job)}</span><br><code>${job.pipeline} ${job.id.slice(0, 8)}</code>` },
          { title: "Progress", cell: (job) => html`${jobBar(job)}<span class="quiet">${progressText(job)}</span>` },
          { title: "Records", right: true, wide: true, cell: (job) => number(job.records) },
          { title: "Took", right: true, wide: true, cell: (job) => duration(((job.finished_at ? Date.parse(job.finished_at) : Date.now()) - Date.parse(job.started_at ?? job.created_at)) / 1000) },
          { title: "Started", right: true, wide: true, cell: (job) => html`<span title=${utc(job.created_at)}>${ago(job.created_at)}</span>` },
          { title: "State", cell: (job) => html`${tag(job.waiting && job.state === "running" ? "waiting" : job.state)}
            ${job.waiting || job.reason ? html`<div class="quiet">${job.waiting?.message ?? job.reason}</div>` : null}` },
        ],
        empty: () => html`<p>No job matches.</p><a class="button writes" href="/jobs/new">Start a job</a><code>forager places run --keyword "coffee shops" --state AZ</code>`,
      })}</section></div>`,
  };
}
