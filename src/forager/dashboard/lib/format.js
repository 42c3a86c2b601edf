// @ts-check
/** Numbers, times and money as text. Dates are local; `moment()` has the UTC time for a tooltip. */

const counts = new Intl.NumberFormat("en-US");
const compact = new Intl.NumberFormat("en-US", { notation: "compact", maximumFractionDigits: 1 });
const SECONDS = /** @type {const} */ ([["d", 86400], ["h", 3600], ["min", 60], ["s", 1]]);

/** 48213 → "48,213" @param {number | null | undefined} value */
export const number = (value) => (value === null || value === undefined ? "–" : counts.format(value));

/** 1243 → "1.2K" @param {number | null | undefined} value */
export const short = (value) => (value === null || value === undefined ? "–" : value < 10_000 ? counts.format(value) : compact.format(value));

/** Tasks per second, or per minute if there are few. @param {number | null | undefined} perSecond */
export function rate(perSecond) {
  if (!perSecond) return "–";
  if (perSecond >= 10) return `${counts.format(Math.round(perSecond))}/s`;
  if (perSecond >= 0.1) return `${perSecond.toFixed(1)}/s`;
  return `${(perSecond * 60).toFixed(1)}/min`;
}

/** 3700 → "1 h 1 min" @param {number | null | undefined} seconds */
export function duration(seconds) {
  if (seconds === null || seconds === undefined) return "–";
  if (seconds < 1) return seconds < 0.001 ? "0 s" : `${Math.round(seconds * 1000)} ms`;
  const at = SECONDS.findIndex(([, size]) => seconds >= size);
  const [unit, size] = SECONDS[at] ?? ["s", 1];
  const whole = Math.floor(seconds / size);
  const [nextUnit, nextSize] = SECONDS[at + 1] ?? ["", 0];
  const rest = nextSize && whole < 10 ? Math.floor((seconds - whole * size) / nextSize) : 0;
  return rest ? `${whole} ${unit} ${rest} ${nextUnit}` : `${whole} ${unit}`;
}

/** The largest unit only, 177 → "2 min" @param {number | null | undefined} seconds */
export const about = (seconds) => duration(seconds).replace(/ (\d+ \S+)$/, "");

/** "3 min ago", "in 40 s" @param {string | null | undefined} when */
export function ago(when) {
  if (!when) return "never";
  const seconds = (Date.now() - Date.parse(when)) / 1000;
  if (Math.abs(seconds) < 1) return "now";
  return seconds < 0 ? `in ${duration(-seconds)}` : `${about(seconds)} ago`;
}

/** The local date and time. @param {string | null | undefined} when */
export const moment = (when) => (when ? new Date(when).toLocaleString(undefined, { dateStyle: "medium", timeStyle: "medium" }) : "–");
/** The UTC time, for tooltips. @param {string | null | undefined} when */
export const utc = (when) => (when ? `${new Date(when).toISOString().replace("T", " ").slice(0, 19)} UTC` : "");

/** What jobs of a pipeline have spent: some count dollars in small parts, some pages, the others credits.
 * @param {string} pipeline @param {number} amount */
export function spent(pipeline, amount) {
  const parts = /** @type {Record<string, number>} */ ({ scrape: 1_000_000, listings: 10_000 })[pipeline];
  return parts ? money(amount / parts) : plural(amount, ["products", "sites"].includes(pipeline) ? "page" : "credit");
}

/** @param {number | string | null | undefined} amount @param {string} currency */
export function money(amount, currency = "USD") {
  if (amount === null || amount === undefined || amount === "") return "–";
  const value = Number(amount);
  const digits = value !== 0 && Math.abs(value) < 0.1 ? 4 : Number.isInteger(value) && Math.abs(value) >= 100 ? 0 : 2;
  try {
    return new Intl.NumberFormat("en-US", { style: "currency", currency, minimumFractionDigits: digits, maximumFractionDigits: digits }).format(value);
  } catch {
    return `${value.toFixed(2)} ${currency}`;
  }
}

/** @param {number | null | undefined} size */
export function bytes(size) {
  if (size === null || size === undefined) return "–";
  const units = ["B", "KB", "MB", "GB", "TB"];
  let at = 0;
  for (; size >= 1000 && at < units.length - 1; at++) size /= 1000;
  return `${size >= 100 || at === 0 ? Math.round(size) : size.toFixed(1)} ${units[at]}`;
}

/** 0.1234 → "12 %" @param {number | null | undefined} share */
export const percent = (share) => (share === null || share === undefined ? "–" : `${share > 0 && share < 0.01 ? (share * 100).toFixed(2) : Math.round(share * 100)} %`);

/** "in_progress" → "in progress" @param {string | null | undefined} word */
export const words = (word) => (word ?? "").replaceAll("_", " ");

/** "1 job", "3 jobs" @param {number} count @param {string} noun @param {string} [many] */
export const plural = (count, noun, many) => `${number(count)} ${count === 1 ? noun : (many ?? `${noun}s`)}`;
