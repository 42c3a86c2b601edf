// @ts-check
/** What changed in the catalogue: before → now, price changes with their share, growing as crawls find them. */

import { ago, money, percent, utc, words } from "/dashboard/lib/format.js";
import { follow } from "/dashboard/lib/live.js";
import { load, whenLoaded } from "/dashboard/lib/load.js";
import { setQuery } from "/dashboard/lib/router.js";
import { html, signal } from "/dashboard/lib/view.js";
import { moveColour } from "/dashboard/parts/states.js";
import { sections, shownValue } from "./card.js";

const KINDS = /** @type {const} */ ([["", "everything"], ["price", "prices"], ["availability", "stock"], ["other", "the rest"]]);

/** @param {URLSearchParams} query */
export function changesPage(query) {
  const changes = load("/api/v1/products/changes", { query: { limit: 200 } });
  const kind = signal(query.get("kind") ?? "");
  follow("changes", changes.again);
  return {
    title: "Products",
    state: sections("changes"),
    body: html`<div><div class="filters"><span class="segments" role="group" aria-label="Kind of change">${KINDS.map(([value, title]) => html`<button aria-pressed=${() => String(kind.value === value)} @click=${() => ((kind.value = value), setQuery({ kind: value }))}>${title}</button>`)}</span></div>
      <section class="panel">${whenLoaded(changes, (all) => html`${() => table(all.filter((/** @type {any} */ each) => concerns(each, kind.value)))}`)}</section></div>`,
  };
}

/** @param {any} change @param {string} kind */
function concerns(change, kind) {
  const names = change.fields.map((/** @type {any} */ each) => each.field);
  if (kind === "other") return !names.includes("price") && !names.includes("availability");
  return !kind || names.includes(kind);
}

/** @param {any[]} rows */
function table(rows) {
  if (!rows.length) return html`<div class="empty"><p>Nothing has changed yet. Changes appear when a page is crawled again and shows something else.</p></div>`;
  return html`<div class="scroll"><table><thead><tr><th>Product</th><th>Before → now</th><th class="num">Price</th><th class="num">When</th></tr></thead><tbody>${rows.map((change) => html`<tr class="hit">
    <td><a class="strong" href=${change.product_id ? `/products/${change.product_id}` : null}>${change.product_name ?? "a product"}</a><div class="quiet">${change.domain_name ?? ""}</div></td>
    <td>${change.op === "gone" ? html`<span class="tag red">gone</span>` : change.fields.length ? change.fields.map((/** @type {any} */ each) => difference(each, change.currency)) : html`<span class="faint">details that have no field</span>`}</td>
    <td class="num">${share(change)}</td><td class="num" title=${utc(change.at)}>${ago(change.at)}</td></tr>`)}</tbody></table></div>`;
}

/** @param {any} each @param {string | null} currency */
function difference(each, currency) {
  const shown = (/** @type {any} */ value) => (each.field === "price" && value !== null && currency ? money(value, currency) : shownValue(each.field, value));
  return html`<div><span class="quiet">${words(each.field)}</span> <del>${shown(each.before)}</del> → <ins>${shown(each.now)}</ins></div>`;
}

/** @param {any} change */
function share(change) {
  const price = change.fields.find((/** @type {any} */ each) => each.field === "price");
  if (!price || !Number(price.before) || !Number(price.now)) return "";
  const moved = Number(price.now) / Number(price.before) - 1;
  return html`<span class=${`tag ${moveColour("price", moved)}`}>${moved < 0 ? "−" : "+"}${percent(Math.abs(moved))}</span>`;
}
