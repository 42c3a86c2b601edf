// @ts-check
/** What runs when: schedules, and rechecks that turn due records into tasks. */

import { post, remove } from "../lib/api.js";
import { ago, duration, money, number, utc } from "../lib/format.js";
import { load, whenLoaded } from "../lib/load.js";
import { html } from "../lib/view.js";
import { act, confirmed } from "../parts/feedback.js";
import { scheduleForm } from "../parts/schedule_form.js";
import { tag } from "../parts/states.js";

export function page() {
  const schedules = load("/api/v1/schedules", { every: 15 });
  const rechecks = load("/api/v1/rechecks", { every: 15 });
  const pipelines = load("/api/v1/pipelines");
  /** @param {any} [row] */
  const form = (row) => scheduleForm(pipelines.state.peek().data ?? [], row ?? null, schedules.again);
  /** @param {Event} event @param {any} row */
  const removal = async (event, row) => {
    if (await confirmed(`Remove the schedule ${row.name}? Jobs that it has created stay.`, "Remove")) await act(event, () => remove(`/api/v1/schedules/${encodeURIComponent(row.name)}`).then(schedules.again), "Removed.");
  };
  /** @param {string} path @param {string} verb @param {string} title @param {() => void} reload */
  const button = (path, verb, title, reload) => html`<button class="button writes small" @click=${(/** @type {Event} */ event) => act(event, () => post(`${path}/${verb}`).then(reload), `${title}: done.`)}>${title}</button>`;
  return {
    title: "Schedules",
    actions: html`<button class="button primary writes" ?disabled=${() => !pipelines.state.value.data} @click=${() => form()}>Add a schedule</button>`,
    body: html`<div class="stack">
      <section class="panel"><header><h2>Schedules</h2></header>${whenLoaded(schedules, (rows) => (rows.length ? html`<div class="scroll"><table><thead><tr><th>Schedule</th><th>When</th><th>Next</th><th>Last job</th><th class="num">Per month</th><th></th></tr></thead><tbody>
        ${rows.map((/** @type {any} */ row) => html`<tr data-schedule=${row.name}><td><span class="job-name">${row.name}</span><br><code>${row.pipeline}</code></td><td>${row.cron ? `${row.cron} ${row.timezone}` : `every ${duration(row.every)}`}</td>
          <td title=${utc(row.next_at)}>${row.paused ? tag("paused") : ago(row.next_at)}</td><td>${row.last_job ? html`<a class="link" href=${`/jobs/${row.last_job}`}>${ago(row.last_at)}</a>` : "never"}${row.last_error ? html`<div class="quiet">${row.last_error}</div>` : null}</td>
          <td class="num">${row.per_month?.usd ? money(row.per_month.usd) : "–"}</td>
          <td class="num">${button(`/api/v1/schedules/${encodeURIComponent(row.name)}`, row.paused ? "resume" : "pause", row.paused ? "Resume" : "Pause", schedules.again)} ${button(`/api/v1/schedules/${encodeURIComponent(row.name)}`, "run", "Run now", schedules.again)}
            <button class="button writes small" @click=${() => form(row)}>Change</button> <button class="button writes small danger" @click=${(/** @type {Event} */ event) => removal(event, row)}>Remove</button></td></tr>`)}</tbody></table></div>`
        : html`<div class="empty"><p>No schedules.</p><code>forager schedules add nightly places '{"keyword": "coffee shops", "state": "AZ"}' --cron "0 3 * * *"</code></div>`))}</section>
      <section class="panel"><header><h2>Rechecks</h2><span class="faint">rules that turn due records into tasks</span></header>${whenLoaded(rechecks, (rows) => (rows.length ? html`<div class="scroll"><table><thead><tr><th>Recheck</th><th class="num">Due</th><th>Late</th><th>Next</th><th class="num">Dispatched</th><th></th></tr></thead><tbody>
        ${rows.map((/** @type {any} */ row) => html`<tr><td><span class="job-name">${row.name}</span><br><code>${row.pipeline} · ${row.record}.${row.field}</code></td><td class="num" data-label="due">${number(row.due)}</td><td>${row.late_seconds ? duration(row.late_seconds) : "–"}</td>
          <td title=${utc(row.next_due)}>${row.state === "paused" ? tag("paused") : row.next_due ? ago(row.next_due) : "–"}</td><td class="num" data-label="dispatched">${number(row.dispatched)}</td>
          <td class="num">${button(`/api/v1/rechecks/${encodeURIComponent(row.name)}`, row.state === "paused" ? "resume" : "pause", row.state === "paused" ? "Resume" : "Pause", rechecks.again)}</td></tr>`)}</tbody></table></div>` : html`<div class="empty">No rechecks.</div>`))}</section></div>`,
  };
}
