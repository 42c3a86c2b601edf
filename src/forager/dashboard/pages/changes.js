// @ts-check
/** The change log as it grows. */

import { get } from "../lib/api.js";
import { ago, utc, words } from "../lib/format.js";
import { follow } from "../lib/live.js";
import { load } from "../lib/load.js";
import { setQuery } from "../lib/router.js";
import { html, list, signal } from "../lib/view.js";
import { tag } from "../parts/states.js";

/** @param {Record<string, string>} _params @param {URLSearchParams} query */
export function page(_params, query) {
  const kind = signal(query.get("kind") ?? "");
  const kinds = load("/api/v1/records");
  const rows = signal(/** @type {any[] | null} */ (null));
  const fill = () => get("/api/v1/changes/latest", { kinds: kind.peek(), limit: 200 }).then((answer) => (rows.value = answer.data), () => (rows.value ??= []));
  fill();
  follow("changes", fill);
  return {
    title: "Changes",
    body: html`<div class="stack">
      <div class="chips"><label class="pill"><span>Kind</span><select aria-label="Kind" @change=${(/** @type {Event} */ event) => ((kind.value = /** @type {HTMLSelectElement} */ (event.target).value), setQuery({ kind: kind.peek() }), fill())}>
        <option value="">all</option>${() => (kinds.state.value.data ?? []).map((/** @type {any} */ each) => html`<option value=${each.kind} ?selected=${each.kind === kind.peek()}>${words(each.kind)}</option>`)}</select></label></div>
      <section class="panel">${() => (rows.value === null ? html`<div class="stack"><div class="skeleton"></div><div class="skeleton"></div></div>` : rows.value.length ? null : html`<div class="empty"><p>Nothing has changed yet. New, changed and gone records are listed here.</p><a class="button writes" href="/jobs/new">Start a job</a></div>`)}
        <div class="kinds-first">${list(() => rows.value ?? [], (row) => row.id, (row) => html`<a class="look" href=${`/records/${row.peek().kind}/${encodeURIComponent(row.peek().key)}`}>${tag("", words(row.peek().kind))}
          <div><div class="strong">${row.peek().title ?? row.peek().key}</div><div class="quiet two-lines">${row.peek().text ?? words(row.peek().op)}</div></div><span class="faint" title=${utc(row.peek().at)}>${ago(row.peek().at)}</span></a>`)}</div></section></div>`,
  };
}
