// @ts-check
/** One listing: rent over time, its free units, the portals that show it and why they were merged. */

import { get, post } from "/dashboard/lib/api.js";
import { ago, money, moment, number, plural, utc, words } from "/dashboard/lib/format.js";
import { load, whenLoaded } from "/dashboard/lib/load.js";
import { asLeft } from "/dashboard/lib/router.js";
import { html } from "/dashboard/lib/view.js";
import { timeChart } from "/dashboard/parts/chart.js";
import { act, confirmed } from "/dashboard/parts/feedback.js";
import { pointMap } from "/dashboard/parts/map.js";
import { moveColour } from "/dashboard/parts/states.js";
import { badgeTag, drawing, meter, range, rooms, where } from "./card.js";

/** @param {string} id */
export function onePage(id) {
  const path = `/api/v1/listings/${encodeURIComponent(id)}`;
  const listing = load(path);
  const history = load(`${path}/history`);
  const sources = load(`${path}/why`);
  return {
    title: () => listing.state.value.data?.title ?? listing.state.value.data?.address ?? "Listing",
    state: html`<a class="quiet" href=${asLeft("/listings")}>← All listings</a>`,
    actions: html`<button class="button writes primary" @click=${(/** @type {Event} */ event) => act(event, async () => {
      await post(`${path}/verify`);
      listing.again();
    }, "Verification is queued: its pages are fetched as soon as a worker is free.")}>Verify now</button>`,
    body: html`<div class="stack">${whenLoaded(listing, (data) => html`
      <section class="panel hero"><div class="cover">${drawing(data.id)}</div>${facts(data)}</section>
      <div class="split"><div class="stack">
        <section class="panel"><header><h2>Rent over time</h2><span class="faint">${plural(data.days_on_market, "day")} on the market</span></header>${whenLoaded(history, (past) => rents(past.rents, data))}</section>
        <section class="panel"><header><h2>Free units</h2><span class="faint">${plural(data.units.length, "unit")}</span></header>${units(data)}</section>
      </div><div class="stack">
        <section class="panel"><header><h2>Shown by</h2></header>${whenLoaded(sources, (all) => portals(all, path, sources.again))}</section>
        ${data.latitude === null ? null : pointMap({ points: () => [{ id: data.id, latitude: data.latitude, longitude: data.longitude, tone: data.badge?.color ?? "grey", title: where(data) }], open: () => {}, label: "Where it is" })}
        ${data.amenities.length ? html`<section class="panel"><header><h2>Amenities</h2></header><div class="row">${data.amenities.map((/** @type {string} */ each) => html`<span class="tag">${each}</span>`)}</div></section>` : null}
      </div></div>`)}</div>`,
  };
}

/** @param {any} data */
function facts(data) {
  return html`<div class="stack">
    <div><div class="row">${badgeTag(data.badge)}${data.is_active ? null : html`<span class="tag red">gone: ${words(data.gone_reason)}</span>`}
      ${data.verification_status ? html`<span class="quiet">${data.verification_status === "verified" ? `verified ${ago(data.verified_at)}` : words(data.verification_status) === "pending" ? "verification pending" : words(data.verification_status)}</span>` : null}</div>
      <h2 class="hero-title">${data.title ?? data.address ?? "Listing"}</h2><div class="quiet">${where(data)}</div></div>
    <div><div class="figure">${data.rent_min === null ? "–" : `$${range(data.rent_min, data.rent_max)}`} <small>a month</small></div><div class="quiet">${rooms(data)}</div></div>
    <div>${meter(data)}<div class="quiet">Confidence ${data.freshness_confidence} of 100 that it is still available · last confirmed ${ago(data.confidence_updated_at)}</div></div>
    <dl class="pairs">
      <dt>First seen</dt><dd title=${utc(data.first_seen_at)}>${moment(data.first_seen_at)}</dd>
      <dt>Last seen</dt><dd title=${utc(data.last_seen_at)}>${ago(data.last_seen_at)}, ${plural(data.times_seen, "time")}</dd>
      ${data.available_date ? html`<dt>Available</dt><dd>${data.available_date}</dd>` : null}
      ${data.phone ? html`<dt>Phone</dt><dd>${data.phone}</dd>` : null}
      <dt>Market</dt><dd><a class="link" href=${`/listings?market=${encodeURIComponent(data.market_id)}`}>${data.market_id}</a> <a class="faint" href=${`/records/listing/${encodeURIComponent(data.listing_key)}`}>record <code>${data.listing_key}</code></a></dd>
    </dl></div>`;
}

/** @param {any[]} points newest first @param {any} data */
function rents(points, data) {
  const known = points.filter((each) => each.rent_min !== null).reverse();
  if (!known.length) return html`<div class="empty">No portal has shown a rent.</div>`;
  const end = data.is_active ? Date.now() : Date.parse(data.last_seen_at);
  const times = [...known.map((each) => Date.parse(each.at)), end];
  const values = known.map((each) => each.rent_min);
  values.push(values.at(-1));
  return html`${timeChart({ times: evenly(times), values: stepped(times, values), label: "rent over time", format: (value) => money(value), height: 150, steps: true })}
    <div>${points.slice(0, 8).map((each, index) => html`<div class="look"><span class="strong">$${range(each.rent_min, each.rent_max)}</span>
      <span class="quiet">${points[index + 1] ? difference(each.rent_min - points[index + 1].rent_min) : "first seen"}</span><span class="faint" title=${utc(each.at)}>${moment(each.at)}</span></div>`)}</div>`;
}

const STEPS = 96;
/** Moments at the same distance: the chart spreads its values evenly. @param {number[]} times */
function evenly(times) {
  const [first, last] = [times[0] ?? 0, times.at(-1) ?? 1];
  return Array.from({ length: STEPS + 1 }, (_, step) => first + ((last - first) * step) / STEPS);
}
/** The value that holds at each of them. @param {number[]} times @param {number[]} values */
const stepped = (times, values) => evenly(times).map((at) => values[times.findLastIndex((time) => time <= at)] ?? values[0] ?? 0);

/** @param {number} change */
const difference = (change) => (change === 0 ? "highest rent or units changed" : html`<span class=${`tag ${moveColour("rent", change)}`}>${change < 0 ? "−" : "+"}$${number(Math.abs(change))}</span>`);

/** @param {any} data */
function units(data) {
  if (!data.units.length) return html`<div class="empty">The portal shows no single units.</div>`;
  const rows = [...data.units].sort((a, b) => (a.beds ?? 0) - (b.beds ?? 0) || (a.rent ?? 0) - (b.rent ?? 0));
  return html`<div class="scroll"><table><thead><tr><th>Unit</th><th class="num">Beds</th><th class="num">Baths</th><th class="num">Area</th><th>From</th><th class="num">Rent</th></tr></thead>
    <tbody>${rows.map((unit) => html`<tr><td>${unit.unit ?? "–"}</td><td class="num">${unit.beds === 0 ? "studio" : (unit.beds ?? "–")}</td><td class="num">${unit.baths ?? "–"}</td>
      <td class="num">${unit.area ? `${number(unit.area)} sq ft` : "–"}</td><td>${unit.available ?? "–"}</td><td class="num strong">${unit.rent ? `$${number(unit.rent)}` : "–"}</td></tr>`)}</tbody></table></div>`;
}

/** @param {any[]} all @param {string} path @param {() => void} again */
function portals(all, path, again) {
  if (!all.length) return html`<div class="empty">No source is stored.</div>`;
  return all.map((each) => html`<div class="look"><span class=${`tag ${each.gone_at ? "red" : "green"}`}>${each.gone_at ? "gone" : "shown"}</span>
    <div><div class="strong"><a class="link" href=${each.url} target="_blank" rel="noreferrer noopener">${each.source}</a></div>
      <div class="quiet">last seen ${ago(each.last_seen_at)}${each.gone_reason ? ` · ${words(each.gone_reason)}` : ""}</div>
      ${each.reason ? html`<div class="quiet">merged: ${words(each.reason)} ${evidence(each.evidence)}</div>` : null}</div>
    ${each.reason ? html`<button class="button writes small" @click=${async (/** @type {Event} */ event) => {
      if (await confirmed(`Is the flat at ${each.source} another one? It becomes a listing of its own and is never merged into this one again.`, "Split"))
        act(event, async () => {
          const made = await post(`${path}/split`, { source: each.source_key });
          await get(`/api/v1/jobs/${made.data.job_id}`);
          again();
        }, "Split: it is a listing of its own with its next sighting.");
    }}>Split</button>` : html`<span></span>`}</div>`);
}

/** @param {Record<string, any> | null} measured */
const evidence = (measured) => (measured ? html`<span class="faint">${Object.entries(measured).filter(([, value]) => value !== null).map(([name, value]) => `${words(name)} ${typeof value === "number" ? Number(value.toFixed(2)) : typeof value === "object" ? JSON.stringify(value) : value}`).join(" · ")}</span>` : null);

