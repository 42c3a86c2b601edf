// @ts-check
/** Figures over time with tabs: tasks, cost, bytes, changes. */

import { bytes, number } from "../lib/format.js";
import { html, signal } from "../lib/view.js";
import { timeChart } from "./chart.js";

const TABS = /** @type {const} */ ([["tasks", "per minute"], ["cost", "units that upstreams charge, per minute"], ["data", "size of answers, per minute"], ["changes", "of records, in each step"]]);

/** @param {() => any} read the answer of `/api/v1/series` */
export function seriesPanel(read) {
  const tab = signal("tasks");
  return html`<section class="panel"><header><h2>Throughput</h2><span class="row">${() => (tab.value === "tasks" ? legend(read()) : html`<span class="faint wide-only">${TABS.find(([name]) => name === tab.value)?.[1]}</span>`)}
    <span class="range small" role="group" aria-label="Figure">${TABS.map(([name]) => html`<button aria-pressed=${() => String(tab.value === name)} @click=${() => (tab.value = name)}>${name}</button>`)}</span></span></header>
    ${() => (read() ? shown(tab.value, read()) : html`<div class="skeleton"></div>`)}</section>`;
}

const RATES = ["completed", "skipped", "cost", "bytes"];

/**
 * The figures with the last step at the pace that it has had so far, because it is not over and every line would end in
 * a fall. In its first third it is left out: a pace of some seconds means nothing.
 * @param {any} past the answer of `/api/v1/series`
 */
export function paced(past) {
  if (!past || past.times.length < 2) return past;
  const last = past.times.length - 1;
  const part = Math.min(1, (Date.now() - past.times[last]) / (past.step_seconds * 1000));
  /** @type {(name: string) => any[]} */
  const line = (name) => (part < 1 / 3 ? past[name].slice(0, last) : RATES.includes(name) ? [...past[name].slice(0, last), past[name][last] / part] : past[name]);
  return { ...past, ...Object.fromEntries(["times", "failed", "changes", ...RATES].map((name) => [name, line(name)])) };
}

/** The names of the lines that are there. @param {any} past */
const legend = (past) => html`<span class="legend faint wide-only">${/** @type {const} */ ([["completed", "done"], ["skipped", "skipped"], ["failed", "failed"]])
  .filter(([name]) => past?.[name].some(Boolean)).map(([name, title]) => html`<span><i class=${name}></i>${title}</span>`)}<span>per minute</span></span>`;

/** @param {string} tab @param {any} past */
function shown(tab, past) {
  const times = past.times;
  if (tab === "cost") return timeChart({ times, values: past.cost, label: "cost per minute", format: (value) => `${number(Math.round(value * 10) / 10)} units` });
  if (tab === "data") return timeChart({ times, values: past.bytes, label: "bytes per minute", format: (value) => bytes(value) });
  if (tab === "changes") return timeChart({ times, values: past.changes, label: "changes", format: (value) => `${number(value)} changes` });
  return timeChart({ times, values: past.completed, second: past.skipped, failures: past.failed, label: "tasks per minute", format: (value) => `${number(Math.round(value))} done` });
}
