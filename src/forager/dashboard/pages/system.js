// @ts-check
/** Whether this installation is well: checks, workers, browsers, store, settings in force with their origin, the log. */

import { isAdmin, post } from "../lib/api.js";
import { ago, bytes, number, utc, words } from "../lib/format.js";
import { load, whenLoaded } from "../lib/load.js";
import { setQuery } from "../lib/router.js";
import { html, signal } from "../lib/view.js";
import { explained } from "../parts/explain.js";
import { timeChart } from "../parts/chart.js";
import { act, confirmed, toast, withCode } from "../parts/feedback.js";
import { tag } from "../parts/states.js";

const MARKS = /** @type {Record<string, string>} */ ({ ok: "✓", note: "!", problem: "✗" });

export function page() {
  const health = load("/health", { every: 10 });
  const system = load("/api/v1/system", { every: 30 });
  const checks = load("/api/v1/system/checks");
  const week = load("/api/v1/series", { query: { range: "7d" } });
  return {
    title: "System",
    state: html`<span>${() => (health.state.value.data ? tag(health.state.value.data.status) : null)}</span>`,
    body: html`<div class="stack">
      <div class="split even">
        <section class="panel"><header><h2>Checks</h2><button class="button small" ?disabled=${() => checks.state.value.busy} @click=${checks.again}>Check again</button></header>${whenLoaded(checks, doctor)}</section>
        <div class="stack">
        <section class="panel"><header><h2>Now</h2></header>${whenLoaded(health, figures)}</section>
        <section class="panel"><header><h2>Store</h2></header>${whenLoaded(system, (data) => html`<dl class="pairs"><dt>Kind</dt><dd>${data.store.kind}</dd><dt>Where</dt><dd>${data.store.where}</dd>
          <dt>Size</dt><dd>${bytes(data.store.bytes)}</dd><dt>Growth</dt><dd>${growth(data.store.grown_day)} in 24 hours, ${growth(data.store.grown_week)} in 7 days</dd><dt>Keys</dt><dd><div><a class="link" href="/keys">Rotate a key of the API</a></div><div class="quiet">The key of stored secrets: <code>forager db rotate-key</code></div></dd><dt>Forager</dt><dd>${data.version}</dd></dl>
          ${() => sizes(week.state.value.data, data.store.bytes)}`)}</section>
        <section class="panel"><header><h2>Workers</h2></header>${whenLoaded(system, workers)}</section>
        <section class="panel"><header><h2>Browsers</h2><span class="faint">of the process that answers</span></header>${whenLoaded(system, (data) => browsers(data.browsers))}</section>
        </div>
      </div>
      ${isAdmin() ? retention(system.again) : null}
      ${logTail()}
      ${settings(system)}</div>`,
  };
}

/** @param {number} change */
const growth = (change) => (change === 0 ? "none" : `${change < 0 ? "−" : "+"}${bytes(Math.abs(change))}`);

/** The size over a week, backwards from what it is now. @param {any} past @param {number} now */
function sizes(past, now) {
  if (!past?.stored.some(Boolean)) return null;
  const first = past.stored.findIndex(Boolean);
  const values = past.stored.map((/** @type {number} */ _, /** @type {number} */ step) => now - past.stored.slice(step + 1).reduce((/** @type {number} */ sum, /** @type {number} */ grown) => sum + grown, 0));
  return timeChart({ times: past.times.slice(Math.max(0, first - 1)), values: values.slice(Math.max(0, first - 1)), label: "size of the store", format: bytes, height: 70 });
}

/** @param {any[]} found */
function doctor(found) {
  const order = ["problem", "note", "ok"];
  const sorted = [...found].sort((a, b) => order.indexOf(a.state) - order.indexOf(b.state));
  return html`<div>${sorted.map((each) => html`<div class="check"><i class=${each.state} title=${each.state}>${MARKS[each.state] ?? ""}</i><span class="strong">${each.check}</span>
    <div>${withCode(each.message)}${each.remedy ? html`<div class="quiet">→ ${withCode(each.remedy)}</div>` : null}</div></div>`)}</div>`;
}

/** @param {any} data */
function figures(data) {
  const shown = [["Tasks waiting", number(data.queue_depth)], ["Tasks at work", number(data.active)], ["Dead letters", number(data.dead_letters)], ["Sinks that stall", number(data.stalled_sinks)], ["Keys refused", number(data.refused_keys)], ["Store", data.store]];
  return html`<div class="figures">${shown.map(([label, value]) => html`<div><div class="label">${explained(label ?? "")}</div><div class="value">${value}</div></div>`)}</div>`;
}

const KEPT = /** @type {const} */ ([["jobs", "finished jobs"], ["tasks", "their tasks"], ["records", "records of these jobs"], ["attempts", "attempts in the log"], ["changes", "changes that every sink has passed"], ["messages", "delivered webhooks"], ["rejected", "rejected rows"]]);

/** What the settings would remove now, counted before anything is. @param {() => void} again */
function retention(again) {
  const found = signal(/** @type {any} */ (null));
  const total = () => KEPT.reduce((sum, [name]) => sum + (found.value?.[name] ?? 0), 0);
  /** @param {Event} event */
  const look = (event) => act(event, async () => void (found.value = (await post("/api/v1/prune", { dry_run: true })).data));
  /** @param {Event} event */
  const removeNow = async (event) => {
    if (!(await confirmed(`Remove ${number(total())} old rows now? They cannot be brought back.`, "Remove"))) return;
    await act(event, async () => {
      const { data } = await post("/api/v1/prune", { dry_run: false });
      toast(data.more ? "A part is removed; go on for the rest." : "Removed.");
      found.value = (await post("/api/v1/prune", { dry_run: true })).data;
      again();
    });
  };
  return html`<section class="panel" data-retention><header><h2>Retention</h2><span class="row"><button class="button small" @click=${look}>Preview</button>
      ${() => (total() ? html`<button class="button small danger" @click=${removeNow}>Remove now</button>` : null)}</span></header>
    ${() => (found.value ? html`<div class="figures">${KEPT.map(([name, what]) => html`<div><div class="label">${what}</div><div class="value">${number(found.value[name])}</div></div>`)}</div>
      <p class="quiet">${total() ? "Older than the settings keep it; the service removes it by itself, in the background." : "Nothing is older than the settings keep it."}</p>`
      : html`<p class="quiet">What is older than the settings keep it is removed by itself. The preview only counts.</p>`)}</section>`;
}

/** @param {any} data */
function workers(data) {
  if (!data.workers.length) return html`<div class="empty"><p>No worker has opened this store: nothing is fetched.</p><code>forager up</code></div>`;
  return html`<div class="scroll"><table><thead><tr><th>Worker</th><th>State</th><th class="num">Lanes</th><th class="num">Since</th></tr></thead><tbody>
    ${data.workers.map((/** @type {any} */ each) => html`<tr><td><code>${each.name}</code></td><td>${tag(each.alive ? "active" : "failed", each.alive ? "alive" : "gone")}</td><td class="num">${number(each.lanes)}</td><td class="num" title=${utc(each.started_at)}>${ago(each.started_at)}</td></tr>`)}</tbody></table></div>`;
}

/** @param {any} pool */
function browsers(pool) {
  if (!pool) return html`<div class="empty"><p>No browser is installed: pages are fetched without scripts.</p><code>forager doctor</code></div>`;
  return html`<div class="stack"><div class="figures">${[["In use", pool.in_use], ["Idle", pool.idle], ["May be started", pool.launchable], ["Waiting for one", pool.waiting], ["Pages visited", pool.pages]].map(([label, value]) => html`<div><div class="label">${explained(String(label))}</div><div class="value">${number(Number(value))}</div></div>`)}</div>
    ${pool.visits.length ? html`<div class="visits">${pool.visits.map((/** @type {any} */ visit) => html`<figure class="visit">${visit.thumbnail ? html`<img alt="" src=${visit.thumbnail}>` : html`<div class="blank"></div>`}
      <figcaption class="clip" title=${visit.url}>${visit.url.replace(/^https?:\/\//, "")}</figcaption><span class="faint">since ${ago(visit.since)}</span></figure>`)}</div>` : html`<span class="quiet">No page is open in a browser now.</span>`}</div>`;
}

function logTail() {
  const asked = new URLSearchParams(location.search);
  const level = signal(asked.get("level") ?? "info");
  const lines = load("/api/v1/system/log", { query: () => ({ level: level.value, limit: 200 }), every: 10 });
  return html`<section class="panel"><header><h2>Log</h2><span class="row"><span class="faint">newest first, of the process that answers</span>
    <select aria-label="Level" @change=${(/** @type {Event} */ event) => ((level.value = /** @type {HTMLSelectElement} */ (event.target).value), setQuery({ level: level.peek() }))}>${["info", "warning", "error"].map((each) => html`<option value=${each} ?selected=${each === level.peek()}>${each} and above</option>`)}</select></span></header>
    ${whenLoaded(lines, (rows) => (rows.length ? html`<div class="log" tabindex="0" role="log" aria-label="Log lines">${rows.map((/** @type {any} */ row) => html`<div><time title=${row.at}>${new Date(row.at).toLocaleTimeString()}</time><span class=${row.level}>${row.level}</span>
      <span><b>${words(row.event)}</b> ${Object.entries(row.fields).map(([name, value]) => html`<span class="quiet">${name}=${typeof value === "object" ? JSON.stringify(value) : String(value)} </span>`)}</span></div>`)}</div>` : html`<div class="empty">No line of this level since the start.</div>`))}</section>`;
}

/** @param {import("../lib/load.js").Loaded<any>} system */
function settings(system) {
  const asked = new URLSearchParams(location.search);
  const filter = signal((asked.get("setting") ?? "").toLowerCase());
  const changed = signal(asked.has("set"));
  /** @param {any} each */
  const wanted = (each) => (!changed.value || each.origin !== "default") && `${each.name} ${each.help ?? ""}`.toLowerCase().includes(filter.value);
  return html`<section class="panel"><header><h2 class="nowrap">Settings in force</h2><span class="row"><label class="row quiet"><input type="checkbox" .checked=${changed.peek()} @change=${(/** @type {Event} */ event) => ((changed.value = /** @type {HTMLInputElement} */ (event.target).checked), setQuery({ set: changed.peek() ? "1" : "" }))}>only those that are set</label>
    <input class="short" type="search" placeholder="Filter" aria-label="Filter settings" .value=${filter.peek()} @input=${(/** @type {Event} */ event) => ((filter.value = /** @type {HTMLInputElement} */ (event.target).value.toLowerCase()), setQuery({ setting: filter.peek() }))}></span></header>
    ${whenLoaded(system, (data) => html`<div class="scroll long" tabindex="0"><table><thead><tr><th>Setting</th><th>Value</th><th>From</th></tr></thead><tbody>
      ${() => data.settings.filter(wanted).map((/** @type {any} */ each) => html`<tr><td class="full"><code class="strong">${each.name}</code><div class="faint">${withCode(each.help ?? "")}</div></td><td>${each.value ?? "–"}</td><td>${tag(each.origin === "default" ? "" : "active", each.origin)}</td></tr>`)}</tbody></table></div>`)}</section>`;
}
