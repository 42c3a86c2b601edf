// @ts-check
/** Listings: cards and a map that filter together; one listing; the markets. */

import { get } from "/dashboard/lib/api.js";
import { plural } from "/dashboard/lib/format.js";
import { load } from "/dashboard/lib/load.js";
import { go } from "/dashboard/lib/router.js";
import { effect, html, list, signal } from "/dashboard/lib/view.js";
import { exportMenu } from "/dashboard/parts/export.js";
import { filtersFrom, pickFilter, sentence, typeFilter } from "/dashboard/parts/filters.js";
import { pointMap } from "/dashboard/parts/map.js";
import { card, sections } from "./card.js";
import { onePage } from "./listing.js";
import { marketsPage } from "./markets.js";

const NAMES = ["market", "beds", "baths", "min_rent", "max_rent", "min_area", "min_confidence", "text", "city", "zip", "sort"];
const SORTS = /** @type {const} */ ([["", "newest"], ["rent", "cheapest first"], ["-rent", "most expensive first"], ["beds", "fewest beds"], ["-beds", "most beds"], ["-area", "largest"], ["seen", "last seen"]]);
const BEDS = /** @type {const} */ ([["", "any"], ["0", "studio"], ["1", "1"], ["2", "2"], ["3", "3"], ["4", "4"]]);
const BATHS = /** @type {const} */ ([["", "any"], ["1", "1"], ["1.5", "1.5"], ["2", "2"], ["3", "3"]]);
const SURE = /** @type {const} */ ([["", "≥ 40"], ["50", "≥ 50"], ["80", "≥ 80"], ["0", "any"]]);

/** @param {{ id?: string }} params @param {URLSearchParams} query */
export function page({ id }, query) {
  if (id === "markets") return marketsPage();
  if (id) return onePage(id);
  return searchPage(query);
}

/** @param {URLSearchParams} query */
function searchPage(query) {
  const filters = filtersFrom(NAMES, query);
  const markets = load("/api/v1/admin/markets");
  const points = load("/api/v1/listings/map", { query: () => filters.values.value });
  const hover = signal(/** @type {string | number | null} */ (null));
  const found = cards(filters);
  const choices = () => [/** @type {const} */ (["", "all"]), ...(markets.state.value.data ?? []).map((/** @type {any} */ each) => /** @type {const} */ ([each.id, each.display_name]))];
  const places = () => (points.state.value.data?.points ?? []).map((/** @type {any} */ each) => ({
    ...each, tone: each.badge?.color ?? "grey", title: `${each.rent_min ? `$${each.rent_min.toLocaleString("en-US")} · ` : ""}${each.title ?? each.address ?? ""}`,
  }));
  const total = () => {
    const all = points.state.value.data;
    if (!all) return null;
    const count = all.points.length + all.without_place;
    return html`<span class="quiet">${all.more ? `more than ${count.toLocaleString("en-US")} listings` : plural(count, "listing")}</span>`;
  };
  return {
    title: "Listings",
    state: sections("listings"),
    actions: html`${total}${exportMenu("/api/v1/listings", () => filters.values.peek(), "listings")}`,
    body: html`<div>
      <div class="filters">
        ${pickFilter(filters, "market", "Market", choices)}
        ${pickFilter(filters, "beds", "Beds", BEDS)}
        ${pickFilter(filters, "baths", "Baths", BATHS)}
        ${typeFilter(filters, "min_area", "Area", { before: "≥", numeric: true, after: "sq ft" })}
        ${typeFilter(filters, "max_rent", "Rent", { before: "≤ $", numeric: true, after: "for that unit" })}
        ${pickFilter(filters, "min_confidence", "Confidence", SURE)}
        ${typeFilter(filters, "city", "City")}
        ${typeFilter(filters, "zip", "ZIP", { numeric: true, whole: /^\d{5}$/ })}
        ${typeFilter(filters, "text", "Find", { placeholder: "name or street", wide: true })}
        ${pickFilter(filters, "sort", "Sort", SORTS)}
      </div>
      ${() => (found.error.value ? html`<div class="notice" role="alert">${found.error.value}</div>` : null)}
      <div class="beside-map">
        <div class="stack">
          <div class="tiles" aria-busy=${() => String(found.busy.value)}>${list(() => found.rows.value, (row) => row.id, (row) => card(row.peek(), () => found.rents.value.get(row.peek().id), hover))}</div>
          ${() => (!found.busy.value && !found.error.value && !found.rows.value.length ? nothing(filters) : null)}
          ${() => (found.cursor.value ? html`<div class="row"><button class="button" ?disabled=${() => found.busy.value} @click=${found.more}>Show more</button></div>` : null)}
        </div>
        ${pointMap({ points: places, hover, open: (id) => go(`/listings/${id}`), label: "Listings by place and confidence" })}
      </div></div>`,
  };
}

/** The pages of cards and the rents of what is shown. @param {import("/dashboard/parts/filters.js").Filters} filters */
function cards(filters) {
  const rows = signal(/** @type {any[]} */ ([]));
  const rents = signal(/** @type {Map<number, any[]>} */ (new Map()));
  const cursor = signal(/** @type {string | null} */ (null));
  const busy = signal(true);
  const error = signal("");
  let visit = 0;
  /** @param {Record<string, string>} asked @param {string | null} after */
  async function read(asked, after) {
    const mine = ++visit;
    busy.value = true;
    try {
      const answer = await get("/api/v1/listings", { ...asked, limit: 24, cursor: after });
      if (mine !== visit) return;
      error.value = "";
      // A card shows the rent of the units that were asked for: other filters make another card.
      rows.value = after ? [...rows.peek(), ...answer.data] : (rows.value = [], answer.data);
      cursor.value = answer.meta.next_cursor;
      const unknown = answer.data.map((/** @type {any} */ each) => each.id).filter((/** @type {number} */ id) => !rents.peek().has(id));
      if (unknown.length) {
        const past = await get("/api/v1/listings/rents", { id: unknown });
        rents.value = new Map([...rents.peek(), ...past.data.map((/** @type {any} */ each) => /** @type {[number, any[]]} */ ([each.id, each.rents]))]);
      }
    } catch (problem) {
      if (mine !== visit) return;
      error.value = sentence(problem);
      rows.value = [];
      cursor.value = null;
    } finally {
      if (mine === visit) busy.value = false;
    }
  }
  effect(() => void read(filters.values.value, null));
  return { rows, rents, cursor, busy, error, more: () => read(filters.values.peek(), cursor.peek()) };
}

/** @param {import("/dashboard/parts/filters.js").Filters} filters */
function nothing(filters) {
  if (Object.keys(filters.values.peek()).some((name) => name !== "sort"))
    return html`<div class="panel empty"><p>No listing matches.</p><button class="button" @click=${() => (filters.clear(), go("/listings"))}>Clear the filters</button></div>`;
  return html`<div class="panel empty"><p>No listing with a confidence of at least 40. Listings come with the first scrape of a market.</p><a class="button primary" href="/listings/markets">Markets</a><code>forager demo listings</code></div>`;
}
