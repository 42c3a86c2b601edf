// @ts-check
/** One record: its fields with their origin, its history as differences, a chart for each number that has changed. */

import { moment, percent, utc, words } from "../lib/format.js";
import { load, whenLoaded } from "../lib/load.js";
import { html } from "../lib/view.js";
import { timeChart } from "../parts/chart.js";
import { nameOf, show } from "./records.js";

/** @param {{ kind: string, key: string }} params @param {URLSearchParams} query */
export function page({ kind, key }, query) {
  const path = `/api/v1/records/${kind}/${encodeURIComponent(key)}`;
  const job = query.get("job");
  const record = load(path, { query: job ? { job } : {} });
  const history = load(() => (job ? null : `${path}/history`), { query: { limit: 100 } });
  return {
    title: () => (record.state.value.data ? nameOf(record.state.value.data) : words(kind)),
    state: html`<a class="tag" href=${`/records/${kind}`}>${words(kind)}</a>`,
    body: html`<div class="stack">
      <section class="panel">${whenLoaded(record, (data) => fields(data))}</section>
      ${job ? html`<section class="panel quiet">A ${words(kind)} is what one job found: it does not change. <a class="link" href=${`/jobs/${job}`}>Its job</a></section>` : html`
        <section class="panel"><header><h2>Over time</h2></header>${whenLoaded(history, (rows) => charts(rows))}</section>
        <section class="panel"><header><h2>History</h2></header>${whenLoaded(history, (rows) => differences(rows))}</section>`}
    </div>`,
  };
}

/** @param {any} data */
function fields(data) {
  const evidence = data.evidence ?? {};
  const known = Object.entries(data).filter(([name, value]) => name !== "evidence" && value !== null && value !== "");
  const unknown = Object.entries(data).filter(([, value]) => value === null || value === "").map(([name]) => words(name));
  return html`<dl class="pairs">${known.map(([name, value]) => html`<dt>${words(name)}</dt>
    <dd>${typeof value === "object" && value !== null ? html`<pre>${JSON.stringify(value, null, 2)}</pre>` : show(name, value)}
      ${evidence[name] ? origin(evidence[name]) : null}</dd>`)}</dl>
    ${unknown.length ? html`<p class="faint after">Without a value: ${unknown.join(", ")}</p>` : null}`;
}

/** Where a value came from, and how sure that is. @param {any} found */
function origin(found) {
  if (typeof found !== "object") return html` <span class="faint">from ${String(found)}</span>`;
  const { source, confidence, ...rest } = found;
  const more = Object.entries(rest).filter(([, value]) => value !== null && typeof value !== "object").map(([name, value]) => `${words(name)} ${value}`);
  return html` <span class="faint">${source ? html`from <code>${source}</code>` : null}${typeof confidence === "number" ? html`${source ? ", " : null}<span title="How sure the parser is of this value">${percent(confidence)} sure</span>` : null}${more.length ? ` · ${more.join(" · ")}` : null}</span>`;
}

/** @param {any} row */
const bodyOf = (row) => row.body ?? row.record ?? row.data ?? {};

/** @param {any[]} rows */
function charts(rows) {
  const past = [...rows].reverse();
  const names = [...new Set(past.flatMap((row) => Object.entries(bodyOf(row)).filter(([name, value]) => isNumber(name, value)).map(([name]) => name)))];
  const moving = names.filter((name) => new Set(past.map((row) => Number(bodyOf(row)[name]))).size > 1).slice(0, 4);
  if (!moving.length) return html`<div class="empty small">No number of this record has changed yet.</div>`;
  return html`<div class="split even">${moving.map((name) => {
    const known = past.filter((row) => bodyOf(row)[name] !== null && bodyOf(row)[name] !== undefined);
    return html`<div><h2>${words(name)}</h2>${timeChart({ times: known.map((row) => Date.parse(row.at)), values: known.map((row) => Number(bodyOf(row)[name])), label: name, steps: true, height: 120 })}</div>`;
  })}</div>`;
}

/** @param {string} name @param {unknown} value */
const isNumber = (name, value) => !/(_id|^id|version|hash|phone|zip|sku|gtin|latitude|longitude)$/.test(name) && value !== null && value !== "" && typeof value !== "boolean" && typeof value !== "object" && Number.isFinite(Number(value));

/** @param {any[]} rows */
function differences(rows) {
  if (!rows.length) return html`<div class="empty small">No history.</div>`;
  return html`<div class="kinds-first short">${rows.map((row, index) => {
    const now = bodyOf(row);
    const before = rows[index + 1] ? bodyOf(rows[index + 1]) : {};
    const names = Object.keys({ ...before, ...now }).filter((name) => JSON.stringify(before[name]) !== JSON.stringify(now[name]));
    const first = index === rows.length - 1;
    return html`<div class="look"><span class="tag">${words(row.op)}</span><div>
      ${first ? html`<span class="quiet">first seen with ${String(names.length)} fields</span>` : names.map((name) => html`<div><span class="quiet">${words(name)}</span> ${difference(before[name], now[name])}</div>`)}</div>
      <span class="faint nowrap" title=${utc(row.at)}>${moment(row.at)}</span></div>`;
  })}</div>`;
}

/** A text with the words that were removed and those that were added, from their longest common sequence. @param {string[]} old @param {string[]} fresh */
function byWord(old, fresh) {
  const common = Array.from({ length: old.length + 1 }, () => new Array(fresh.length + 1).fill(0));
  for (let i = old.length - 1; i >= 0; i--) for (let j = fresh.length - 1; j >= 0; j--) at(common, i)[j] = old[i] === fresh[j] ? at(common, i + 1)[j + 1] + 1 : Math.max(at(common, i + 1)[j], at(common, i)[j + 1]);
  /** @type {{ kind: string, text: string }[]} */
  const parts = [];
  const add = (/** @type {string} */ kind, /** @type {string | undefined} */ text) => void (parts.at(-1)?.kind === kind ? (/** @type {any} */ (parts.at(-1)).text += text) : parts.push({ kind, text: text ?? "" }));
  for (let i = 0, j = 0; i < old.length || j < fresh.length; ) {
    if (i < old.length && j < fresh.length && old[i] === fresh[j]) add("same", old[(j++, i++)]);
    else if (i < old.length && (j >= fresh.length || at(common, i + 1)[j] >= at(common, i)[j + 1])) add("del", old[i++]);
    else add("ins", fresh[j++]);
  }
  return html`${parts.map(({ kind, text }) => (kind === "same" ? text : kind === "del" ? html`<del>${text}</del>` : html`<ins>${text}</ins>`))}`;
}

/** @param {number[][]} rows @param {number} index @returns {any} */
const at = (rows, index) => rows[index];

/** Words that were removed and added. @param {any} before @param {any} now */
export function difference(before, now) {
  const [old, fresh] = [before, now].map((value) => (value === null || value === undefined ? "" : typeof value === "object" ? JSON.stringify(value) : String(value)));
  if ((old ?? "").length > 400 || (fresh ?? "").length > 400) return html`<span class="faint">${String((old ?? "").length)} → ${String((fresh ?? "").length)} characters</span>`;
  if (old && fresh && /\s/.test(old) && /\s/.test(fresh)) return byWord(old.split(/(\s+)/), fresh.split(/(\s+)/));
  return html`${old ? html`<del>${old}</del>` : html`<span class="faint">none</span>`} → ${fresh ? html`<ins>${fresh}</ins>` : html`<span class="faint">none</span>`}`;
}
