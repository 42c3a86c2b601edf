// @ts-check
/** Tasks that failed permanently, grouped by reason, with one action for each group. */

import { post } from "../lib/api.js";
import { ago, number, utc, words } from "../lib/format.js";
import { load, whenLoaded } from "../lib/load.js";
import { setQuery } from "../lib/router.js";
import { effect, html, onEnd, signal } from "../lib/view.js";
import { act } from "../parts/feedback.js";
import { overview } from "../parts/shell.js";
import { tag, taskName } from "../parts/states.js";
import { retryAll } from "../parts/retry.js";
import { pagedTable } from "../parts/table.js";

/** When the lists are read again after a retry. */
const READ_AGAIN_MS = [1000, 3000, 8000, 20_000, 60_000];

/** @param {Record<string, string>} _params @param {URLSearchParams} query */
export function page(_params, query) {
  const filter = signal({ reason: query.get("reason") ?? "", pipeline: query.get("pipeline") ?? "", job: query.get("job") ?? "" });
  const again = signal(0);
  const reasons = load("/api/v1/dead/reasons", { every: 30 });
  const reload = () => (reasons.again(), (again.value = again.peek() + 1));
  // The badge of the menu counts them, too: when it moves, the lists are behind.
  let counted = overview.peek()?.counts.dead_letters;
  effect(() => {
    const now = overview.value?.counts.dead_letters;
    if (now !== counted) (counted = now), reload();
  });
  /** @type {Set<ReturnType<typeof setTimeout>>} */
  const timers = new Set();
  onEnd(() => timers.forEach(clearTimeout));
  /** A task that runs again may fail again at once: read now, and as long as it may take to end. */
  const retried = () => (reload(), READ_AGAIN_MS.forEach((wait) => timers.add(setTimeout(reload, wait))));
  /** @param {any} group */
  const retry = (group) => () => retryAll({ pipeline: group.pipeline, reason: group.reason }).finally(retried);
  /** @param {any} group */
  const only = (group) => {
    const same = filter.peek().reason === group.reason && filter.peek().pipeline === group.pipeline;
    filter.value = same ? { reason: "", pipeline: "", job: "" } : { reason: group.reason ?? "", pipeline: group.pipeline, job: "" };
    setQuery(filter.peek());
  };
  return {
    title: "Dead letters",
    body: html`<div class="stack">
      <section class="panel"><header><h2>By reason</h2></header>${whenLoaded(reasons, (groups) => (groups.length ? html`<div class="looks">${groups.map((/** @type {any} */ group) => html`<div class="look">
        ${tag("failed", group.pipeline)}<button class="button plain" @click=${() => only(group)} aria-pressed=${() => String(filter.value.reason === group.reason && filter.value.pipeline === group.pipeline)}>
          <strong>${number(group.letters)}</strong> ${words(group.reason ?? group.error_type ?? "unknown")} <span class="faint" title=${utc(group.last_failed_at)}>${ago(group.last_failed_at)}</span></button>
        <button class="button writes small" @click=${(/** @type {Event} */ event) => act(event, retry(group))}>Retry ${number(group.letters)}</button></div>`)}</div>`
        : html`<div class="empty">No task has failed permanently.</div>`))}</section>
      <section class="panel">${pagedTable({
        path: "/api/v1/dead", query: () => filter.value, keyOf: (row) => row.id, href: (row) => `/tasks/${row.id}`, again,
        columns: [
          { title: "Task", cell: (row) => html`<span class="job-name">${taskName(row)}</span><br><code>${row.pipeline} ${row.id.slice(-8)}</code>` },
          { title: "Why", cell: (row) => html`${tag("failed", words(row.reason ?? row.error_type))}<div class="quiet">${row.error}</div>` },
          { title: "Attempts", right: true, wide: true, cell: (row) => number(row.attempts) },
          { title: "Failed", right: true, wide: true, cell: (row) => html`<span title=${utc(row.ended_at)}>${ago(row.ended_at)}</span>` },
          { title: "", right: true, cell: (row) => html`<button class="button writes small" @click=${(/** @type {Event} */ event) => act(event, () => post(`/api/v1/dead/${row.id}/retry`).then(retried), "It runs again.")}>Retry</button>` },
        ], empty: () => "No dead letter matches.",
      })}</section></div>`,
  };
}
