// @ts-check
/** Is everything well, what runs, what needs a look, what changed. */

import { get, mayWrite, post } from "../lib/api.js";
import { ago, duration, money, number, percent, plural, rate, short, spent as spentBy, utc, words } from "../lib/format.js";
import { load } from "../lib/load.js";
import { effect, html, list } from "../lib/view.js";
import { bars, sparkline } from "../parts/chart.js";
import { act } from "../parts/feedback.js";
import { explained } from "../parts/explain.js";
import { seriesPanel } from "../parts/series.js";
import { overview, range, rangePicker } from "../parts/shell.js";
import { jobBar, jobName, progressText, tag } from "../parts/states.js";

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
      <div class="cards">${() => cards(overview.value, series.state.value.data)}</div>
      <div class="split"><div class="stack">
        <section class="panel"><header><h2>Running now</h2><a href="/jobs">All jobs →</a></header>${() => running(overview.value)}</section>
        <section class="panel"><header><h2>Freshness</h2><span class="faint">newest record of each pipeline</span></header>${() => freshness(overview.value)}</section>
        ${seriesPanel(() => series.state.value.data)}
      </div><div class="stack">
        <section class="panel"><header><h2>Needs a look</h2></header>${() => attention(overview.value)}</section>
        <section class="panel"><header><h2>What changed</h2><a href="/changes">All →</a></header>${() => changed(overview.value)}</section>
      </div></div></div>`,
  };
}

/** @param {any} now */
function health(now) {
  if (!now) return null;
  const { status, worker, trouble } = now.health;
  if (status === "ok" && worker === "alive") return tag("ok", "● all well");
  return tag(status === "red" ? "red" : "degraded", `● ${trouble ?? (worker === "alive" ? status : `worker ${worker}`)}`);
}

/** @param {any} now @param {any} past */
function cards(now, past) {
  if (!now) return [1, 2, 3, 4, 5].map(() => html`<div class="panel card"><div class="skeleton"></div></div>`);
  const perMinute = past?.completed ?? [];
  const failed = past?.failed ?? [];
  const worst = now.sinks.worst;
  return [
    card("Tasks per second", rate(now.rate.tasks_per_second), now.rate.allowed ? `of ${rate(now.rate.allowed)} allowed` : "", sparkline(perMinute, { label: "tasks per minute" })),
    card("Changes today", short(now.counts.changes_today), "", bars(past?.changes_by_part ?? [], "records over time")),
    card("Failed for good", short(now.counts.dead_letters), now.counts.failed_share ? percent(now.counts.failed_share) : "", sparkline(failed, { failing: true, label: "failures per minute" })),
    spend(now.spend),
    card("Oldest undelivered change", worst ? duration(worst.lag_seconds) : "none", "",
      worst?.error ? html`<div class="row quiet">${tag("failing", worst.name)}${worst.error}</div>` : html`<div class="quiet">${plural(now.sinks.count, "sink")}</div>`),
  ];
}

/** @param {string} label @param {unknown} figure @param {string} beside @param {unknown} below */
const card = (label, figure, beside, below) => html`<div class="panel card"><div class="label">${explained(label)}</div>
  <div class="figure">${figure}<span class="beside">${beside}</span></div>${below}</div>`;

/** @param {any} spent */
function spend(spent) {
  const share = spent.budget_usd ? Math.min(1, spent.today_usd / spent.budget_usd) : 0;
  return card("Spent today", money(spent.today_usd), spent.budget_usd ? `of ${money(spent.budget_usd)}` : "",
    html`<div class="quiet">${spent.budget_usd ? html`<div class="bar"><i class=${share > 0.9 ? "warn" : ""} --share=${share}></i></div>` : null}
      ${spent.month_usd === null ? "no pipeline has spent money" : `${money(spent.month_usd)} this month${spent.budget_month_usd ? ` of ${money(spent.budget_month_usd)}` : ""}`}
      ${spent.reserved ? ` · ${number(spent.reserved)} credits reserved by running jobs` : ""}</div>`);
}

/** @param {any} now */
function running(now) {
  if (!now) return html`<div class="skeleton"></div>`;
  if (!now.running.length) return html`<div class="empty"><p>No job is running.</p><a class="button writes" href="/jobs/new">Start a job</a><code>forager demo</code></div>`;
  return html`<div class="scroll"><table><thead><tr><th>Job</th><th>Progress</th><th class="num">Rate</th><th class="num wide-only">Left</th><th class="num wide-only">Cost</th><th>State</th><th></th></tr></thead>
    <tbody>${list(() => overview.value?.running ?? [], (job) => job.id, (job) => html`<tr class="hit">
      <td><a href=${`/jobs/${job.peek().id}`}><span class="job-name">${() => jobName(job.value)}</span><br><code>${job.peek().pipeline} ${job.peek().id.slice(0, 6)}</code></a></td>
      <td>${() => jobBar(job.value)}<span class="quiet">${() => progressText(job.value)}</span></td>
      <td class="num">${() => rate(job.value.rate)}</td><td class="num wide-only">${() => duration(job.value.seconds_left)}</td>
      <td class="num wide-only">${() => (job.value.spent ? spentBy(job.value.pipeline, job.value.spent) : "–")}</td>
      <td>${() => (job.value.waiting ? html`${tag("waiting")}<div class="quiet">${job.value.waiting.message}</div>` : html`${tag(job.value.state)}${job.value.state === "paused" && job.value.reason ? html`<div class="quiet">${job.value.reason}</div>` : null}`)}</td>
      <td class="num">${() => steer(job.value)}</td></tr>`)}</tbody></table></div>`;
}

/** @param {any} job */
function steer(job) {
  const verb = job.state === "paused" ? "resume" : "pause";
  return html`<button class="button writes small" aria-label=${`${verb} ${jobName(job)}`} @click=${(/** @type {Event} */ event) => act(event, () => post(`/api/v1/jobs/${job.id}/${verb}`), verb === "pause" ? "The job is paused." : "The job runs again.")}>${verb === "pause" ? "Pause" : "Resume"}</button>`;
}

/** @param {any} now */
function freshness(now) {
  if (!now) return html`<div class="skeleton"></div>`;
  return html`<div class="row">${now.freshness.map((/** @type {any} */ each) => html`<a class="chip" href=${`/jobs?pipeline=${each.pipeline}`} title=${utc(each.last_change_at)}>${words(each.pipeline)}
    <span class="faint">${each.last_change_at ? ago(each.last_change_at) : "no news"}</span></a>`)}</div>`;
}

/** @param {any} now */
function attention(now) {
  if (!now) return html`<div class="skeleton"></div>`;
  if (!now.attention.length) return html`<div class="empty">Nothing needs a look.</div>`;
  return now.attention.map((/** @type {any} */ each) => html`<div class="look">${tag(each.severity, each.kind)}
    <div><a class="strong" href=${each.href}>${each.title}</a><div class="quiet">${each.detail}${each.since ? " · " : null}${each.since ? html`<span class="faint" title=${utc(each.since)}>${ago(each.since)}</span>` : null}</div></div>
    ${each.action && mayWrite() ? html`<button class="button small" @click=${(/** @type {Event} */ event) => act(event, () => post(each.action.path, each.action.body), each.action.done)}>${each.action.title}</button>` : html`<a class="button small plain" href=${each.href}>Open</a>`}</div>`);
}

/** @param {any} now */
function changed(now) {
  if (!now) return html`<div class="skeleton"></div>`;
  if (!now.changed.length) return html`<div class="empty">No changes today.</div>`;
  return bundled(now.changed).map((/** @type {any} */ each) => html`<a class="look" href=${each.more ? `/changes?kind=${each.kind}` : `/records/${each.kind}/${encodeURIComponent(each.key)}`}>
    ${tag("", words(each.kind))}<div><div class="strong">${each.title}${each.more ? html`<span class="quiet"> and ${plural(each.more, "more", "more")}</span>` : null}</div><div class="quiet two-lines">${each.text}</div></div><span class="faint" title=${utc(each.at)}>${ago(each.at)}</span></a>`);
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
