// @ts-check
/** One task: its attempts as a time line, the evidence of its failure, its stored page. */

import { get, post } from "../lib/api.js";
import { ago, bytes, duration, moment, number, utc, words } from "../lib/format.js";
import { load, whenLoaded } from "../lib/load.js";
import { html, signal } from "../lib/view.js";
import { act } from "../parts/feedback.js";
import { tag, taskName } from "../parts/states.js";

/** @param {{ id: string }} params */
export function page({ id }) {
  const task = load(`/api/v1/tasks/${id}`);
  const attempts = load(`/api/v1/tasks/${id}/attempts`);
  const stored = signal(/** @type {any} */ (null));
  get(`/api/v1/pages/${id}`).then((answer) => (stored.value = answer.data), () => null);
  const reload = () => (task.again(), attempts.again());
  return {
    title: () => (task.state.value.data ? taskName(task.state.value.data) : "Task"),
    state: html`<span>${() => (task.state.value.data ? tag(task.state.value.data.state) : null)}</span>`,
    actions: html`<span class="row">${() => (task.state.value.data?.state === "failed" ? [
      html`<button class="button writes" @click=${(/** @type {Event} */ event) => act(event, () => post(`/api/v1/dead/${id}/retry`).then(reload), "The task runs again.")}>Retry</button>`,
      html`<button class="button writes danger" @click=${(/** @type {Event} */ event) => act(event, () => post(`/api/v1/dead/${id}/discard`).then(reload), "The dead letter is discarded.")}>Discard</button>`] : null)}</span>`,
    body: html`<div class="stack">
      ${() => (task.state.value.data?.error ? problem(task.state.value.data) : null)}
      <div class="split"><div class="stack">
      <section class="panel"><header><h2>Time line</h2><span class="faint">${() => legend(task.state.value.data)}</span></header>${whenLoaded(attempts, (rows) => timeline(rows, task.state.value.data))}</section>
      ${() => evidence(id, task.state.value.data?.evidence)}
      ${() => storedPages(stored.value)}
      </div><section class="panel"><header><h2>About this task</h2></header>${whenLoaded(task, (data) => html`<dl class="pairs">
        <dt>Target</dt><dd>${data.url ? html`<a class="link" href=${data.url} target="_blank" rel="noreferrer">${data.url}</a>` : data.key}</dd>
        <dt>Job</dt><dd><a class="link" href=${`/jobs/${data.job}`}>${data.job}</a></dd><dt>Kind</dt><dd>${data.kind}</dd>
        <dt>Lane</dt><dd><a class="link" href=${`/lanes/${encodeURIComponent(data.lane)}`}>${data.lane}</a></dd>
        <dt>Attempts</dt><dd>${number(data.attempts)}</dd><dt>Cost</dt><dd>${number(data.cost)} credits</dd>
        ${data.due_at && !data.ended_at ? html`<dt>Due</dt><dd title=${utc(data.due_at)}>${moment(data.due_at)}</dd>` : null}
        ${data.ended_at ? html`<dt>Ended</dt><dd title=${utc(data.ended_at)}>${moment(data.ended_at)}</dd>` : null}
        ${Object.entries(data.facts ?? {}).map(([name, value]) => html`<dt>${words(name)}</dt><dd>${name.endsWith("_ms") ? duration(Number(value) / 1000) : typeof value === "object" ? JSON.stringify(value) : String(value)}</dd>`)}</dl>`)}</section></div>
    </div>`,
  };
}

/** What went wrong and what happens next. @param {any} task */
function problem(task) {
  const next = task.state === "failed" ? "It is not tried again by itself: retry it once the cause is gone." : task.due_at && !task.ended_at ? `The next attempt comes ${ago(task.due_at)}.` : "";
  return html`<div class=${`notice ${task.state === "failed" ? "" : "warn"}`}>${task.reason ? html`<strong>${words(task.reason)}</strong> · ` : null}${task.error} ${next}</div>`;
}

/** @param {any} task */
const legend = (task) => (task ? `${number(task.attempts)} ${task.attempts === 1 ? "attempt" : "attempts"} that count` : "");

/** Each attempt as a bar over the whole life of the task: grey before it, then the attempt itself. @param {any[]} rows @param {any} task */
function timeline(rows, task) {
  if (!rows.length) return html`<div class="empty">${task?.state === "completed" ? "It was completed at the first attempt; successful attempts of this kind are not kept." : "No attempt has ended yet."}</div>`;
  const first = Math.min(...rows.map((row) => Date.parse(row.started_at)));
  const last = Math.max(...rows.map((row) => Date.parse(row.started_at) + row.duration_ms));
  const span = Math.max(1, last - first);
  return html`<div class="scroll"><table><thead><tr><th>Attempt</th><th>Queued and waiting, then at work</th><th class="num">Took</th><th>How it ended</th></tr></thead><tbody>
    ${rows.map((row) => html`<tr><td class="nowrap"><span class="job-name">${String(row.attempt)}</span> <span class="faint" title=${utc(row.started_at)}>${moment(row.started_at)}</span></td>
      <td><div class="steps" role="img" aria-label=${`attempt ${row.attempt}: ${row.status} after ${duration(row.duration_ms / 1000)}`}><i class="queued" --share=${(Date.parse(row.started_at) - first) / span}></i><i class=${row.status === "completed" ? "ran" : row.status === "failed" ? "failed" : "waited"} --share=${Math.max(0.01, row.duration_ms / span)}></i></div></td>
      <td class="num">${duration(row.duration_ms / 1000)}</td><td>${tag(row.status)} <span class="quiet">${words(row.reason)}${row.message ? ` · ${row.message}` : ""}</span>
        ${row.traceback ? html`<details><summary class="faint">where in the code</summary><pre>${row.traceback}</pre></details>` : null}</td></tr>`)}</tbody></table></div>`;
}

/** The page as it was fetched: a picture is shown, everything else is source or a download. @param {any} page */
function storedPages(page) {
  if (!page?.files?.length) return html`<section class="panel"><header><h2>Stored page</h2></header><div class="empty">No page of this task is stored. A scrape stores it with the formats html or screenshot.</div></section>`;
  const source = signal("");
  return html`<section class="panel"><header><h2>Stored page</h2><span class="faint">fetched ${moment(page.fetched_at)}${page.status ? ` · status ${page.status}` : ""}</span></header>
    ${page.files.map((/** @type {any} */ file) => html`<div class="look">${tag("", file.name)}<div><div class="strong">${file.content_type}</div><div class="quiet">${bytes(file.size)}</div></div>
      <span class="row">${file.content_type.startsWith("image/") ? null : html`<button class="button small" @click=${() => fetch(file.path).then((answer) => answer.text()).then((text) => (source.value = source.peek() ? "" : text.slice(0, 60_000)))}>Source</button>`}
      <a class="button small" href=${file.path} download=${file.file_name}>Download</a></span></div>
      ${file.content_type.startsWith("image/") ? html`<img class="shot" alt="Screenshot of the page" src=${file.path}>` : null}`)}
    ${() => (source.value ? html`<pre class="source" tabindex="0">${source.value}</pre>` : null)}</section>`;
}

/** The answer that a failed task got: as text, never as markup. @param {string} id @param {any} kept */
function evidence(id, kept) {
  if (!kept) return null;
  return html`<section class="panel"><header><h2>Evidence</h2><span class="faint">${kept.content_type} · ${bytes(kept.size)} · kept until ${moment(kept.kept_until)}</span></header>
    <pre class="source" tabindex="0">${kept.text.slice(0, 20_000)}</pre>
    ${kept.has_screenshot ? html`<img class="shot" alt="Screenshot of the page" src=${`/api/v1/dead/${id}/screenshot`}>` : null}</section>`;
}
