// @ts-check
/** Charts as SVG: an area over time with failures as marks, a sparkline, small bars. One accent, hairline grid, no legend for one series. */

import { html, signal, svg } from "../lib/view.js";
import { number } from "../lib/format.js";

/** @typedef {{ at: number, value: number }} Point */

/** @param {readonly number[]} values @param {number} width @param {number} height @param {number} top */
function points(values, width, height, top) {
  const step = values.length > 1 ? width / (values.length - 1) : width;
  return values.map((value, index) => /** @type {const} */ ([index * step, height - (Math.max(0, value) / (top || 1)) * height]));
}

/** @param {readonly (readonly [number, number])[]} path */
const draw = (path) => path.map(([x, y], index) => `${index ? "L" : "M"}${x.toFixed(1)} ${y.toFixed(1)}`).join("");

/** A line without axes. @param {readonly number[]} values @param {{ failing?: boolean, fill?: boolean, label?: string }} [options] */
export function sparkline(values, { failing = false, fill = true, label = "" } = {}) {
  if (values.length < 2) return html`<svg class="chart" viewBox="0 0 100 30" preserveAspectRatio="none" aria-hidden="true"></svg>`;
  const path = draw(points(values, 100, 26, Math.max(...values)).map(([x, y]) => [x, y + 2]));
  return html`<svg class="chart" viewBox="0 0 100 30" preserveAspectRatio="none" role="img" aria-label=${label || "trend"}>
    ${fill && !failing ? svg`<path class="area" d=${`${path}L100 30L0 30Z`}></path>` : null}
    <path class=${failing ? "fail-line" : "stroke"} d=${path}></path></svg>`;
}

/** Bars; the last one is still growing. @param {readonly number[]} values @param {string} label */
export function bars(values, label) {
  const top = Math.max(1, ...values);
  const width = 100 / Math.max(1, values.length);
  return html`<svg class="chart" viewBox="0 0 100 30" preserveAspectRatio="none" role="img" aria-label=${label}>
    ${values.map((value, index) => svg`<rect class=${index === values.length - 1 ? "bars now" : "bars"} x=${(index * width + width * 0.12).toFixed(2)}
      width=${(width * 0.76).toFixed(2)} y=${(30 - (value / top) * 29).toFixed(2)} height=${((value / top) * 29).toFixed(2)}></rect>`)}</svg>`;
}

/**
 * Values over time with a hover that reads the nearest one.
 * @param {{ times: readonly number[], values: readonly number[], second?: readonly number[], failures?: readonly number[],
 *           format?: (value: number) => string, label: string, height?: number, steps?: boolean }} options
 */
export function timeChart({ times, values, second, failures, format = number, label, height = 190, steps = false }) {
  if (times.length < 2) return html`<p class="quiet">Not enough data for a chart yet.</p>`;
  const [least, most] = [Math.min(...values), Math.max(1e-9, ...values, ...(second ?? []))];
  // A price is shown around its own range, a count from zero.
  const room = Math.max((most - least) * 0.3, most * 0.02);
  const [low, top] = steps ? [Math.max(0, least - room), most + room] : [0, most * 1.12];
  const scaled = values.map((value) => value - low);
  const span = top - low;
  let path = points(scaled, 1000, height, span);
  if (steps) path = path.flatMap(([x, y], index) => (index ? [/** @type {const} */ ([x, path[index - 1]?.[1] ?? y]), /** @type {const} */ ([x, y])] : [/** @type {const} */ ([x, y])]));
  const line = draw(path);
  const under = second ? draw(points(second, 1000, height, span)) : "";
  const worst = Math.max(1, ...(failures ?? [0]));
  const hover = signal(/** @type {number | null} */ (null));
  /** @param {PointerEvent} event */
  const move = (event) => {
    const box = /** @type {Element} */ (event.currentTarget).getBoundingClientRect();
    hover.value = Math.max(0, Math.min(times.length - 1, Math.round(((event.clientX - box.left) / box.width) * (times.length - 1))));
  };
  return html`<div class="chart-box" @pointermove=${move} @pointerleave=${() => (hover.value = null)}>
    <svg class="chart" viewBox=${`0 0 1000 ${height}`} height=${height} preserveAspectRatio="none" role="img" aria-label=${label}>
      ${[0.25, 0.5, 0.75].map((share) => svg`<line class="grid" x1="0" x2="1000" y1=${height * share} y2=${height * share} vector-effect="non-scaling-stroke"></line>`)}
      <path class="area" d=${`${line}L1000 ${height}L0 ${height}Z`}></path>
      ${under ? svg`<path class="second" d=${`${under}L1000 ${height}L0 ${height}Z`}></path>` : null}
      <path class="stroke" d=${line}></path>
      ${(failures ?? []).map((count, index) => (count ? svg`<rect class="fail" x=${(index / (times.length - 1)) * 1000 - 2} width="4"
        y=${height - 8 - (count / worst) * 24} height=${8 + (count / worst) * 24}></rect>` : null))}
    </svg>
    ${() => {
      const at = hover.value;
      if (at === null) return null;
      const failed = failures?.[at] ? ` · ${number(failures[at] ?? 0)} failed` : "";
      return html`<div class="chart-tip" --x=${at / (times.length - 1)} --y=${height - ((scaled[at] ?? 0) / span) * height}>
        ${format(values[at] ?? 0)}${failed} · ${new Date(times[at] ?? 0).toLocaleString(undefined, { dateStyle: "short", timeStyle: "short" })}</div>`;
    }}
    <div class="spread faint"><span>${stamp(times[0] ?? 0, times)}</span>
      <span class="wide-only">${most <= 1e-9 ? "" : steps ? (least === most ? "" : `${format(least)} to ${format(most)}`) : `peak ${format(Math.max(...values))}`}</span>
      <span>${stamp(times.at(-1) ?? 0, times)}</span></div>
  </div>`;
}

/** A moment of an axis: the time of a day, or the day of a longer range. @param {number} at @param {readonly number[]} times */
function stamp(at, times) {
  const span = (times.at(-1) ?? 0) - (times[0] ?? 0);
  return new Date(at).toLocaleString(undefined, span > 3 * 86_400_000 ? { dateStyle: "medium" } : span > 20 * 3_600_000 ? { month: "short", day: "numeric", hour: "numeric", minute: "2-digit" } : { timeStyle: "short" });
}
