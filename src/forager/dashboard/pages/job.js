// @ts-check
/** One job: progress, rate, cost, why it waits, its tasks, events, records and parameters. */

import { address, post } from "../lib/api.js";
import { ago, duration, moment, number, plural, rate, spent, utc, words } from "../lib/format.js";
import { follow } from "../lib/live.js";
import { load, onceLoaded, whenLoaded } from "../lib/load.js";
import { setQuery } from "../lib/router.js";
import { effect, html, signal } from "../lib/view.js";
import { act, confirmed } from "../parts/feedback.js";
import { explained } from "../parts/explain.js";
import { jobBar, jobName, progressText, tag, taskName } from "../parts/states.js";
import { retryAll } from "../parts/retry.js";
import { pagedTable, virtualTable } from "../parts/table.js";

const TASK_STATES = ["queued", "running", "completed", "failed", "skipped", "cancelled"];
/** While tasks end, the lists of a job are read again no more often than this. */
const REFRESH_MS = 10_000;
/** @param {any} job */
const ended = (job) => job.completed + job.failed + job.skipped;
/** Skipped tasks of a job that are counted one by one. */
const MOST_COUNTED = 1000;
const ENDED = ["completed", "partially_completed", "failed", "cancelled"];

/** @param {{ id: string }} params @param {URLSearchParams} query */
export function page({ id }, query) {
  const job = load(`/api/v1/jobs/${id}`);
  const tab = signal(query.get("tab") ?? "tasks");
  const again = signal(0);
  let refreshed = Date.now();
  follow(`job:${id}`, (data) => {
    const before = job.state.peek().data;
    job.put({ ...before, ...data });
    if (before && before.state !== data.state) again.value = again.peek() + 1;
    else if (before && ended(before) !== ended(data) && Date.now() - refreshed > REFRESH_MS) (refreshed = Date.now()), (again.value = again.peek() + 1);
  });
  /** @param {Event} event @param {string} verb @param {string} done */
  const steer = (event, verb, done) => act(event, async () => {
    if (verb === "cancel" && !(await confirmed("Cancel this job? What it has found stays.", "Cancel job"))) return;
    await post(`/api/v1/jobs/${id}/${verb}`);
    job.again();
    again.value = again.peek() + 1;
  }, done);
  const data = () => job.state.value.data;
  return {
    title: () => (data() ? jobName(data()) : "Job"),
    state: html`<span>${() => (data() ? tag(data().waiting && data().state === "running" ? "waiting" : data().state) : null)}</span>`,
    actions: html`<span class="row">${() => actions(data(), steer)}</span>`,
    body: html`<div>${onceLoaded(job, () => html`<div class="stack">
      ${head(data)}
      <section class="panel">
        <div class="tabs" role="tablist">${["tasks", "failures", "records", "sinks", "rejected", "events", "parameters"].map((each) => html`<button role="tab" aria-selected=${() => String(tab.value === each)} @click=${() => (setQuery({ tab: each === "tasks" ? "" : each, state: "", reason: "", text: "" }), (tab.value = each))}>${each}</button>`)}</div>
        ${() => (TABS[tab.value] ?? tasks)(id, data, again, query)}
      </section></div>`)}</div>`,
  };
}

/** @param {any} job @param {(event: Event, verb: string, done: string) => void} steer */
function actions(job, steer) {
  if (!job) return null;
  /** @param {string} verb @param {string} title @param {string} done */
  const button = (verb, title, done) => html`<button class="button writes" @click=${(/** @type {Event} */ event) => steer(event, verb, done)}>${title}</button>`;
  return [
    ENDED.includes(job.state) ? null : job.state === "paused" ? button("resume", "Resume", "The job runs again.") : button("pause", "Pause", "The job is paused."),
    job.failed ? button("retry", `Retry ${number(job.failed)} failed`, "The failed tasks run again.") : null,
    ENDED.includes(job.state) ? null : button("cancel", "Cancel", "The job is cancelled."),
    html`<a class="button writes" href=${`/jobs/new?from=${job.id}`}>Clone</a>`,
  ];
}

/** How a job ended that was stopped by its own limit, and what it left out. @param {() => any} data */
function atLimit(data) {
  const { id } = data();
  const skipped = load(`/api/v1/jobs/${id}/tasks`, { query: { state: "skipped", reason: "budget", limit: MOST_COUNTED } });
  return html`<div class="notice warn">${() => {
    const { max_cost: most, pipeline } = data();
    const { data: left, meta } = skipped.state.value;
    const noun = ["listings", "reviews"].includes(pipeline) ? "task" : "page";
    const told = left?.length ? `; ${meta?.next_cursor ? "more than " : ""}${plural(left.length, noun)} ${left.length === 1 ? "was" : "were"} skipped` : "";
    return `Stopped at your limit${most === null || most === undefined ? "" : ` of ${spent(pipeline, most)}`}${told}.`;
  }}</div>`;
}

/** @param {() => any} data */
function head(data) {
  const limited = signal(false);
  effect(() => void (limited.value = data().reason === "budget" && ENDED.includes(data().state)));
  const figures = () => {
    const job = data();
    const seconds = ((job.finished_at ? Date.parse(job.finished_at) : Date.now()) - Date.parse(job.started_at ?? job.created_at)) / 1000;
    const ended = job.completed + job.failed + job.skipped;
    const perSecond = job.rate ?? (seconds > 1 ? ended / seconds : null);
    const left = perSecond && !job.finished_at ? (job.seconds_left ?? (job.total - ended) / perSecond) : null;
    return [["Rate", rate(perSecond)], ["Left", job.finished_at ? "ended" : job.state === "paused" ? "paused" : duration(left)], ["Records", number(job.records)], ["Retries", number(job.retries)],
      ["Spent", `${spent(job.pipeline, job.spent)}${job.max_cost ? ` of ${spent(job.pipeline, job.max_cost)}` : ""}`], ["Took", duration(seconds)]];
  };
  return html`<section class="panel stack">
    <div class="spread"><code>${() => `${data().pipeline} · ${data().id}`}</code>
      <span class="quiet nowrap" title=${() => utc(data().created_at)}>${() => `created ${ago(data().created_at)}`}</span></div>
    <div>${() => jobBar(data())}<div class="quiet">${() => progressText(data())}</div></div>
    ${() => (data().waiting ? html`<div class="notice warn">${data().waiting.message}</div>` : null)}
    ${() => (limited.value ? atLimit(data) : null)}
    ${() => (data().reason && !data().waiting && !limited.value ? html`<div class=${`notice ${data().state === "paused" ? "warn" : ""}`}>${data().state === "paused" ? html`<strong>Paused</strong> · ` : null}${data().reason}</div>` : null)}
    <div class="figures">${() => figures().map(([label, value]) => html`<div><div class="label">${explained(label ?? "")}</div><div class="value">${value}</div></div>`)}</div>
  </section>`;
}

/** Reason and error of a task in one line; an error that only repeats its reason is left out. @param {any} task */
function whyOf(task) {
  const reason = words(task.reason);
  const error = words(task.error) === reason ? "" : (task.error ?? "");
  return [reason, error].filter(Boolean).join(": ");
}

/** @typedef {(id: string, data: () => any, again: import("../lib/view.js").Signal<number>, query: URLSearchParams) => unknown} Tab */
/** @type {Record<string, Tab>} */
const TABS = { tasks, failures, records, sinks, rejected, events: past, parameters };

/** @type {Tab} */
function tasks(id, _data, again, query) {
  const [state, reason, text] = ["state", "reason", "text"].map((name) => signal(query.get(name) ?? ""));
  if (!state || !reason || !text) return null;
  effect(() => setQuery({ state: state.value, reason: reason.value, text: text.value }));
  const reasons = load("/api/v1/dead/reasons", { query: () => (again.value, { job: id }) });
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  let timer;
  /** @param {Event} event */
  const typed = (event) => {
    clearTimeout(timer);
    const { value } = /** @type {HTMLInputElement} */ (event.target);
    timer = setTimeout(() => (text.value = value.trim()), 250);
  };
  return html`<div><div class="chips"><label class=${() => `pill ${text.value ? "on" : ""}`}><span>Find</span><input type="search" aria-label="Find tasks" placeholder="key or address" .value=${text.peek()} @input=${typed}></label>${TASK_STATES.map((each) => html`<button class="chip" aria-pressed=${() => String(state.value === each)} @click=${() => (state.value = state.peek() === each ? "" : each)}>${each}</button>`)}
      ${() => (reasons.state.value.data?.some((/** @type {any} */ each) => each.reason) ? html`<select aria-label="Reason" @change=${(/** @type {Event} */ event) => (reason.value = /** @type {HTMLSelectElement} */ (event.target).value)}><option value="">Any reason</option>${reasons.state.value.data.filter((/** @type {any} */ each) => each.reason).map((/** @type {any} */ each) => html`<option value=${each.reason} ?selected=${each.reason === reason.peek()}>${words(each.reason)}</option>`)}</select>` : null)}</div>
    ${virtualTable({
      path: `/api/v1/jobs/${id}/tasks`, query: () => ({ state: state.value, reason: reason.value, text: text.value }), again, widths: "minmax(150px, 2fr) 100px 70px minmax(120px, 2fr) 96px",
      columns: [
        { title: "Task", cell: (task) => html`<a class="link" href=${`/tasks/${task.id}`}>${taskName(task)}</a>` },
        { title: "State", cell: (task) => tag(task.state) },
        { title: "Attempts", right: true, wide: true, cell: (task) => number(task.attempts) },
        { title: "Reason", wide: true, cell: (task) => html`<span class="quiet" title=${task.error ?? ""}>${whyOf(task)}</span>` },
        { title: "Ended", right: true, wide: true, cell: (task) => html`<span class="faint" title=${utc(task.ended_at)}>${task.ended_at ? ago(task.ended_at) : ""}</span>` },
      ],
      empty: () => (state.value || reason.value || text.value ? "No task of this job matches." : "This job has no tasks yet."),
    })}</div>`;
}

/** @type {Tab} */
function records(id, data) {
  const found = load("/api/v1/records");
  const pipelines = load("/api/v1/pipelines");
  const mine = () => pipelines.state.value.data?.find((/** @type {any} */ each) => each.name === data().pipeline)?.records ?? [];
  return html`<div>${whenLoaded(found, (kinds) => html`<p class="quiet">Records that this job found or changed.</p>
    <div class="stack">${() => kinds.filter((/** @type {any} */ kind) => kind.per_job && mine().includes(kind.kind)).map((/** @type {any} */ kind) => html`<div class="row"><a class="button small" href=${`/records/${kind.kind}?job=${id}`}>${words(kind.kind)}</a>
      ${["csv", "jsonl"].map((format) => html`<a class="button small plain" download href=${address(`/api/v1/export/${kind.kind}`, { job: id, format })}>Download ${format}</a>`)}</div>`)}
      ${() => kinds.filter((/** @type {any} */ kind) => !kind.per_job && mine().includes(kind.kind)).map((/** @type {any} */ kind) => html`<div class="row"><a class="button small" href=${`/records/${kind.kind}`}>${words(kind.kind)}</a><span class="faint">shared by all jobs</span></div>`)}</div>`)}
    <p class="quiet">${number(data().records)} writes, ${number(data().discoveries)} discovered tasks.</p></div>`;
}

/** @type {Tab} */
function sinks(_id, data) {
  const found = load("/api/v1/sinks", { every: 10 });
  return html`<div>${whenLoaded(found, (rows) => {
    const mine = rows.filter((/** @type {any} */ each) => !each.pipelines || each.pipelines.includes(data().pipeline));
    return mine.length ? mine.map((/** @type {any} */ each) => html`<a class="look" href="/sinks">${tag(each.state)}<div><div class="strong">${each.name}</div><div class="quiet">${each.behind ? `${number(each.behind)} changes behind, ${duration(each.lag_seconds)}` : "has all changes"}${each.error && each.failing_since ? ` · ${each.error}` : ""}</div></div><span class="faint">${number(each.delivered)} delivered</span></a>`)
      : html`<div class="empty"><p>No sink takes the changes of this job: they stay in the store.</p><a class="button" href="/sinks">Sinks</a></div>`;
  })}</div>`;
}

/** @type {Tab} */
function failures(id, _data, again) {
  const reasons = load("/api/v1/dead/reasons", { query: () => (again.value, { job: id }) });
  return html`<div>${whenLoaded(reasons, (groups) => (groups.length ? groups.map((/** @type {any} */ group) => html`<div class="look">${tag("failed", number(group.letters))}
    <div><a class="strong" href=${address("/dead", { job: id, reason: group.reason })}>${words(group.reason ?? group.error_type ?? "unknown")}</a><div class="quiet">last ${ago(group.last_failed_at)}</div></div>
    <button class="button writes small" @click=${(/** @type {Event} */ event) => act(event, () => retryAll({ job: id, reason: group.reason }).finally(reasons.again))}>Retry</button></div>`)
    : html`<div class="empty">No task of this job has failed permanently.</div>`))}</div>`;
}

/** @type {Tab} */
function rejected(id) {
  return pagedTable({
    path: `/api/v1/jobs/${id}/rejected`, keyOf: (row) => row.id,
    columns: [
      { title: "Row", cell: (row) => html`<span class="job-name">${row.key ?? "without a key"}</span><br><code>${row.kind}</code>` },
      { title: "What is wrong", cell: (row) => row.reason }, { title: "As it came", wide: true, cell: (row) => html`<code>${JSON.stringify(row.payload).slice(0, 300)}</code>` },
    ], empty: () => "No row was rejected.",
  });
}

/** @type {Tab} */
function past(id, _data, again) {
  return pagedTable({
    path: `/api/v1/jobs/${id}/history`, keyOf: (row) => row.id, again,
    columns: [
      { title: "When", cell: (row) => html`<span title=${utc(row.at)}>${moment(row.at)}</span>` },
      { title: "What", cell: (row) => tag(row.op) }, { title: "Details", cell: (row) => row.body?.reason ?? "" },
    ], empty: () => "Nothing has happened to this job yet.",
  });
}

/** @type {Tab} */
function parameters(_id, data) {
  return html`<div class="split even"><div><h2>Parameters</h2><pre>${JSON.stringify(data().params, null, 2)}</pre></div>
  <div><h2>Estimate at the start</h2><pre>${JSON.stringify(data().estimate, null, 2)}</pre></div></div>`;
}
