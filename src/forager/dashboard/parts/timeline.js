// @ts-check
/** The life of a task as steps: queued, waited for its lane, fetched, parsed, stored; and its attempts below them. */

import { ago, duration, moment, utc, words } from "../lib/format.js";
import { html } from "../lib/view.js";
import { explained } from "./explain.js";
import { tag } from "./states.js";

/** @typedef {{ name: string, kind: string, seconds: number, meaning: string }} Step */

/** The steps of the last attempt with their lengths. @param {any} task @param {any[]} attempts @param {any} job @returns {Step[]} */
function steps(task, attempts, job) {
  const facts = task.facts ?? {};
  const last = attempts.at(-1);
  const claimed = Date.parse(task.claimed_at ?? "");
  const ended = Date.parse(task.ended_at ?? "");
  const began = Math.min(...[claimed, ...attempts.map((each) => Date.parse(each.started_at))].filter(Number.isFinite));
  const seconds = (/** @type {string} */ name) => Number(facts[name] ?? 0) / 1000;
  const fetched = seconds("fetch_ms") || seconds("api_ms");
  const worked = seconds("lane_ms") + fetched + seconds("parse_ms");
  const took = last && last.status === task.state ? last.duration_ms / 1000 : worked;
  /** @type {Step[]} */
  const found = [];
  /** @param {string} name @param {string} kind @param {number} length @param {string} meaning */
  const add = (name, kind, length, meaning) => {
    if (Number.isFinite(length) && length >= 0) found.push({ name, kind, seconds: length, meaning });
  };
  if (job && Number.isFinite(began)) add("Queued", "queue", Math.max(0, (began - Date.parse(job.created_at)) / 1000), "From the start of its job until a worker took it for the first time.");
  if (worked) {
    add("Waited for its lane", "lane", seconds("lane_ms"), "The pace of the site, its hours, robots.txt: the request was held back until the lane admitted it.");
    add("Fetched", "fetch", fetched, "From sending the request until its whole answer was there; several requests are added up.");
    add("Parsed", "parse", seconds("parse_ms"), "Reading the answer, and everything else that the step did itself.");
  } else if (took) add("At work", "parse", took, "The step of this task; it made no request.");
  if (Number.isFinite(ended) && Number.isFinite(claimed)) add("Handed over and stored", "store", Math.max(0, (ended - claimed) / 1000 - took), "Waiting for a free slot of the worker, and for the transaction that stores the result. Many tasks share one.");
  return found;
}

/** @param {any} task @param {any[]} attempts @param {any} job */
export function lifeOf(task, attempts, job) {
  if (!task) return html`<div class="skeleton"></div>`;
  const found = steps(task, attempts, job);
  const atWork = found.filter((each) => each.kind !== "queue");
  // A queue may be thousands of times longer than the work: the work has a scale of its own.
  const total = Math.max(0.001, atWork.reduce((sum, each) => sum + each.seconds, 0));
  let at = 0;
  const placed = found.map((each) => {
    if (each.kind === "queue") return { ...each, from: 0, share: Math.min(1, each.seconds / total) };
    const from = at / total;
    at += each.seconds;
    return { ...each, from, share: each.seconds / total };
  });
  return html`${placed.length ? html`<div class="life">${placed.map((each) => html`<div>${explained(each.name, each.meaning)}</div><div class="span" role="img" aria-label=${`${each.name}: ${duration(each.seconds)}`}><i class=${each.kind} --from=${Math.min(0.99, each.from)} --share=${Math.min(each.share, 1 - Math.min(0.99, each.from))}></i></div><div class="num">${each.seconds < 0.001 ? "< 1 ms" : duration(each.seconds)}</div>`)}</div>
    <p class="faint after">${task.claimed_at ? html`<span title=${utc(task.claimed_at)}>Taken ${moment(task.claimed_at)}</span>` : null}${task.claimed_at && task.ended_at ? " · " : null}${task.ended_at ? html`<span title=${utc(task.ended_at)}>ended ${moment(task.ended_at)}</span>` : null}</p>` : html`<div class="empty">${task.state === "queued" ? (task.due_at ? `It waits: due ${ago(task.due_at)}.` : "It waits for its turn.") : "Nothing is known of its times."}</div>`}
    ${attempts.length ? attemptTable(attempts) : null}`;
}

/** Attempts that failed, and those of steps that keep all. @param {any[]} rows */
function attemptTable(rows) {
  const first = Math.min(...rows.map((row) => Date.parse(row.started_at)));
  const last = Math.max(...rows.map((row) => Date.parse(row.started_at) + row.duration_ms));
  const span = Math.max(1, last - first);
  return html`<div class="scroll"><table><thead><tr><th>Attempt</th>${rows.length > 1 ? html`<th>When</th>` : null}<th class="num">Took</th><th>How it ended</th></tr></thead><tbody>
    ${rows.map((row) => html`<tr><td class="nowrap"><span class="job-name">${String(row.attempt)}</span> <span class="faint" title=${utc(row.started_at)}>${moment(row.started_at)}</span></td>
      ${rows.length > 1 ? html`<td><div class="steps" role="img" aria-label=${`attempt ${row.attempt}: ${row.status} after ${duration(row.duration_ms / 1000)}`}><i class="queued" --share=${(Date.parse(row.started_at) - first) / span}></i><i class=${row.status === "completed" ? "ran" : row.status === "failed" ? "failed" : "waited"} --share=${Math.max(0.01, row.duration_ms / span)}></i></div></td>` : null}
      <td class="num">${duration(row.duration_ms / 1000)}</td><td>${tag(row.status)} <span class="quiet">${words(row.reason)}${row.message ? ` · ${row.message}` : ""}</span>
        ${row.traceback ? html`<details><summary class="faint">where in the code</summary><pre>${row.traceback}</pre></details>` : null}</td></tr>`)}</tbody></table></div>`;
}
