// @ts-check
/** Is everything well, what runs, what needs a look, what changed. */

import { get, mayWrite, post } from "../lib/api.js";
import { about, ago, duration, money, number, percent, plural, rate, short, spent as spentBy, utc, words } from "../lib/format.js";
import { load } from "../lib/load.js";
import { effect, html, list } from "../lib/view.js";
import { bars, sparkline } from "../parts/chart.js";
import { act } from "../parts/feedback.js";
import { explained } from "../parts/explain.js";
import { retryAll } from "../parts/retry.js";
import { paced, seriesPanel } from "../parts/series.js";
import { overview, range, rangePicker } from "../parts/shell.js";
import { breakable, jobBar, jobName, moveColour, progressText, tag } from "../parts/states.js";

/** Lines of the panel "What changed". */
const MOST_CHANGES = 8;

export function page() {
  const series = load("/api/v1/series", { query: () => ({ range: range.value }), every: 15 });
  // Where everything happened within the last hour, a day would show one peak at its edge.
  effect(() => {
    const past = series.state.value.data;
    if (!past || localStorage.getItem("range") || range.peek() !== "24h") return;
    const first = past.completed.findIndex((/** @type {number} */ value, /** @type {number} */ index) => value || past.failed[index]);
    if (first >= 0 && past.times[first] > Date.now() - 3_600_000) range.value = "1h";
  });
  if (!overview.peek()) get("/api/v1/overview").then((answer) => (overview.value ??= answer.data), () => null);
  return {
    title: "Overview",
    state: html`<span>${() => health(overview.value)}</span>`,
    actions: html`${rangePicker()}<a class="button primary writes" href="/jobs/new">New job</a>`,
    body: html`<div>
      <div class="cards">${() => cards(overview.value, paced(series.state.value.data))}</div>
      <div class="split overview"><div class="stack">
        <section class="panel"><header><h2>Running now</h2><a href="/jobs">All jobs →</a></header>${() => running(overview.value)}</section>
        ${seriesPanel(() => paced(series.state.value.data))}
        <div class="split even">
          <section class="panel"><header><h2>Lanes that wait</h2><a href="/lanes">All lanes →</a></header>${() => waiting(overview.value)}</section>
          <section class="panel"><header><h2>Deliveries</h2><a href="/sinks">All sinks →</a></header>${() => deliveries(overview.value)}</section>
        </div>
      </div><div class="stack">
        <section class="panel"><header><h2>Needs a look</h2></header>${() => attention(overview.value)}</section>
        <section class="panel"><header><h2>What changed</h2><a href="/changes">All →</a></header>${() => changed(overview.value)}</section>
        <section class="panel"><header><h2>Freshness</h2><span class="faint">newest record of each</span></header>${() => freshness(overview.value)}</section>
      </div></div></div>`,
  };
}

/** @param {any} now */
function health(now) {
  if (!now) return null;
  const { status, worker, trouble } = now.health;
  if (status === "ok" && worker === "alive") return tag("ok", "● all workers well");
  return tag(status === "red" ? "red" : "degraded", `● ${trouble ?? (worker === "alive" ? status : `worker ${worker}`)}`);
}

/** @param {any} now @param {any} past */
function cards(now, past) {
  if (!now) return [1, 2, 3, 4, 5].map(() => html`<div class="panel card"><div class="skeleton"></div></div>`);
  const perMinute = past?.completed ?? [];
  const failed = past?.failed ?? [];
  const worst = now.sinks.worst;
  return [
    card("Tasks per second", rate(now.rate.tasks_per_second), now.rate.allowed && now.rate.tasks_per_second <= now.rate.allowed ? `of ${rate(now.rate.allowed)} allowed` : "", sparkline(perMinute, { label: "tasks per minute" })),
    card("Changes today", short(now.counts.changes_today), "", bars(past?.changes_by_part ?? [], "records over time")),
    card("Failed permanently", short(now.counts.dead_letters), now.counts.failed_share ? percent(now.counts.failed_share) : "", sparkline(failed, { failing: true, label: "failures per minute" })),
    spend(now.spend, past?.cost ?? []),
    card("Oldest undelivered", worst ? duration(worst.lag_seconds) : "none", now.sinks.count ? plural(now.sinks.count, "sink") : "no sink",
      worst ? html`<div class="quiet two-lines">${tag(worst.error ? "failing" : "", worst.name)} ${worst.error ?? "has the longest way to go"}</div>` : html`<div class="quiet">${now.sinks.count ? "every sink has every change" : "changes stay in the store"}</div>`),
  ];
}

/** @param {string} label @param {unknown} figure @param {string} beside @param {unknown} below */
const card = (label, figure, beside, below) => html`<div class="panel card"><div class="label">${explained(label)}</div>
  <div class="figure">${figure}<span class="beside">${beside}</span></div>${below}</div>`;

/** @param {any} spent @param {number[]} perMinute */
function spend(spent, perMinute) {
  const share = spent.budget_usd ? Math.min(1, spent.today_usd / spent.budget_usd) : 0;
  return card("Spent today", money(spent.today_usd), spent.budget_usd ? `of ${money(spent.budget_usd)}` : "",
    html`<div class="quiet">${spent.month_usd === null ? "no pipeline has spent money" : `${money(spent.month_usd)} this month${spent.budget_month_usd ? ` of ${money(spent.budget_month_usd)}` : ""}`}
      ${spent.reserved ? ` · ${number(spent.reserved)} credits reserved` : ""}</div>
      ${spent.budget_usd ? html`<div class="bar"><i class=${share > 0.9 ? "warn" : ""} --share=${share}></i></div>` : perMinute.some(Boolean) ? html`<div class="low">${sparkline(perMinute, { label: "cost per minute" })}</div>` : null}`);
}

/** @param {any} now */
function running(now) {
  if (!now) return html`<div class="skeleton"></div>`;
  if (!now.running.length) return html`<div class="empty"><p>No job is running.</p><a class="button writes" href="/jobs/new">Start a job</a><code>forager demo</code></div>`;
  return html`<div class="scroll"><table class="running"><thead><tr><th>Job</th><th>Progress</th><th class="num">Rate</th><th class="num wide-only">Cost</th><th>State</th><th></th></tr></thead>
    ${list(() => overview.value?.running ?? [], (job) => job.id, (job) => html`<tbody class="hit"><tr>
      <td rowspan="2"><a href=${`/jobs/${job.peek().id}`}><span class="job-name">${() => breakable(jobName(job.value))}</span><br><code>${job.peek().pipeline} ${job.peek().id.slice(0, 6)}</code></a></td>
      <td>${() => jobBar(job.value)}<span class="quiet">${() => progressText(job.value)}</span></td>
      <td class="num">${() => rate(job.value.rate)}<div class="quiet">${() => (job.value.seconds_left === null ? "" : `${about(job.value.seconds_left)} left`)}</div></td>
      <td class="num wide-only">${() => (job.value.spent ? spentBy(job.value.pipeline, job.value.spent) : "–")}</td>
      <td>${() => tag(job.value.waiting ? "waiting" : job.value.state)}</td>
      <td class="num">${() => steer(job.value)}</td></tr>
      <tr class="reason"><td class="quiet" colspan="5">${() => why(job.value)}</td></tr></tbody>`)}</table></div>`;
}

/** Why a job does not move, in words; it has a line of its own below the figures. @param {any} job */
const why = (job) => job.waiting?.message ?? (job.state === "paused" ? job.reason : null);

/** @param {any} job */
const steer = (job) => steerPath(`/api/v1/jobs/${job.id}`, jobName(job), job.state === "paused");

/** Pauses or resumes a job, a lane or a sink; the stream shows what came of it. @param {string} path @param {string} name @param {boolean} paused */
function steerPath(path, name, paused) {
  const verb = paused ? "resume" : "pause";
  return html`<button class="button writes small" aria-label=${`${verb} ${name}`} @click=${(/** @type {Event} */ event) => act(event, () => post(`${path}/${verb}`).then(() => `${name} ${paused ? "runs again" : "is paused"}.`))}>${paused ? "Resume" : "Pause"}</button>`;
}

/** @param {any} now */
function waiting(now) {
  if (!now) return html`<div class="skeleton"></div>`;
  if (!now.waiting.length) return html`<div class="empty small">Every lane may send.</div>`;
  return html`<div class="looks">${now.waiting.map((/** @type {any} */ each) => html`<div class="look">${tag(each.reason === "breaker" ? "open" : each.reason === "paused" ? "paused" : "waiting", words(each.reason))}
    <div><a class="strong clip block" href=${`/lanes/${encodeURIComponent(each.name)}`}>${each.name}</a><div class="quiet" title=${utc(each.until)}>${each.message}</div></div>${steerPath(`/api/v1/lanes/${encodeURIComponent(each.name)}`, each.name, each.reason === "paused")}</div>`)}</div>`;
}

/** @param {any} now */
function deliveries(now) {
  if (!now) return html`<div class="skeleton"></div>`;
  if (!now.sinks.all.length) return html`<div class="empty small"><p>No sink: changes stay in the store.</p><code>forager sinks add lake files --folder ./lake</code></div>`;
  return html`<div class="looks">${now.sinks.all.map((/** @type {any} */ each) => html`<div class="look">${tag(each.state === "behind" ? "waiting" : each.state === "up_to_date" ? "ok" : each.state, words(each.state))}
    <div><a class="strong clip block" href="/sinks">${each.name}</a><div class="quiet two-lines">${each.error ? html`${each.error} <span class="faint" title=${utc(each.failing_since)}>${each.failing_since ? `· since ${ago(each.failing_since)}` : ""}</span>` : each.behind ? `${plural(each.behind, "change")} to deliver, ${duration(each.lag_seconds)} behind` : "has every change"}</div></div>
    ${steerPath(`/api/v1/sinks/${encodeURIComponent(each.name)}`, each.name, each.state === "paused")}</div>`)}</div>`;
}

/** @param {any} now */
function freshness(now) {
  if (!now) return html`<div class="skeleton"></div>`;
  return html`<dl class="pairs fresh">${now.freshness.map((/** @type {any} */ each) => html`<dt><a href=${`/jobs?pipeline=${each.pipeline}`}>${words(each.pipeline)}</a></dt>
    <dd class="num" title=${utc(each.last_change_at)}>${each.last_change_at ? ago(each.last_change_at) : html`<span class="faint">no record yet</span>`}</dd>`)}</dl>`;
}

/** @param {any} now */
function attention(now) {
  if (!now) return html`<div class="skeleton"></div>`;
  if (!now.attention.length) return html`<div class="empty small">Nothing needs a look.</div>`;
  return html`<div class="looks">${now.attention.map((/** @type {any} */ each) => html`<div class="look">${tag(each.severity, each.kind)}
    <div><a class="strong" href=${each.href}>${titleOf(each, now)}</a><div class="quiet">${each.detail}${each.since ? " · " : null}${each.since ? html`<span class="faint" title=${utc(each.since)}>${ago(each.since)}</span>` : null}</div></div>
    ${each.action && mayWrite() ? html`<button class="button small" @click=${(/** @type {Event} */ event) => act(event, () => (each.kind === "dead" ? retryAll(each.action.body) : post(each.action.path, each.action.body).then(() => each.action.done)))}>${each.action.title}</button>` : html`<a class="button small plain" href=${each.href}>Open</a>`}</div>`)}</div>`;
}

/** A job by the name that a person gave it. @param {any} each @param {any} now */
function titleOf(each, now) {
  const job = each.kind === "job" ? now.running.find((/** @type {any} */ one) => each.href === `/jobs/${one.id}`) : null;
  return job ? `${jobName(job)} is paused` : each.title;
}

/** @param {any} now */
function changed(now) {
  if (!now) return html`<div class="skeleton"></div>`;
  if (!now.changed.length) return html`<div class="empty small">No changes today.</div>`;
  return html`<div>${bundled(now.changed).slice(0, MOST_CHANGES).map((/** @type {any} */ each) => html`<a class="look two-part" href=${each.more ? `/changes?kind=${each.kind}` : `/records/${each.kind}/${encodeURIComponent(each.key)}`}>
    <div><div class="strong two-lines">${each.title}${each.more ? html`<span class="quiet"> and ${plural(each.more, "more", "more")}</span>` : null}</div><div class="quiet two-lines">${each.text === "new" ? `new ${words(each.kind)}` : each.text}</div></div>${movedBy(each)}</a>`)}</div>`;
}

/** @param {any} value */
const amount = (value) => (typeof value === "number" || (typeof value === "string" && /^-?\d+(\.\d+)?$/.test(value)) ? Number(value) : NaN);

/** By how much a number moved, or that a thing is back; otherwise when it was. @param {any} each */
function movedBy(each) {
  const found = each.fields.find((/** @type {any} */ field) => amount(field.before) && Number.isFinite(amount(field.after)) && !/(_at|_id|version|latitude|longitude)$/.test(field.name));
  const stock = each.fields.find((/** @type {any} */ field) => field.name === "availability");
  if (stock) return tag(stock.after, stock.after === "in_stock" ? "back" : words(stock.after));
  if (!found) return html`<span class="faint nowrap" title=${utc(each.at)}>${ago(each.at)}</span>`;
  const share = amount(found.after) / amount(found.before) - 1;
  return html`<span class=${`num moved ${moveColour(found.name, share)}`} title=${`${words(found.name)}, ${ago(each.at)}`}>${share < 0 ? "−" : "+"}${percent(Math.abs(share))}</span>`;
}

/** Neighbours that are new and of one kind as one line, so that a first crawl does not fill the panel. @param {any[]} changes */
function bundled(changes) {
  /** @type {any[]} */
  const shown = [];
  for (const each of changes) {
    const last = shown.at(-1);
    if (last && last.text === "new" && each.text === "new" && last.kind === each.kind) shown[shown.length - 1] = { ...last, more: (last.more ?? 0) + 1 };
    else shown.push(each);
  }
  return shown;
}
