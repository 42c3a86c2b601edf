// @ts-check
/** The markets: how often each is scraped and what that costs, what is next, and what is wrong. */

import { post, put, remove } from "/dashboard/lib/api.js";
import { ago, money, number, plural, utc } from "/dashboard/lib/format.js";
import { load, whenLoaded } from "/dashboard/lib/load.js";
import { go } from "/dashboard/lib/router.js";
import { html, signal } from "/dashboard/lib/view.js";
import { act, confirmed, dialog } from "/dashboard/parts/feedback.js";
import { schemaForm } from "/dashboard/parts/form.js";
import { tag } from "/dashboard/parts/states.js";
import { sections } from "./card.js";

const PATH = "/api/v1/admin/markets";
const TIERS = /** @type {const} */ ([["hot", "hot · 6 h"], ["standard", "standard · 12 h"], ["cool", "cool · 24 h"]]);

export function marketsPage() {
  const markets = load(PATH, { every: 15 });
  const scraping = load("/api/v1/admin/scraping", { every: 60 });
  const sources = load("/api/v1/admin/data-sources", { every: 60 });
  const opened = signal("");
  const again = () => (markets.again(), scraping.again(), sources.again());
  return {
    title: "Listings",
    state: sections("markets"),
    actions: html`<button class="button writes" @click=${() => addMarket(again)}>Add a market</button>`,
    body: html`<div class="stack">
      <div class="cards">${whenLoaded(scraping, (state) => schedule(state, again))}${whenLoaded(sources, (all) => all.map((/** @type {any} */ each) => limits(each)))}</div>
      <section class="panel">${whenLoaded(markets, (all) => (all.length ? table(all, opened, again) : html`<div class="empty"><p>No market.</p><code>forager markets add worcester --city Worcester --state MA</code></div>`))}</section>
      ${() => (opened.value ? detail(opened.value, () => (opened.value = "")) : null)}</div>`,
  };
}

/** @param {any} state @param {() => void} again */
function schedule(state, again) {
  const month = state.per_month;
  const change = async (/** @type {Event} */ event) => {
    if (state.started) return act(event, () => post("/api/v1/admin/scraping/stop").then(again), "Scraping by schedule is stopped.");
    const question = `Scrape ${plural(month.markets, "market")} by schedule? That is about ${number(month.runs)} runs a month: about ${money(month.expected_usd)}, at most ${money(month.worst_usd)}.`;
    if (await confirmed(question, "Start")) act(event, () => post("/api/v1/admin/scraping/start").then(again), "Markets are scraped by schedule.");
  };
  return html`<div class="panel card"><div class="label">By schedule</div><div class="figure">${state.started ? "on" : "off"}<span class="beside">${state.started && state.next_dispatch_at ? `next look ${ago(state.next_dispatch_at)}` : ""}</span></div>
      <div class="row"><button class=${`button small ${state.started ? "" : "primary"}`} ?disabled=${!state.has_token && !state.started} @click=${change}>${state.started ? "Stop" : "Start"}</button>
      ${state.has_token ? null : html`<span class="quiet">needs a token of Apify: FORAGER_APIFY_TOKEN</span>`}</div></div>
    <div class="panel card"><div class="label">A month of it costs</div><div class="figure">${money(month.expected_usd)}<span class="beside">at most ${money(month.worst_usd)}</span></div>
      <div class="quiet">${number(month.runs)} runs of ${plural(month.markets, "market")}${month.limit_usd ? ` · limit ${money(month.limit_usd)}` : ""}</div></div>`;
}

/** @param {any} source */
function limits(source) {
  const share = source.max_usd_per_month ? Math.min(1, source.usd_this_month / source.max_usd_per_month) : 0;
  return html`<div class="panel card"><div class="label">${source.name}</div><div class="figure">${money(source.usd_this_month)}<span class="beside">${source.max_usd_per_month ? `of ${money(source.max_usd_per_month)} this month` : "this month"}</span></div>
    ${source.max_usd_per_month ? html`<div class="bar"><i class=${share > 0.9 ? "warn" : ""} --share=${share}></i></div>` : null}
    <div class="quiet">${source.is_enabled ? `${plural(source.requests_today, "run")} today${source.max_requests_per_day ? ` of ${number(source.max_requests_per_day)}` : ""}` : "disabled: no run is started"}</div></div>`;
}

/** @param {any[]} all @param {import("/dashboard/lib/view.js").Signal<string>} opened @param {() => void} again */
function table(all, opened, again) {
  return html`<div class="scroll"><table><thead><tr><th>Market</th><th>Tier</th><th>Scraped</th><th>Next</th><th>State</th><th class="num">This month</th><th></th></tr></thead><tbody>
    ${all.map((each) => html`<tr class="hit" data-market=${each.id}>
      <td><a class="strong" href=${`/listings?market=${encodeURIComponent(each.id)}`}>${each.display_name}</a><div class="quiet">${each.city}, ${each.state} <code>${each.id}</code></div></td>
      <td><select aria-label=${`Tier of ${each.display_name}`} @change=${(/** @type {Event} */ event) => act(event, () => put(`${PATH}/${encodeURIComponent(each.id)}`, { tier: /** @type {HTMLSelectElement} */ (event.target).value }).then(again), `${each.display_name}: the tier is changed.`)}>
        ${TIERS.map(([tier, title]) => html`<option value=${tier} ?selected=${tier === each.tier}>${title}</option>`)}</select>
        ${each.frequency_overridden ? html`<div class="faint">every ${each.scrape_frequency_hours} h instead</div>` : null}</td>
      <td title=${utc(each.last_scrape_at)}>${ago(each.last_scrape_at)}</td>
      <td title=${utc(each.next_scrape_at)}>${each.next_scrape_at ? (Date.parse(each.next_scrape_at) < Date.now() ? "due" : ago(each.next_scrape_at)) : html`<span class="faint">${each.is_enabled ? "not by schedule" : "disabled"}</span>`}</td>
      <td>${state(each)}</td><td class="num">${money(each.cost_this_month_usd)}</td>
      <td><div class="row"><button class="button writes small" ?disabled=${Boolean(each.scraping_job)} @click=${(/** @type {Event} */ event) => scrape(event, each, again)}>Scrape now</button>
        <button class="button writes small" @click=${(/** @type {Event} */ event) => act(event, () => put(`${PATH}/${encodeURIComponent(each.id)}`, { is_enabled: !each.is_enabled }).then(again), `${each.display_name} is ${each.is_enabled ? "disabled" : "enabled"}.`)}>${each.is_enabled ? "Disable" : "Enable"}</button>
        <button class="button small plain" @click=${() => (opened.value = opened.peek() === each.id ? "" : each.id)}>Scrapes</button></div></td></tr>`)}</tbody></table></div>`;
}

/** @param {any} market */
function state(market) {
  if (market.problem) return html`${tag("failed", "invalid")}<div class="quiet">${market.problem}</div>`;
  if (market.scraping_job) return html`<a href=${`/jobs/${market.scraping_job}`}>${tag("running", "scraping")}</a>`;
  if (market.circuit_open) return html`${tag("open", "circuit open")}<div class="quiet">${market.consecutive_failures} failures in a row · skipped until the daily reset</div>`;
  if (!market.is_enabled) return tag("", "disabled");
  if (market.consecutive_failures) return html`${tag("waiting", plural(market.consecutive_failures, "failure"))}<div class="quiet">3 in a row open its circuit</div>`;
  return market.last_scrape_status ? tag(market.last_scrape_status === "completed" ? "completed" : market.last_scrape_status === "partial" ? "waiting" : "failed", market.last_scrape_status) : tag("", "never scraped");
}

/** @param {Event} event @param {any} market @param {() => void} again */
async function scrape(event, market, again) {
  const last = market.cost_this_month_usd && Number(market.cost_this_month_usd) ? ` Its scrapes of this month have cost ${money(market.cost_this_month_usd)}.` : "";
  if (!(await confirmed(`Scrape ${market.display_name} now? A run of up to ${number(market.max_listings_per_scrape)} properties costs money.${last}`, "Scrape now"))) return;
  await act(event, () => post(`${PATH}/${encodeURIComponent(market.id)}/scrape`).then((made) => (again(), go(`/jobs/${made.data.job_id}`))));
}

/** @param {string} id @param {() => void} close */
function detail(id, close) {
  const market = load(`${PATH}/${encodeURIComponent(id)}`);
  return html`<section class="panel"><header><h2>Last scrapes of ${id}</h2><button class="button small plain" @click=${close}>Close</button></header>${whenLoaded(market, (data) => html`
    <p class="quiet">${plural(data.listings_active, "listing")} on the market of ${number(data.listings_stored)} stored · ${number(data.waiting_for_verification)} wait for verification · ${money(data.cost_today_usd)} today</p>
    <div class="scroll"><table><thead><tr><th>Started</th><th>State</th><th class="num">Found</th><th class="num">New</th><th class="num">Updated</th><th class="num">Merged</th><th class="num">Rejected</th><th class="num">Cost</th></tr></thead>
    <tbody>${data.scrapes.map((/** @type {any} */ each) => html`<tr class="hit"><td title=${utc(each.started_at)}>${each.job_id ? html`<a class="link" href=${`/jobs/${each.job_id}`}>${ago(each.started_at)}</a>` : ago(each.started_at)}</td>
      <td>${tag(each.status)}${each.message ? html`<div class="quiet">${each.message}</div>` : null}</td><td class="num">${number(each.found)}</td><td class="num">${number(each.new)}</td><td class="num">${number(each.updated)}</td>
      <td class="num">${number(each.merged)}</td><td class="num">${number(each.errors)}</td><td class="num">${money(each.cost_usd)}</td></tr>`)}</tbody></table></div>
    <p class="row"><button class="button writes small danger" @click=${async (/** @type {Event} */ event) => {
      if (await confirmed(`Remove the market ${id}? It is scraped no more. Its listings stay and are verified as they age.`, "Remove")) act(event, () => remove(`${PATH}/${encodeURIComponent(id)}`).then(close), "Removed.");
    }}>Remove this market</button></p>`)}</section>`;
}

/** @param {() => void} again */
function addMarket(again) {
  const properties = {
    id: { type: "string", description: "Lower case, such as worcester." }, city: { type: "string", description: "As the source's search has it." }, state: { type: "string", description: "Two letters." },
    tier: { enum: ["hot", "standard", "cool"], default: "standard" }, display_name: { type: "string" }, max_listings_per_scrape: { type: "integer", description: "Maximum properties of one scrape." },
  };
  dialog((close) => html`<div class="inside"><h2>Add a market</h2>${schemaForm({ properties, required: ["id", "city", "state", "tier"] }, {
    submit: "Add", save: (values) => post(PATH, values).then(() => (close(), again())),
  })}</div>`, "Add a market");
}
