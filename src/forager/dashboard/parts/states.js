// @ts-check
/** States as soft words, jobs as bars, and the human name of a job. */

import { html } from "../lib/view.js";
import { number, words } from "../lib/format.js";

/** @type {Record<string, string>} */
const COLOURS = {
  running: "blue", completed: "green", done: "green", active: "green", delivering: "green", ok: "green", closed: "green", in_stock: "green", works: "green",
  failed: "red", red: "red", failing: "red", open: "red", refused: "red", out_of_stock: "red",
  waiting: "amber", paused: "amber", degraded: "amber", partially_completed: "amber", half_open: "amber", preorder: "amber",
  cancelled: "", queued: "", idle: "", skipped: "", held: "",
};

/** @param {string} state @param {string} [text] */
export const tag = (state, text) => html`<span class=${`tag ${COLOURS[state] ?? ""}`}>${text ?? words(state)}</span>`;

/** The colour of a value that has moved: a fall of what a person pays is good, of anything else bad. @param {string} field @param {number} change */
export const moveColour = (field, change) => (change < 0 === /(^|_)(price|rent|cost|fee)s?(_|$)/.test(field) ? "green" : "red");

/** @param {{ total: number, completed: number, failed: number, skipped: number, cancelled?: number, running?: number }} job */
export function jobBar(job) {
  const total = Math.max(1, job.total);
  const parts = /** @type {const} */ ([["completed", job.completed], ["failed", job.failed], ["skipped", job.skipped + (job.cancelled ?? 0)]]);
  return html`<div class="bar" role="img" aria-label=${progressText(job)} title=${progressText(job)}>
    ${parts.map(([name, count]) => (count ? html`<i class=${name} --share=${count / total}></i>` : null))}</div>`;
}

/** @param {{ total: number, completed: number, failed: number, skipped: number, cancelled?: number }} job */
export function progressText(job) {
  const parts = [`${number(job.completed)} done`];
  if (job.failed) parts.push(`${number(job.failed)} failed`);
  if (job.skipped) parts.push(`${number(job.skipped)} skipped`);
  if (job.cancelled) parts.push(`${number(job.cancelled)} cancelled`);
  return `${parts.join(" · ")} of ${number(job.total)}`;
}

const NAMED_BY = ["name", "title", "keyword", "keywords", "city", "market", "market_id", "sitemap", "sitemaps", "domain", "start_urls", "urls", "url", "targets"];

/** The job in a person's words, made of its parameters: "coffee shops · AZ". @param {{ pipeline: string, params: Record<string, any>, schedule?: string | null }} job */
export function jobName(job) {
  const given = job.params ?? {};
  // A pipeline with several actions puts the parameters of the chosen one below its name: { action: "scrape", scrape: { city, … } }.
  const params = typeof given.action === "string" && given[given.action] ? { ...given, ...given[given.action] } : given;
  /** @type {string[]} */
  const found = [];
  for (const name of NAMED_BY) {
    const text = textOf(params[name]);
    if (text && !found.includes(text)) found.push(text);
    if (found.length) break;
  }
  const where = textOf(params.state ?? params.states ?? params.zips ?? params.location);
  if (where && found.length) found.push(where);
  return found.join(" · ") || job.schedule || words(job.pipeline);
}

/** A name that may go on in another line after a slash, rather than inside a word. @param {string} name */
export const breakable = (name) => name.split(/(?<=\/)/).map((part, index) => (index ? [document.createElement("wbr"), part] : part));

/** A task in a person's words: its address without the scheme, or its key. @param {{ url?: string | null, key: string, kind?: string }} task */
export const taskName = (task) => (task.url ? task.url.replace(/^https?:\/\/(www\.)?/, "") : task.kind === "places.query" ? task.key.replace("/", ", page ") : task.key);

/** @param {any} value @returns {string} */
function textOf(value) {
  if (typeof value === "string") return value.replace(/^https?:\/\/(www\.)?/, "").replace(/\/$/, "").slice(0, 60);
  if (typeof value === "number") return String(value);
  if (Array.isArray(value) && value.length) {
    const first = textOf(typeof value[0] === "object" ? (value[0]?.url ?? value[0]?.target_url ?? value[0]?.name) : value[0]);
    return value.length > 1 ? `${first} and ${number(value.length - 1)} more` : first;
  }
  return "";
}
