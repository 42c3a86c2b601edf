// @ts-check
/** Read a stored page once more, with the readers of now, and compare the fields with those that the task found. */

import { get, post } from "/dashboard/lib/api.js";
import { words } from "/dashboard/lib/format.js";
import { html, signal } from "/dashboard/lib/view.js";
import { dialog } from "/dashboard/parts/feedback.js";
import { tag } from "/dashboard/parts/states.js";

/** A stored page of any age. */
const ANY_AGE = 366 * 86_400;

/** What a person can do with a task of this pipeline. @param {any} task */
export function taskActions(task) {
  if (task.state !== "completed" || !task.url) return null;
  return html`<button class="button writes" @click=${() => readAgain(task)}>Parse again</button>`;
}

/** @param {any} task */
function readAgain(task) {
  const found = signal(/** @type {{ before: any, now: any, stored: boolean } | null} */ (null));
  const problem = signal("");
  compared(task).then((answer) => (found.value = answer), (error) => (problem.value = error.message));
  dialog((close) => html`<div class="inside"><h2>Parse the stored page again</h2><p class="quiet">The stored page is read by the readers of now. Its fields are compared with those that this task found; the task stays as it is.</p>
    ${() => (problem.value ? html`<div class="notice" role="alert">${problem.value}</div>` : found.value ? differences(found.value) : html`<div class="skeleton"></div>`)}
    <div class="row"><button class="button" @click=${close}>Close</button></div></div>`, "Parse the stored page again");
}

/** @param {any} task */
async function compared(task) {
  const { data: earlier } = await get(`/api/v1/scrape/${task.id}`);
  const names = Object.keys(earlier.result ?? {});
  const wanted = earlier.target_type === "page" ? { formats: names } : { requested_fields: names };
  const answer = await post("/api/v1/scrape/sync", { target_url: task.url, target_type: earlier.target_type, max_age: ANY_AGE, ...wanted });
  return { before: earlier.result ?? {}, now: answer.data.result ?? {}, stored: Boolean(answer.meta?.stored) };
}

/** @param {any} value */
const text = (value) => (value === null || value === undefined ? "none" : (typeof value === "object" ? JSON.stringify(value) : String(value)).slice(0, 300));

/** @param {{ before: any, now: any, stored: boolean }} found */
function differences({ before, now, stored }) {
  const names = [...new Set([...Object.keys(before), ...Object.keys(now)])];
  const moved = names.filter((name) => JSON.stringify(before[name] ?? null) !== JSON.stringify(now[name] ?? null));
  return html`<div data-reparse><p class="faint">${stored ? "the stored page" : "its stored page is gone: the page was fetched again"} · ${String(names.length - moved.length)} fields stay</p>
    ${moved.length ? moved.map((name) => html`<div class="look">${tag("running", "changed")}<div><span class="quiet">${words(name)}</span> <del>${text(before[name])}</del> → <ins>${text(now[name])}</ins></div><span></span></div>`) : html`<div class="notice ok">Every field stays as it is.</div>`}</div>`;
}
