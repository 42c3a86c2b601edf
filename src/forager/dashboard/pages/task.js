// @ts-check
/** One task: its attempts as a time line, the evidence of its failure, its stored page. */

import { address, get, post, session } from "../lib/api.js";
import { ago, bytes, duration, moment, number, spent, utc, words } from "../lib/format.js";
import { load, whenLoaded } from "../lib/load.js";
import { effect, html, signal } from "../lib/view.js";
import { act } from "../parts/feedback.js";
import { jobName, tag, taskName } from "../parts/states.js";
import { lifeOf } from "../parts/timeline.js";

/** @param {{ id: string }} params */
export function page({ id }) {
  const task = load(`/api/v1/tasks/${id}`);
  const attempts = load(`/api/v1/tasks/${id}/attempts`);
  const job = load(() => (task.state.value.data ? `/api/v1/jobs/${task.state.value.data.job}` : null));
  const kinds = load("/api/v1/records");
  const pipelines = load("/api/v1/pipelines");
  const stored = signal(/** @type {any} */ (null));
  effect(() => {
    const [now, all] = [task.state.value.data, kinds.state.value.data];
    if (now && all && !stored.peek()) storedPage(now, all).then((found) => (stored.value = found), () => null);
  });
  const reload = () => (task.again(), attempts.again());
  /** What the pipeline's own page can do with one of its tasks. */
  const own = signal(/** @type {unknown} */ (null));
  effect(() => {
    const [now, of] = [task.state.value.data, job.state.value.data];
    const module = of && session.peek()?.features.find((each) => each.name === of.pipeline)?.module;
    if (now && module) import(`/dashboard/${module}`).then((found) => (own.value = found.taskActions?.(now, reload) ?? null), () => null);
  });
  return {
    title: () => (task.state.value.data ? taskName(task.state.value.data) : "Task"),
    state: html`<span>${() => (task.state.value.data ? tag(task.state.value.data.state) : null)}</span>`,
    actions: html`<span class="row">${() => own.value}${() => (task.state.value.data?.state === "failed" ? [
      html`<button class="button writes" @click=${(/** @type {Event} */ event) => act(event, () => post(`/api/v1/dead/${id}/retry`).then(reload), "The task runs again.")}>Retry</button>`,
      html`<button class="button writes danger" @click=${(/** @type {Event} */ event) => act(event, () => post(`/api/v1/dead/${id}/discard`).then(reload), "The dead letter is discarded.")}>Discard</button>`] : null)}</span>`,
    body: html`<div class="stack">
      ${() => (task.state.value.data?.error ? problem(task.state.value.data) : null)}
      <div class="split"><div class="stack">
      <section class="panel"><header><h2>Time line</h2><span class="faint">${() => legend(task.state.value.data)}</span></header>${whenLoaded(attempts, (rows) => lifeOf(task.state.value.data, rows, job.state.value.data))}</section>
      ${() => evidence(id, task.state.value.data?.evidence)}
      ${() => storedPages(stored.value)}
      </div><div class="stack"><section class="panel"><header><h2>About this task</h2></header>${whenLoaded(task, (data) => html`<dl class="pairs">
        <dt>Target</dt><dd>${data.url ? html`<a class="link" href=${data.url} target="_blank" rel="noreferrer">${data.url}</a>` : data.key}</dd>
        <dt>Job</dt><dd><a class="link" href=${`/jobs/${data.job}`}>${() => (job.state.value.data ? jobName(job.state.value.data) : data.job)}</a></dd><dt>Kind</dt><dd>${data.kind}</dd>
        <dt>Lane</dt><dd><a class="link" href=${`/lanes/${encodeURIComponent(data.lane)}`}>${data.lane}</a></dd>
        <dt>Attempts</dt><dd>${number(data.attempts)}</dd><dt>Cost</dt><dd>${spent(data.kind.split(".")[0], data.cost)}</dd>
        ${data.due_at && !data.ended_at ? html`<dt>Due</dt><dd title=${utc(data.due_at)}>${moment(data.due_at)}</dd>` : null}
        ${data.ended_at ? html`<dt>Ended</dt><dd title=${utc(data.ended_at)}>${moment(data.ended_at)}</dd>` : null}
        ${Object.entries(data.facts ?? {}).filter(([name]) => !/^(lane|fetch|parse)_ms$/.test(name)).map(([name, value]) => html`<dt>${words(name)}</dt><dd>${name.endsWith("_ms") ? duration(Number(value) / 1000) : typeof value === "object" ? JSON.stringify(value) : String(value)}</dd>`)}</dl>`)}</section>
      <section class="panel"><header><h2>Records</h2></header>${() => written(task.state.value.data, job.state.value.data, kinds.state.value.data, pipelines.state.value.data)}</section></div></div>
    </div>`,
  };
}

/** The page that the task has stored, or that a record of its address refers to. @param {any} task @param {any[]} kinds */
async function storedPage(task, kinds) {
  let { data: rows } = await get("/api/v1/pages", { task: task.id });
  if (!rows.length && task.url && kinds.some((kind) => kind.kind === "page")) ({ data: rows } = await get("/api/v1/pages", { url: task.url }));
  return rows.length ? (await get(rows[0].path)).data : null;
}

/** Where the records are that it wrote: those of its address, and those of its job. @param {any} task @param {any} job @param {any[] | null} kinds @param {any[] | null} pipelines */
function written(task, job, kinds, pipelines) {
  if (!task || !job || !kinds || !pipelines) return html`<div class="skeleton"></div>`;
  const mine = pipelines.find((each) => each.name === job.pipeline)?.records ?? [];
  const found = kinds.filter((kind) => mine.includes(kind.kind));
  const rows = found.flatMap((kind) => {
    const field = task.url ? ["url", "page_url"].find((name) => kind.filters.includes(name)) : undefined;
    if (field) return [{ kind, href: address(`/records/${kind.kind}`, { [field]: task.url }), beside: "of this address" }];
    return kind.per_job ? [{ kind, href: `/records/${kind.kind}?job=${task.job}`, beside: "of its job" }] : [];
  });
  if (!rows.length) return html`<div class="quiet">Changes are noted by job. <a class="link" href="/changes">See the change log</a></div>`;
  return rows.map(({ kind, href, beside }) => html`<a class="look" href=${href}>${tag("", words(kind.kind))}<span class="quiet">${beside}</span><span class="faint">Open</span></a>`);
}

/** What went wrong and what happens next. @param {any} task */
function problem(task) {
  const next = task.state === "failed" ? "It is not tried again by itself: retry it once the cause is gone." : task.due_at && !task.ended_at ? `The next attempt comes ${ago(task.due_at)}.` : "";
  return html`<div class=${`notice ${task.state === "failed" ? "" : "warn"}`}>${task.reason ? html`<strong>${words(task.reason)}</strong> · ` : null}${task.error} ${next}</div>`;
}

/** @param {any} task */
const legend = (task) => (task ? `${task.attempts === 1 ? "1 attempt that counts" : `${number(task.attempts)} attempts that count`}` : "");

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
