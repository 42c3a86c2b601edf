// @ts-check
/** Products: search as you type with facets; what changed; how well parsers read the shops; one product. */

import { get } from "/dashboard/lib/api.js";
import { number, plural, words } from "/dashboard/lib/format.js";
import { effect, html, list, signal } from "/dashboard/lib/view.js";
import { exportMenu } from "/dashboard/parts/export.js";
import { facet, filtersFrom, pickFilter, sentence, typeFilter } from "/dashboard/parts/filters.js";
import { card, sections } from "./card.js";
import { changesPage } from "./changes.js";
import { healthPage } from "./health.js";
import { onePage } from "./product.js";

export { taskActions } from "./product.js";

const CONDITIONS = ["domain", "brand", "category", "availability", "min_price", "max_price", "min_rating", "gone"];
const SORTS = /** @type {const} */ ([["", "newest"], ["-updated", "last changed"], ["price", "price, lowest first"], ["-price", "price, highest first"], ["-rating", "best rated"], ["name", "name"]]);
const RATINGS = /** @type {const} */ ([["", "any"], ["3", "≥ 3"], ["4", "≥ 4"], ["4.5", "≥ 4.5"]]);

/** @param {{ id?: string }} params @param {URLSearchParams} query */
export function page({ id }, query) {
  if (id === "changes") return changesPage(query);
  if (id === "health") return healthPage();
  if (id) return onePage(id);
  const filters = filtersFrom(["q", "sort", ...CONDITIONS], query);
  const found = products(filters);
  /** What the list or the search is asked for; a search has an order of its own. */
  const asked = () => {
    const { sort, ...conditions } = filters.values.peek();
    return conditions.q ? conditions : { ...conditions, sort };
  };
  /** @param {string} name */
  const counts = (name) => () => found.facets.value?.[name] ?? [];
  const prices = () => {
    const { price_min: low, price_max: high } = found.facets.value ?? {};
    return low === null || low === undefined ? "any" : `up to ${number(Math.ceil(high))}`;
  };
  return {
    title: "Products",
    state: sections("products"),
    actions: html`<a class="button primary" href="/jobs/new?pipeline=products">Crawl a shop</a>`,
    body: html`<div>
      <div class="filters">
        ${typeFilter(filters, "q", "Search", { placeholder: "name, brand, words of the description", wide: true })}
        ${typeFilter(filters, "min_price", "Price", { before: "≥", numeric: true })}
        ${typeFilter(filters, "max_price", "Price", { before: "≤", numeric: true, placeholder: prices() })}
        ${pickFilter(filters, "min_rating", "Rating", RATINGS)}
        ${() => (filters.values.value.q ? null : pickFilter(filters, "sort", "Sort", SORTS))}
        <span class="end"><span class="quiet">${() => told(found)}</span>${() => (filters.values.value.q ? exportMenu("/api/v1/products/search", asked, "products", { rows: (data) => data.hits.map((/** @type {any} */ hit) => hit.product), next: (answer) => answer.data.next_cursor })
          : exportMenu("/api/v1/products", asked, "products"))}</span>
      </div>
      ${() => (found.error.value ? html`<div class="notice" role="alert">${found.error.value}</div>` : null)}
      <div class="with-facets">
        <aside class="facets" aria-label="Facets">
          ${facet(filters, "availability", "Availability", counts("availability"), words)}
          ${facet(filters, "category", "Category", counts("category"))}
          ${facet(filters, "brand", "Brand", counts("brand"))}
          ${facet(filters, "domain", "Shop", counts("domain"))}
        </aside>
        <div class="stack">
          <div class="tiles" aria-busy=${() => String(found.busy.value)}>${list(() => found.rows.value, (row) => `${row.product.id}/${row.product.version}/${Object.values(row.highlights).join("")}`, (row) => card(row.peek().product, row.peek().highlights))}</div>
          ${() => (!found.busy.value && !found.error.value && !found.rows.value.length ? nothing(filters) : null)}
          ${() => (found.cursor.value ? html`<div class="row"><button class="button" ?disabled=${() => found.busy.value} @click=${found.more}>Show more</button></div>` : null)}
        </div>
      </div></div>`,
  };
}

/** @param {ReturnType<typeof products>} found */
function told(found) {
  const { total, corrected, more } = found.about.value;
  if (total === null) return "";
  return `${more ? "more than " : ""}${plural(total, "product")}${corrected ? " · near words, too" : ""}`;
}

/** The pages of a list or of a search, whichever the filters ask for. @param {import("/dashboard/parts/filters.js").Filters} filters */
function products(filters) {
  const rows = signal(/** @type {{ product: any, highlights: Record<string, string> }[]} */ ([]));
  const facets = signal(/** @type {any} */ (null));
  const about = signal({ total: /** @type {number | null} */ (null), corrected: false, more: false });
  const cursor = signal(/** @type {string | null} */ (null));
  const busy = signal(true);
  const error = signal("");
  let visit = 0;
  /** @param {Record<string, string>} asked @param {string | null} after */
  async function read(asked, after) {
    const mine = ++visit;
    busy.value = true;
    const { q, sort, ...conditions } = asked;
    try {
      /** @type {typeof rows.value} */
      let next;
      if (q) {
        const { data } = await get("/api/v1/products/search", { q, ...conditions, limit: 24, cursor: after });
        if (mine !== visit) return;
        [next, cursor.value, facets.value] = [data.hits, data.next_cursor, data.facets];
        about.value = { total: data.total, corrected: data.corrected, more: data.more };
      } else {
        const [answer, counted] = await Promise.all([
          get("/api/v1/products", { ...conditions, sort, limit: 24, cursor: after }), after ? null : get("/api/v1/products/facets", conditions)]);
        if (mine !== visit) return;
        [next, cursor.value] = [answer.data.map((/** @type {any} */ product) => ({ product, highlights: {} })), answer.meta.next_cursor];
        if (counted) [facets.value, about.value] = [counted.data.facets, { total: counted.data.total, corrected: false, more: counted.data.total >= 50_000 }];
      }
      error.value = "";
      rows.value = after ? [...rows.peek(), ...next] : next;
    } catch (problem) {
      if (mine !== visit) return;
      error.value = sentence(problem);
      [rows.value, cursor.value] = [[], null];
    } finally {
      if (mine === visit) busy.value = false;
    }
  }
  effect(() => void read(filters.values.value, null));
  return { rows, facets, about, cursor, busy, error, more: () => read(filters.values.peek(), cursor.peek()) };
}

/** @param {import("/dashboard/parts/filters.js").Filters} filters */
function nothing(filters) {
  if (Object.keys(filters.values.peek()).some((name) => name !== "sort")) return html`<div class="panel empty"><p>No product matches.</p><a class="button" href="/products?all" @click=${filters.clear}>Clear the filters</a></div>`;
  return html`<div class="panel empty"><p>No product yet. Crawl a shop by its sitemap or by pages.</p><a class="button primary" href="/jobs/new?pipeline=products">Crawl a shop</a><code>forager demo products</code></div>`;
}
