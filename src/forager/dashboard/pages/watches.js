// @ts-check
/** Pages that are watched, rules that turn changes into alerts, channels that get them, and the last alerts. */

import { post, remove } from "../lib/api.js";
import { ago, duration, number, plural, utc, words } from "../lib/format.js";
import { load, whenLoaded } from "../lib/load.js";
import { html } from "../lib/view.js";
import { act, confirmed } from "../parts/feedback.js";
import { tag } from "../parts/states.js";
import { addChannel, addRule, addWatch, marked, observations } from "../parts/watch_forms.js";

const CHECKED_MS = 2000;

/** @typedef {import("../lib/load.js").Loaded<any>} Loaded */

export function page() {
  const watches = load("/api/v1/watches", { query: { limit: 200 }, every: 10 });
  const rules = load("/api/v1/rules", { every: 15 });
  const channels = load("/api/v1/channels", { every: 15 });
  const alerts = load("/api/v1/alerts", { query: { limit: 20 }, every: 15 });
  const kinds = load("/api/v1/records");
  const names = () => (channels.state.peek().data ?? []).map((/** @type {any} */ each) => each.name);
  /** Now, and once more when a check that was started has probably ended. */
  const reload = () => (watches.again(), rules.again(), void setTimeout(watches.again, CHECKED_MS));
  const newWatch = () => addWatch(names(), reload);
  const newRule = () => addRule((kinds.state.peek().data ?? []).map((/** @type {any} */ each) => each.kind), names(), rules.again);
  const newChannel = () => addChannel(channels.again);
  return {
    title: "Watches & alerts",
    actions: html`<button class="button primary writes" @click=${newWatch}>Watch a page</button>`,
    body: html`<div class="stack">
      <section class="panel"><header><h2>Watches</h2></header>${whenLoaded(watches, (rows, meta) => watchTable(rows, meta, newWatch, reload))}</section>
      <section class="panel"><header class="spread"><h2>Rules</h2><button class="button writes small" @click=${newRule}>Add a rule</button></header>${whenLoaded(rules, (rows) => ruleTable(rows, rules))}</section>
      <section class="panel"><header class="spread"><h2>Channels</h2><button class="button admins small" @click=${newChannel}>Add a channel</button></header>${whenLoaded(channels, (rows) => channelTable(rows, channels))}</section>
      <section class="panel"><header><h2>Last alerts</h2></header>${whenLoaded(alerts, alertTable)}</section></div>`,
  };
}

/** @param {string} title @param {() => Promise<unknown>} action @param {string} done @param {string} [role] */
const button = (title, action, done, role = "writes") => html`<button class=${`button small ${role}`} @click=${(/** @type {Event} */ event) => act(event, action, done)}>${title}</button>`;

/** @param {string} path @param {string} question @param {() => void} reload @param {string} [role] */
const removal = (path, question, reload, role = "writes") => html`<button class=${`button small danger ${role}`} @click=${async (/** @type {Event} */ event) => {
  if (await confirmed(question, "Remove")) await act(event, () => remove(path).then(reload), "Removed.");
}}>Remove</button>`;

/** @param {any} row */
function watched(row) {
  if (row.mode === "schema") return `fields: ${Object.keys(row.schema?.fields ?? {}).join(", ")}`;
  return row.mode === "select" ? `elements ${row.select}` : "the main text";
}

/** @param {any[]} rows @param {any} meta @param {() => void} add @param {() => void} reload */
function watchTable(rows, meta, add, reload) {
  if (!rows.length) return html`<div class="empty"><p>No page is watched. Add one: it is checked at once, then every hour.</p><code>forager watch add https://shop.example/oak-table --every 1h</code><button class="button primary writes" @click=${add}>Watch a page</button></div>`;
  return html`<div class="scroll"><table><thead><tr><th>Watch</th><th>State</th><th>Every</th><th>Last check</th><th>Last change</th><th></th></tr></thead><tbody>
    ${rows.map((row) => {
      const path = `/api/v1/watches/${encodeURIComponent(row.name)}`;
      const paused = row.state === "paused";
      return html`<tr data-watch=${row.name}><td><span class="job-name">${row.name}</span><div class="quiet clip" title=${row.url}>${row.url.replace(/^https?:\/\//, "")}</div><div class="faint">${watched(row)}</div></td>
        <td>${tag(row.state)}</td><td data-label="every">${duration(row.every)}</td>
        <td class="nowrap" data-label="checked" title=${utc(row.checked_at)}>${ago(row.checked_at)}<div class="quiet">${paused || !row.next_check_at ? "" : `next ${ago(row.next_check_at)}`}</div></td>
        <td class="full">${row.error ? html`<div class="wrong">${row.error}</div>` : null}${row.changes ? html`<div class="quiet" title=${utc(row.changed_at)}>${ago(row.changed_at)} · ${plural(row.changes, "change")}</div><div class="change">${marked(row.summary)}</div>` : html`<span class="quiet">no change yet</span>`}</td>
        <td class="full"><div class="row end tight"><button class="button small" @click=${() => observations(row)}>History</button>
          ${paused ? null : button("Check now", () => post(`${path}/check`).then(reload), `${row.name}: the check has started.`)}
          ${button(paused ? "Resume" : "Pause", () => post(`${path}/${paused ? "resume" : "pause"}`).then(reload), `${row.name}: done.`)}
          ${removal(path, `Stop watching ${row.name}, and remove its rule? What it has observed stays in the log.`, reload)}</div></td></tr>`;
    })}</tbody></table></div>${meta?.next_cursor ? html`<p class="quiet">The first ${number(rows.length)} by name; <code>forager watch list</code> shows all.</p>` : null}`;
}

/** @param {any[]} rows @param {Loaded} rules */
function ruleTable(rows, rules) {
  if (!rows.length) return html`<div class="empty"><p>No rules: changes are stored, and nothing is sent.</p><code>forager rules add cheaper --on product --when "price &lt; old.price * 0.95" --notify team</code></div>`;
  return html`<div class="scroll"><table><thead><tr><th>Rule</th><th>On</th><th>When</th><th>Channel</th><th>Last fired</th><th></th></tr></thead><tbody>
    ${rows.map((row) => {
      const path = `/api/v1/rules/${encodeURIComponent(row.name)}`;
      return html`<tr data-rule=${row.name}><td><span class="job-name">${row.name}</span> ${row.paused ? tag("paused") : null}</td><td data-label="on">${words(row.kind)}${row.key ? html`<div class="quiet">${row.key}</div>` : null}</td>
        <td>${row.when ? html`<code>${row.when}</code>` : "every change"}${row.repeats ? html`<div class="quiet">each time</div>` : null}</td><td data-label="to">${row.notify.join(", ")}</td>
        <td data-label="fired" title=${utc(row.last_fired_at)}>${ago(row.last_fired_at)}${row.fired ? html`<div class="quiet">${number(row.fired)} in 90 days</div>` : null}</td>
        <td class="full"><div class="row end tight">${button(row.paused ? "Resume" : "Pause", () => post(`${path}/${row.paused ? "resume" : "pause"}`).then(rules.again), `${row.name}: done.`)}
          ${removal(path, `Remove the rule ${row.name}? Alerts that have fired stay.`, rules.again)}</div></td></tr>`;
    })}</tbody></table></div>`;
}

/** @param {any[]} rows @param {Loaded} channels */
function channelTable(rows, channels) {
  if (!rows.length) return html`<div class="empty"><p>No channels: a channel is where alerts are sent, such as Slack, e-mail or ntfy.</p><code>forager channels add team --url slack://TokenA/TokenB/TokenC/#prices</code></div>`;
  return html`<div class="scroll"><table><thead><tr><th>Channel</th><th>State</th><th class="num">Accepted</th><th class="num">Waiting</th><th>Last error</th><th></th></tr></thead><tbody>
    ${rows.map((row) => {
      const path = `/api/v1/channels/${encodeURIComponent(row.name)}`;
      const options = [row.service, row.digest ? `one message per ${duration(row.digest)}` : "", row.quiet ? `quiet ${row.quiet} ${row.timezone}` : "", row.per_hour ? `${number(row.per_hour)} per hour` : ""];
      return html`<tr data-channel=${row.name}><td><span class="job-name">${row.name}</span><div class="faint">${options.filter(Boolean).join(" · ")}</div></td><td>${tag(row.state)}</td>
        <td class="num" data-label="accepted">${number(row.accepted)}</td><td class="num" data-label="waiting">${number(row.waiting)}</td>
        <td class="full">${row.error ? html`<div>${row.error}</div><div class="quiet" title=${utc(row.failing_since)}>${row.failing_since ? `failing since ${ago(row.failing_since)}` : "a later message was accepted"}</div>` : html`<span class="quiet">none</span>`}</td>
        <td class="full"><div class="row end tight">${button("Test", () => post(`${path}/test`).finally(channels.again), `${row.name} has accepted a message.`)}
          ${removal(path, `Remove the channel ${row.name} and its address?`, channels.again, "admins")}</div></td></tr>`;
    })}</tbody></table></div>`;
}

/** @param {any[]} rows */
function alertTable(rows) {
  if (!rows.length) return html`<div class="empty small"><p>No alerts in the last 90 days.</p></div>`;
  return html`<div class="scroll"><table><thead><tr><th>Alert</th><th>Rule</th><th>Channel</th><th>At</th><th>Delivered</th></tr></thead><tbody>
    ${rows.map((row) => html`<tr><td><span class="job-name">${row.title}</span><div class="change quiet">${marked(row.body)}</div></td><td data-label="rule">${row.rule}</td><td data-label="to">${row.channel}</td>
      <td title=${utc(row.at)}>${ago(row.at)}</td><td data-label="delivered" title=${utc(row.delivered_at)}>${row.delivered_at ? ago(row.delivered_at) : tag("waiting", row.due_at ? `due ${ago(row.due_at)}` : "waiting")}</td></tr>`)}</tbody></table></div>`;
}
