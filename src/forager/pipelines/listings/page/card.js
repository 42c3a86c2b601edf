// @ts-check
/** The apartment card: badge, rent, rooms, the rent over time and how sure it is that it can still be rented. */

import { html, svg } from "/dashboard/lib/view.js";
import { number } from "/dashboard/lib/format.js";
import { sparkline } from "/dashboard/parts/chart.js";

/** @typedef {{ color: "green" | "yellow" | "orange", text: string }} Badge */

/** "2,450–3,100" @param {number | null | undefined} low @param {number | null | undefined} high */
export const range = (low, high) => (low === null || low === undefined ? "–" : high && high !== low ? `${number(low)}–${number(high)}` : number(low));

/** The rent of the units that were asked for, or of the whole building. @param {any} listing @returns {[number | null, number | null]} */
export function rentOf(listing) {
  const rents = (listing.matching_units ?? []).map((/** @type {any} */ unit) => unit.rent).filter((/** @type {any} */ rent) => typeof rent === "number");
  return rents.length ? [Math.min(...rents), Math.max(...rents)] : [listing.rent_min, listing.rent_max];
}

/** "2 bed · 1 bath · 840 sq ft" @param {any} listing */
export function rooms(listing) {
  const units = listing.matching_units?.length ? listing.matching_units : null;
  /** @param {string} name @returns {[number | null, number | null]} */
  const span = (name) => {
    const values = units?.map((/** @type {any} */ unit) => unit[name]).filter((/** @type {any} */ value) => typeof value === "number") ?? [];
    return values.length ? [Math.min(...values), Math.max(...values)] : [listing[`${name}_min`], listing[`${name}_max`]];
  };
  const [beds, baths, area] = [span("beds"), span("baths"), span("area")];
  const parts = [];
  if (beds[0] !== null) parts.push(beds[0] === 0 ? (beds[1] ? `studio–${beds[1]} bed` : "studio") : `${range(...beds)} bed`);
  if (baths[0] !== null) parts.push(`${range(...baths)} bath`);
  if (area[0] !== null) parts.push(`${range(...area)} sq ft`);
  return parts.map((part) => part.replaceAll(" ", "\u00a0")).join(" · ");
}

/** "44 Beacon St, Boston 02108" @param {any} listing */
export const where = (listing) => [[listing.address, listing.unit].filter(Boolean).join(" "), [listing.city, listing.zip].filter(Boolean).join(" ")].filter(Boolean).join(", ");

/** @param {Badge | null} badge */
export const badgeTag = (badge) => (badge ? html`<span class=${`tag ${badge.color}`}>${badge.text}</span>` : null);

/** How sure it is that the flat can still be rented. @param {any} listing */
export const meter = (listing) => html`<div class=${`meter tone-${listing.badge?.color ?? "grey"}`} role="img" aria-label=${`Confidence ${listing.freshness_confidence} of 100`}
  title=${`Confidence ${listing.freshness_confidence} of 100 that it is still available: it falls from hour to hour until the listing is seen or verified again.`}><i --share=${listing.freshness_confidence / 100}></i></div>`;

/** Three buildings, drawn from the number of the listing: stored listings have no picture of their own. @param {number} seed */
export function drawing(seed) {
  let state = (seed * 2654435761) >>> 0;
  const next = () => (state = (state * 1664525 + 1013904223) >>> 0) / 2 ** 32;
  const shapes = [0, 1, 2].map((place) => {
    const left = place * 104 + next() * 8;
    const right = left + 66 + next() * 30;
    const top = 48 + next() * 24; // below the badge
    const roof = next();
    const ridge = roof < 0.4 ? `L${((left + right) / 2).toFixed(0)} ${(top - 12).toFixed(0)}` : roof < 0.6 ? `L${(left + 14).toFixed(0)} ${(top - 9).toFixed(0)}` : "";
    return `M${left.toFixed(0)} 110V${top.toFixed(0)}${ridge}L${right.toFixed(0)} ${top.toFixed(0)}V110`;
  });
  return html`<svg class="drawing" viewBox="0 0 310 104" preserveAspectRatio="xMidYMax slice" aria-hidden="true">${shapes.map((shape) => wall(shape))}</svg>`;
}

/** @param {string} shape */
const wall = (shape) => svg`<path class="wall" d=${shape}></path>`;

/** @param {readonly { rent_min: number | null }[] | undefined} rents newest first */
export function trend(rents) {
  const values = (rents ?? []).map(({ rent_min }) => rent_min).filter((/** @type {number | null} */ rent) => rent !== null).reverse();
  if (values.length < 2) return null;
  const [low, high] = [Math.min(...values), Math.max(...values)];
  const spread = Math.max(high - low, high * 0.02);
  const last = values.at(-1) ?? 0;
  const change = last - (values[0] ?? last);
  return html`<span class="line-only" title=${`Rent since it was first seen: ${change === 0 ? "as at first" : `${change > 0 ? "+" : "−"}$${number(Math.abs(change))}`}`}>
    ${sparkline(values.flatMap((value) => [value - low + spread * 0.15, value - low + spread * 0.15]), { fill: false, label: "rent over time" })}</span>`;
}

/** @param {any} listing @param {() => any[] | undefined} rents @param {import("/dashboard/lib/view.js").Signal<string | number | null>} hover */
export function card(listing, rents, hover) {
  const [low, high] = rentOf(listing);
  return html`<a class=${() => `tile ${hover.value === listing.id ? "hot" : ""}`} href=${`/listings/${listing.id}`} data-id=${listing.id}
      @pointerenter=${() => (hover.value = listing.id)} @pointerleave=${() => (hover.value = null)}>
    <div class="cover">${drawing(listing.id)}${badgeTag(listing.badge)}</div>
    <div class="about">
      <div class="price"><span>${low === null ? html`<span class="quiet">rent not shown</span>` : html`$${range(low, high)} <small>a month</small>`}</span></div>
      <div class="name"><span class="clip">${listing.title ?? listing.address ?? "Listing"}</span>${() => trend(rents())}</div>
      <div class="quiet clip">${where(listing)}</div>
      <div class="facts">${rooms(listing)}</div>
      ${meter(listing)}
    </div></a>`;
}

/** The two halves of this page. @param {"listings" | "markets"} now */
export const sections = (now) => html`<span class="segments"><a href="/listings" aria-current=${now === "listings" ? "page" : null}>Listings</a><a href="/listings/markets" aria-current=${now === "markets" ? "page" : null}>Markets</a></span>`;
