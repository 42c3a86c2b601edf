// @ts-check
/** Tables: an ordinary one that loads further pages, and a virtual one for very long lists. */

import { get } from "../lib/api.js";
import { effect, html, list, onEnd, signal } from "../lib/view.js";

/** `value`: what a click on the title sorts by; a column without it cannot be sorted.
 * @typedef {{ title: string, cell: (row: any) => unknown, right?: boolean, wide?: boolean, value?: (row: any) => unknown }} Column */

/** Rows that are read before a table is sorted by a column: there is no index for each of them. */
const SORTED = 1000;

/** Pages that are read by themselves, one after another, for a list whose pages may be short. */
const FILLED = 20;

/**
 * `fill`: read further pages by itself until a screen of rows is there, for a search whose pages may be short.
 * Rows of a paged list, with a button for the next page. Loads again when a signal read by `query` changes.
 * @param {{ path: string | (() => string), query?: () => Record<string, unknown>, columns: Column[], keyOf: (row: any) => string | number,
 *           fill?: () => boolean, empty: () => unknown, href?: (row: any) => string, pageSize?: number, again?: import("../lib/view.js").Signal<number>,
 *           checked?: import("../lib/view.js").Signal<Set<string | number>>, sorted?: import("../lib/view.js").Signal<string> }} options
 * `sorted`: the title of the column by which the rows are sorted, with a "-" in front for the largest first.
 */
export function pagedTable({ path, query = () => ({}), columns, keyOf, empty, href, pageSize = 50, again, checked, sorted = signal(""), fill = () => false }) {
  const rows = signal(/** @type {any[]} */ ([]));
  const state = signal({ cursor: /** @type {string | null} */ (null), busy: true, error: "" });
  let visit = 0;
  /** @param {Record<string, unknown>} filters @param {string | null} cursor @param {number} [turn] */
  async function fetchPage(filters, cursor, turn = 1) {
    const mine = ++visit;
    state.value = { ...state.peek(), busy: true, error: "" };
    try {
      const answer = await get(typeof path === "function" ? path() : path, { limit: sorted.peek() ? SORTED : pageSize, ...filters, cursor });
      if (mine !== visit) return;
      rows.value = cursor ? [...rows.peek(), ...answer.data] : answer.data;
      const next = answer.meta?.next_cursor ?? null;
      const enough = sorted.peek() ? SORTED : fill() ? pageSize : 0;
      const more = next && rows.peek().length < enough && turn < FILLED;
      state.value = { cursor: next, busy: Boolean(more), error: "" };
      if (more) await fetchPage(filters, next, turn + 1);
    } catch (error) {
      if (mine === visit) state.value = { cursor: null, busy: false, error: error instanceof Error ? error.message : String(error) };
    }
  }
  effect(() => {
    again?.value;
    const filters = query();
    fetchPage(filters, null);
  });
  onEnd(() => void visit++);
  /** Sort by a column, the other way round at the second click, not at all at the third. @param {Column} column */
  const sortBy = (column) => {
    sorted.value = sorted.peek() === column.title ? `-${column.title}` : sorted.peek() === `-${column.title}` ? "" : column.title;
    if (sorted.peek() && state.peek().cursor && rows.peek().length < SORTED) fetchPage(query(), null);
  };
  const inOrder = () => {
    const chosen = columns.find(({ title, value }) => value && title === sorted.value.replace(/^-/, ""));
    return chosen?.value ? byValue(rows.value, chosen.value, sorted.value.startsWith("-")) : rows.value;
  };
  /** @param {Column} column */
  const heading = (column) => (column.value ? html`<button class="sorter" @click=${() => sortBy(column)}>${column.title}${() => (sorted.value === column.title ? " ↑" : sorted.value === `-${column.title}` ? " ↓" : "")}</button>` : column.title);
  /** @param {Column} column */
  const direction = (column) => (sorted.value === column.title ? "ascending" : sorted.value === `-${column.title}` ? "descending" : null);
  /** @param {string | number} key @param {boolean} on */
  const check = (key, on) => {
    if (!checked) return;
    const next = new Set(checked.peek());
    if (on) next.add(key);
    else next.delete(key);
    checked.value = next;
  };
  return html`<div aria-busy=${() => String(state.value.busy)}>
    ${() => (state.value.error ? html`<div class="notice" role="alert">${state.value.error}</div>` : null)}
    <div class="scroll"><table class="rows">
      <thead><tr>${checked ? html`<th><span class="visually-hidden">Select</span></th>` : null}
        ${columns.map((column) => html`<th aria-sort=${() => direction(column)} class=${`${column.right ? "num" : ""} ${column.wide ? "wide-only" : ""}`}>${heading(column)}</th>`)}</tr></thead>
      <tbody>${list(inOrder, keyOf, (row) => html`<tr class="hit">
        ${checked ? html`<td><input type="checkbox" aria-label="Select" .checked=${() => checked.value.has(keyOf(row.value))}
          @change=${(/** @type {Event} */ event) => check(keyOf(row.value), /** @type {HTMLInputElement} */ (event.target).checked)}></td>` : null}
        ${columns.map((column, index) => html`<td data-label=${column.right ? column.title : null} class=${`${column.right ? "num" : ""} ${column.wide ? "wide-only" : ""}`}>
          ${() => (index === 0 && href ? html`<a href=${href(row.value)}>${column.cell(row.value)}</a>` : column.cell(row.value))}</td>`)}</tr>`)}</tbody>
    </table></div>
    ${() => (!state.value.busy && !state.value.error && rows.value.length === 0 ? html`<div class="empty">${empty()}</div>` : null)}
    ${() => (state.value.cursor ? html`<p class="row">${sorted.value ? html`<span class="quiet">Sorted: the first ${String(rows.value.length)} rows. Filter for fewer.</span>` : null}<button class="button small" ?disabled=${() => state.value.busy} @click=${() => fetchPage(query(), state.value.cursor)}>Show more</button></p>` : null)}
  </div>`;
}

/** Rows by a value: numbers by size, other values as text, rows without one at the end. @param {readonly any[]} rows @param {(row: any) => unknown} valueOf @param {boolean} descending */
export function byValue(rows, valueOf, descending) {
  const known = rows.map((row) => ({ row, value: valueOf(row) }));
  const without = (/** @type {unknown} */ value) => value === null || value === undefined || value === "";
  const numeric = known.every(({ value }) => without(value) || (typeof value !== "object" && Number.isFinite(Number(value))));
  known.sort((a, b) => {
    if (without(a.value) || without(b.value)) return Number(without(a.value)) - Number(without(b.value));
    const order = numeric ? Number(a.value) - Number(b.value) : String(a.value).localeCompare(String(b.value));
    return descending ? -order : order;
  });
  return known.map(({ row }) => row);
}

const LINE = 40;
/** Lines that are in the page at once: those of the tallest window, and a few beyond it. */
const POOL = 26;

/**
 * A list of any length in a window that scrolls: only visible lines are in the page, and further pages are loaded as they come into view.
 * @param {{ path: string, query?: () => Record<string, unknown>, columns: Column[], widths: string, empty?: () => unknown, again?: import("../lib/view.js").Signal<number> }} options
 */
export function virtualTable({ path, query = () => ({}), columns, widths, empty, again }) {
  const rows = signal(/** @type {any[]} */ ([]));
  const loading = signal(true);
  const problem = signal("");
  const top = signal(0);
  let cursor = /** @type {string | null} */ (null);
  let busy = false;
  let visit = 0;
  let fresh = true;
  let turns = 0;
  async function more() {
    if (busy) return;
    busy = true;
    const mine = visit;
    try {
      const answer = await get(path, { limit: 500, ...query(), cursor });
      if (mine !== visit) return;
      cursor = answer.meta?.next_cursor ?? null;
      rows.value = fresh ? answer.data : [...rows.peek(), ...answer.data];
      fresh = false;
      problem.value = "";
      if (cursor && rows.peek().length < POOL && ++turns < FILLED) setTimeout(() => mine === visit && more());
    } catch (error) {
      if (mine === visit) problem.value = error instanceof Error ? error.message : String(error);
    } finally {
      if (mine === visit) busy = loading.value = false;
    }
  }
  effect(() => {
    again?.value;
    query();
    visit++;
    busy = false;
    fresh = true; // the rows of before stay until the first page of the new ones is there
    cursor = null;
    turns = 0;
    more();
  });
  onEnd(() => void visit++);
  /** @param {Event} event */
  const scrolled = (event) => {
    const box = /** @type {HTMLElement} */ (event.currentTarget);
    top.value = Math.floor(box.scrollTop / LINE);
    if (cursor && box.scrollTop + box.clientHeight > (rows.peek().length - 60) * LINE) more();
  };
  /** The lines of the window. A line keeps its element while rows pass through it, so that scrolling makes no nodes. */
  const visible = () => {
    const from = Math.max(0, Math.min(top.value - 4, rows.value.length - POOL));
    return rows.value.slice(from, from + POOL).map((row, index) => ({ row, at: from + index }));
  };
  return html`<div class="scroll" aria-busy=${() => String(loading.value)}><div class="virtual-head" --columns=${widths} aria-hidden="true">${columns.map((column) => html`<div class=${`${column.right ? "num" : ""} ${column.wide ? "wide-only" : ""}`}>${column.title}</div>`)}</div>
    ${() => (problem.value ? html`<div class="notice" role="alert">${problem.value}</div>` : null)}
    ${() => (loading.value ? html`<div class="stack"><div class="skeleton"></div><div class="skeleton"></div><div class="skeleton"></div></div>` : null)}
    <div class="virtual" tabindex="0" role="region" aria-label="Rows" --columns=${widths} --height=${() => `${rows.value.length * LINE + 2}px`} @scroll=${scrolled}>
    <div class="space" --height=${() => `${rows.value.length * LINE}px`}>
      ${list(visible, ({ at }) => at % POOL, (item) => html`<div class="line" --top=${() => `${item.value.at * LINE}px`}>
        ${columns.map((column) => html`<div class=${`clip ${column.right ? "num" : ""} ${column.wide ? "wide-only" : ""}`}>${() => column.cell(item.value.row)}</div>`)}</div>`)}
    </div></div>
    ${() => (!loading.value && !problem.value && rows.value.length === 0 && empty ? html`<div class="empty">${empty()}</div>` : null)}</div>`;
}
