// @ts-check
/** Places: a map and the table of what it shows; coverage by ZIP; plan and start a job. */

import { get } from "/dashboard/lib/api.js";
import { number, plural, short } from "/dashboard/lib/format.js";
import { load } from "/dashboard/lib/load.js";
import { html, signal } from "/dashboard/lib/view.js";
import { exportMenu } from "/dashboard/parts/export.js";
import { filtersFrom, pickFilter, sentence, typeFilter } from "/dashboard/parts/filters.js";
import { pointMap } from "/dashboard/parts/map.js";
import { coveragePage } from "./coverage.js";
import { planPage } from "./plan.js";
import { sections } from "./sections.js";

const NAMES = ["keyword", "state", "zip", "category", "min_rating", "title", "job"];
const RATINGS = /** @type {const} */ ([["", "any"], ["3", "≥ 3"], ["4", "≥ 4"], ["4.5", "≥ 4.5"]]);
const ROWS = 200;

/** @typedef {{ id: string, title: string, latitude: number, longitude: number, rating: number | null, count: number | null, category: string | null, address: string | null, tone: string }} Spot */

/** @param {{ id?: string }} params @param {URLSearchParams} query */
export function page({ id }, query) {
  if (id === "coverage") return coveragePage(query);
  if (id === "plan") return planPage(query);
  const filters = filtersFrom(NAMES, query);
  const loaded = load("/api/v1/places/map", { query: () => filters.values.value });
  const hover = signal(/** @type {string | number | null} */ (null));
  const bounds = signal(/** @type {import("/dashboard/parts/map.js").Bounds | null} */ (null));
  const chosen = signal(id ?? "");
  let known = /** @type {{ from: any, spots: Spot[] }} */ ({ from: null, spots: [] });
  const spots = () => {
    const { data } = loaded.state.value;
    if (known.from !== data) known = { from: data, spots: (data?.points ?? []).map(spotOf) };
    return known.spots;
  };
  const seen = () => {
    const box = bounds.value;
    const all = spots();
    return box ? all.filter(({ latitude, longitude }) => latitude <= box.north && latitude >= box.south && longitude >= box.west && longitude <= box.east) : all;
  };
  return {
    title: "Places",
    state: sections("map"),
    actions: html`<a class="button primary" href="/places/plan">Plan a job</a>`,
    body: html`<div>
      <div class="filters">
        ${typeFilter(filters, "title", "Find", { placeholder: "part of the name", wide: true })}
        ${typeFilter(filters, "keyword", "Keyword")}${typeFilter(filters, "state", "State", { whole: /^[a-z]{2}$/i })}${typeFilter(filters, "zip", "ZIP", { numeric: true, whole: /^\d{5}$/ })}
        ${typeFilter(filters, "category", "Category")}${pickFilter(filters, "min_rating", "Rating", RATINGS)}
        <span class="end">${exportMenu("/api/v1/places", () => filters.values.peek(), "places")}</span>
      </div>
      ${() => (loaded.state.value.error ? html`<div class="notice" role="alert">${sentence(loaded.state.value.error)}</div>` : null)}
      <div class="map-first">
        ${pointMap({ points: spots, hover, bounds, open: (uid) => (chosen.value = String(uid)), label: "Places, green with a rating of 4 or more", density: true })}
        <div class="stack">
          ${() => (chosen.value ? details(chosen.value, () => (chosen.value = "")) : null)}
          <section class="panel"><header><h2>${() => (bounds.value ? "In this part of the map" : "All places")}</h2><span class="faint">${() => told(loaded.state.value.data, seen().length)}</span></header>
            ${() => (loaded.state.value.data && !spots().length ? nothing() : table(seen(), hover, chosen))}</section>
        </div>
      </div></div>`,
  };
}

/** @param {any[]} row @returns {Spot} */
const spotOf = ([id, title, latitude, longitude, rating, count, category, address]) => ({ id, title: title ?? id, latitude, longitude, rating, count, category, address, tone: rating !== null && rating >= 4 ? "green" : "grey" });

/** @param {any} data @param {number} count */
function told(data, count) {
  if (!data) return "";
  const rest = data.without_place ? ` · ${number(data.without_place)} without coordinates` : "";
  return `${data.more ? "more than " : ""}${plural(count, "place")}${rest}`;
}

/** @param {Spot[]} rows @param {import("/dashboard/lib/view.js").Signal<string | number | null>} hover @param {import("/dashboard/lib/view.js").Signal<string>} chosen */
function table(rows, hover, chosen) {
  const best = [...rows].sort((a, b) => (b.count ?? 0) - (a.count ?? 0)).slice(0, ROWS);
  return html`<div class="long"><table><thead><tr><th>Place</th><th class="num">Rating</th><th class="num">Reviews</th></tr></thead><tbody>${best.map((spot) => html`<tr class="hit" data-id=${spot.id}
      @pointerenter=${() => (hover.value = spot.id)} @pointerleave=${() => (hover.value = null)}>
    <td><button class="plain-row" @click=${() => (chosen.value = spot.id)}><span class="strong">${spot.title}</span><span class="quiet clip">${[spot.category, spot.address].filter(Boolean).join(" · ")}</span></button></td>
    <td class="num"><i class=${`swatch tone-${spot.tone}`}></i>${spot.rating?.toFixed(1) ?? "–"}</td><td class="num">${short(spot.count)}</td></tr>`)}</tbody></table></div>
    ${rows.length > ROWS ? html`<p class="faint">The ${ROWS} with the most reviews. Zoom in to see others.</p>` : null}`;
}

/** @param {string} uid @param {() => void} close */
function details(uid, close) {
  const place = signal(/** @type {any} */ (null));
  get(`/api/v1/places/${encodeURIComponent(uid)}`).then((answer) => (place.value = answer.data), () => close());
  return html`<section class="panel" data-place=${uid}>${() => {
    const data = place.value;
    if (!data) return html`<div class="skeleton"></div>`;
    const site = /^https?:\/\//.test(data.website ?? "") ? data.website : null;
    return html`<header><h2>${data.title ?? data.place_uid}</h2><button class="button small plain" @click=${close} aria-label="Close">×</button></header>
      <dl class="pairs"><dt>Rating</dt><dd>${data.rating ?? "–"}${data.rating_count ? ` from ${plural(data.rating_count, "review")}` : ""}</dd>
        ${data.category ? html`<dt>Category</dt><dd>${data.category}</dd>` : null}${data.address ? html`<dt>Address</dt><dd>${data.address}</dd>` : null}${data.phone ? html`<dt>Phone</dt><dd>${data.phone}</dd>` : null}
        ${site ? html`<dt>Website</dt><dd><a class="link" href=${site} target="_blank" rel="noreferrer noopener">${data.website}</a></dd>` : null}
        <dt>Seen</dt><dd>${plural(data.times_seen, "time")} · <a class="link" href=${`/records/place/${encodeURIComponent(data.place_uid)}`}>history</a></dd></dl>`;
  }}</section>`;
}

const nothing = () => html`<div class="empty"><p>No place matches, or none was found yet.</p><a class="button primary" href="/places/plan">Plan a job</a><code>forager demo places</code></div>`;
