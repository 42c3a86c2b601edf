// @ts-check
/** One product: its price over time, where every value came from and how sure that is, its pictures and its page. */

import { post } from "/dashboard/lib/api.js";
import { ago, money, moment, number, percent, utc, words } from "/dashboard/lib/format.js";
import { load, whenLoaded } from "/dashboard/lib/load.js";
import { asLeft, go } from "/dashboard/lib/router.js";
import { html, signal } from "/dashboard/lib/view.js";
import { timeChart } from "/dashboard/parts/chart.js";
import { act, dialog, toast } from "/dashboard/parts/feedback.js";
import { moveColour, tag } from "/dashboard/parts/states.js";
import { cover, pictureOf, price, shownValue, stars, stock } from "./card.js";

const FIELDS = ["product_name", "price", "currency", "availability", "brand", "category", "rating", "review_count", "sku", "gtin", "description"];
const STEPS = 96;
/** The job that parses one stored page has probably ended by then. */
const WRITTEN_MS = 3000;

/** @param {string} id */
export function onePage(id) {
  const product = load(`/api/v1/products/${encodeURIComponent(id)}`);
  const recrawl = (/** @type {Event} */ event) => act(event, async () => {
    const made = await post("/api/v1/admin/urls/recrawl", { urls: [product.state.peek().data.url] });
    await go(`/jobs/${made.data.job_id}`);
  });
  return {
    title: () => product.state.value.data?.product_name ?? "Product",
    state: html`<a class="quiet" href=${asLeft("/products")}>← Catalogue</a>`,
    actions: html`<button class="button writes" ?disabled=${() => !product.state.value.data} @click=${() => parseAgain(product.state.peek().data, product.again)}>Parse again</button><button class="button writes primary" ?disabled=${() => !product.state.value.data} @click=${recrawl}>Crawl it now</button>`,
    body: html`<div class="stack">${whenLoaded(product, (data) => html`
      <section class="panel hero"><div class="stack"><div class="cover">${cover(data)}</div>${thumbs(data)}</div>${facts(data)}</section>
      <div class="split"><div class="stack">
        <section class="panel"><header><h2>Price over time</h2></header>${prices(data)}</section>
        <section class="panel"><header><h2>Where each value came from</h2><span class="faint">parser ${data.parser ?? "–"} ${data.parser_version ?? ""}</span></header>${origins(data)}</section>
      </div><div class="stack">${variants(data)}
        <section class="panel"><header><h2>This record</h2><a href=${`/records/product/${data.url_hash}`}>History →</a></header><dl class="pairs">
          <dt>Version</dt><dd>${number(data.version)}</dd><dt>First seen</dt><dd title=${utc(data.created_at)}>${moment(data.created_at)}</dd>
          <dt>Changed</dt><dd title=${utc(data.updated_at)}>${ago(data.updated_at)}</dd><dt>Last seen</dt><dd title=${utc(data.last_seen_at)}>${ago(data.last_seen_at)}</dd></dl></section>
      </div></div>`)}</div>`,
  };
}

/** What a person can do with a task of this pipeline. @param {any} task @param {() => void} again */
export function taskActions(task, again) {
  if (task.kind !== "products.crawl" || task.state !== "completed" || !task.url) return null;
  return html`<button class="button writes" @click=${() => parseAgain({ domain_name: task.lane, url: task.url }, again)}>Parse again</button>`;
}

/** Read the stored page with the parser of now: what would change, field by field; then write it. @param {any} data @param {() => void} again */
function parseAgain(data, again) {
  const found = signal(/** @type {any} */ (null));
  const problem = signal("");
  const asked = { domain: data.domain_name, url: data.url };
  post("/api/v1/products/reparse", asked).then((answer) => (found.value = answer.data), (error) => (problem.value = error.message));
  dialog((close) => html`<div class="inside"><h2>Parse the stored page again</h2><p class="quiet">Nothing is fetched. The stored page is read by the parser of now and compared with the stored values.</p>
    ${() => (problem.value ? html`<div class="notice" role="alert">${problem.value}</div>` : null)}
    ${() => (found.value ? fieldDiff(found.value) : problem.value ? null : html`<div class="skeleton"></div>`)}
    <div class="row"><button class="button primary" ?disabled=${() => !found.value} @click=${(/** @type {Event} */ event) => act(event, async () => {
      const { data: made } = await post("/api/v1/products/reparse", { ...asked, apply: true });
      close();
      toast("Queued: the values are written when its job ends.");
      setTimeout(again, WRITTEN_MS);
      return made;
    })}>Write it</button><button class="button" @click=${close}>Close</button></div></div>`, "Parse the stored page again");
}

/** @param {any} report */
function fieldDiff(report) {
  const moved = report.fields.filter((/** @type {any} */ each) => each.changed || each.found || each.lost);
  if (report.unreadable) return html`<div class="notice">The stored page cannot be read any more.</div>`;
  return html`<div data-reparse><p class="faint">parser ${report.readers.join(", ")} · ${number(report.fields.filter((/** @type {any} */ each) => each.same).length)} fields stay</p>
    ${moved.length ? moved.map((/** @type {any} */ each) => {
      const [before, now] = (each.examples[0] ?? "").split(/ → (?=[^→]*$)/);
      return html`<div class="look">${tag(each.lost ? "waiting" : "running", each.lost ? "kept" : each.found ? "found" : "changed")}<div><span class="quiet">${words(each.field)}</span> <del>${(before ?? "").replace(`${report.url ?? ""}`, "").replace(/^\S+: /, "")}</del> → <ins>${now ?? ""}</ins></div><span></span></div>`;
    }) : html`<div class="notice ok">Every field stays as it is.</div>`}</div>`;
}

/** @param {any} data */
const thumbs = (data) => {
  const stored = data.images.filter((/** @type {any} */ each) => each.image_path);
  if (stored.length > 1) return html`<div class="thumbs">${stored.slice(0, 8).map((/** @type {any} */ each) => html`<img src=${pictureOf(each)} alt=${each.alt_text ?? ""} loading="lazy">`)}</div>`;
  return stored.length || !data.images.length ? null : html`<span class="faint">${data.images.length} pictures on the page, none stored. Crawl with pictures to keep them.</span>`;
};

/** @param {any} data */
function facts(data) {
  return html`<div class="stack"><div><div class="row">${data.gone_at ? tag("failed", `gone: ${words(data.gone_reason)}`) : stock(data.availability)}${stars(data.rating)}${data.review_count ? html`<span class="quiet">${number(data.review_count)} reviews</span>` : null}</div>
      <h2 class="hero-title">${data.product_name ?? data.url}</h2><div class="quiet">${[data.brand, data.category].filter(Boolean).join(" · ")}</div></div>
    <div class="figure">${price(data)}</div>
    ${data.description ? html`<p class="quiet">${data.description.slice(0, 600)}</p>` : null}
    <dl class="pairs"><dt>Shop</dt><dd><a class="link" href=${`/products?domain=${encodeURIComponent(data.domain_name)}`}>${data.domain_name}</a></dd>
      <dt>Page</dt><dd><a class="link" href=${data.url} target="_blank" rel="noreferrer noopener">${data.url}</a></dd></dl></div>`;
}

/** @param {any} data */
function prices(data) {
  const known = data.price_history.filter((/** @type {any} */ each) => each.price !== null).reverse();
  if (!known.length) return html`<div class="empty">No price is known.</div>`;
  const starts = known.map((/** @type {any} */ each) => Date.parse(each.at));
  const [first, last] = [starts[0], Math.max(Date.now(), starts.at(-1) + 1)];
  const times = Array.from({ length: STEPS + 1 }, (_, step) => first + ((last - first) * step) / STEPS);
  const values = times.map((at) => Number(known[Math.max(0, starts.findLastIndex((/** @type {number} */ time) => time <= at))].price));
  return html`${timeChart({ times, values, label: "price over time", steps: true, height: 150, format: (value) => money(value, data.currency ?? "XXX") })}
    ${data.price_history.slice(0, 8).map((/** @type {any} */ each, /** @type {number} */ index) => {
      const before = data.price_history[index + 1];
      const moved = before && Number(before.price) && Number(each.price) ? Number(each.price) / Number(before.price) - 1 : 0;
      return html`<div class="look"><span class="strong">${each.gone ? "gone" : money(each.price, each.currency ?? "XXX")}</span>
        <span class="row">${moved ? html`<span class=${`tag ${moveColour("price", moved)}`}>${moved < 0 ? "−" : "+"}${percent(Math.abs(moved))}</span>` : null}${!before || before.availability !== each.availability ? stock(each.availability) : null}${before ? null : html`<span class="quiet">first seen</span>`}</span>
        <span class="faint" title=${utc(each.at)}>${moment(each.at)}</span></div>`;
    })}`;
}

/** @param {any} data */
function origins(data) {
  return html`<div class="scroll"><table><thead><tr><th>Field</th><th>Value</th><th>Found in</th><th class="num">Sure</th></tr></thead><tbody>${FIELDS.map((name) => {
    const origin = data.evidence[name];
    return html`<tr><td class="quiet nowrap">${words(name)}</td><td>${shownValue(name, data[name])}${data.unseen[name] ? html`<div class="faint">the page does not show it any more since ${moment(data.unseen[name])}</div>` : null}</td>
      <td class="from">${origin ? html`<code>${typeof origin === "object" ? (origin.source ?? JSON.stringify(origin)) : String(origin)}</code>` : html`<span class="faint">–</span>`}</td>
      <td class="num">${typeof origin?.confidence === "number" ? sure(origin.confidence) : ""}</td></tr>`;
  })}</tbody></table></div>`;
}

/** @param {number} share */
const sure = (share) => html`<span title="How sure the parser is of this value">${percent(share)}</span><div class=${`meter tone-${share >= 0.8 ? "green" : share >= 0.5 ? "yellow" : "orange"}`}><i --share=${share}></i></div>`;

/** @param {any} data */
function variants(data) {
  const offers = (data.metadata.offers ?? []).filter((/** @type {any} */ each) => each.name);
  if (!offers.length) return null;
  return html`<section class="panel"><header><h2>Variants</h2></header>${offers.slice(0, 20).map((/** @type {any} */ each) => html`<div class="look"><span>${each.name}</span>
    <span class="quiet">${words(String(each.availability ?? "").replace(/^.*\//, "").replace(/([a-z])([A-Z])/g, "$1 $2").toLowerCase())}</span><span class="num">${each.price ? money(each.price, each.currency ?? data.currency ?? "XXX") : "–"}</span></div>`)}</section>`;
}
