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
