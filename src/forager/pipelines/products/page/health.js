// @ts-check
/** The shops: how well parsers read them, values that are held back, and whether they are crawled. */

import { get, post } from "/dashboard/lib/api.js";
import { ago, number, percent, plural, utc, words } from "/dashboard/lib/format.js";
import { load, whenLoaded } from "/dashboard/lib/load.js";
import { html, signal } from "/dashboard/lib/view.js";
import { sparkline } from "/dashboard/parts/chart.js";
import { act, confirmed, dialog } from "/dashboard/parts/feedback.js";
import { tag } from "/dashboard/parts/states.js";
import { sections } from "./card.js";

export function healthPage() {
  const health = load("/api/v1/admin/parser-health", { query: { days: 30 } });
  const held = load("/api/v1/admin/quarantines");
  const learnt = load("/api/v1/admin/wrappers");
  const domains = load("/api/v1/admin/domains", { query: { limit: 500 } });
  return {
    title: "Products",
    state: sections("health"),
    body: html`<div class="stack">
      <section class="panel"><header><h2>Values that are held back</h2><span class="faint">a field that suddenly reads much worse keeps its last good values</span></header>${whenLoaded(held, (all) => quarantines(all, () => (held.again(), health.again())))}</section>
      <section class="panel"><header><h2>How well parsers read each shop</h2></header>${whenLoaded(health, readings)}</section>
      <section class="panel"><header><h2>Learnt from the shops' own pages</h2><span class="faint">where a template shows each field; used below markup and above guesses</span></header>${whenLoaded(learnt, (all) => wrappers(all, learnt.again))}</section>
      <section class="panel"><header><h2>Shops</h2></header>${whenLoaded(domains, (all) => shops(all, domains.again))}</section></div>`,
  };
}

/** @param {any[]} all @param {() => void} again */
function quarantines(all, again) {
  if (!all.length) return html`<div class="empty small">Nothing is held back.</div>`;
  const order = { open: 0, accepted: 1, rejected: 2 };
  const rows = [...all].sort((a, b) => order[/** @type {"open"} */ (a.state)] - order[/** @type {"open"} */ (b.state)] || b.since.localeCompare(a.since));
  return rows.map((each) => {
    const name = `${each.domain}/${each.parser}/${each.parser_version}/${each.field}`;
    const decide = (/** @type {Event} */ event, /** @type {"accept" | "reject"} */ way) => act(event, () => post(`/api/v1/admin/quarantines/${way}`, {}, { name }).then(again), way === "accept" ? "Accepted: stored pages are parsed again." : "Rejected: the last good values stay.");
    return html`<div class="look" data-quarantine=${name}>${each.state === "open" ? tag("waiting", "held back") : tag(each.state === "accepted" ? "completed" : "cancelled", each.state)}
      <div><div class="strong">${each.field === "*" ? "all fields" : words(each.field)} of ${each.domain}</div>
        <div class="quiet">read on ${percent(each.rate)} of ${plural(each.pages, "page")}, ${percent(each.mean)} in the seven days before · parser ${each.parser} ${each.parser_version} · since <span title=${utc(each.since)}>${ago(each.since)}</span></div></div>
      ${each.state === "open" ? html`<div class="row"><button class="button small" @click=${() => heldValues(each)}>Values</button><button class="button writes small" @click=${(/** @type {Event} */ event) => decide(event, "accept")}>Accept</button>
        <button class="button writes small" @click=${(/** @type {Event} */ event) => decide(event, "reject")}>Reject</button></div>` : html`<span class="faint" title=${utc(each.decided_at)}>${ago(each.decided_at)}</span>`}</div>`;
  });
}

/** The values that are held back, beside the page that shows them. @param {any} held */
function heldValues(held) {
  const found = signal(/** @type {any} */ (null));
  const problem = signal("");
  /** The source of a stored page around a value. */
  const source = signal(/** @type {{ page: string, parts: string[], value: string } | null} */ (null));
  /** @param {any} each */
  const showPage = (each) => (/** @type {Event} */ event) => act(event, async () => {
    source.value = source.peek()?.page === each.page ? null : { page: each.page, value: each.now, parts: around(await sourceOf(each.page), each.now) };
  });
  post("/api/v1/products/reparse", { domain: held.domain, sample: 200 }).then((answer) => (found.value = answer.data), (error) => (problem.value = error.message));
  dialog((close) => html`<div class="inside"><h2>${held.field === "*" ? "All fields" : words(held.field)} of ${held.domain}</h2>
    <p class="quiet">What the newest stored pages show now, beside the value that is stored. Nothing is fetched.</p>
    ${() => {
      if (problem.value) return html`<div class="notice" role="alert">${problem.value}</div>`;
      if (!found.value) return html`<div class="skeleton"></div>`;
      const fields = found.value.fields.filter((/** @type {any} */ each) => held.field === "*" || each.field === held.field);
      const examples = fields.flatMap((/** @type {any} */ each) => each.examples.map((/** @type {string} */ text) => /^(\S+): (.*) → ([^→]*)$/.exec(text)).filter(Boolean).map((/** @type {string[]} */ parts) => ({ field: each.field, page: parts[1], before: parts[2], now: parts[3] })));
      return examples.length ? html`<div>${examples.map((/** @type {any} */ each) => html`<div class="look">${tag("", words(each.field))}<div><del>${each.before}</del> → <ins>${each.now}</ins><div class="faint clip">${each.page}</div></div>
        <button class="button small" @click=${showPage(each)}>Page</button>
        ${() => shownSource(source.value, each)}</div>`)}</div>`
        : html`<div class="empty">The newest ${plural(found.value.pages, "stored page")} show the same values as are stored, or none: accepting or rejecting changes nothing there.</div>`;
    }}
    <div class="row"><button class="button" @click=${close}>Close</button></div></div>`, "Values that are held back");
}

/** @param {{ page: string, parts: string[], value: string } | null} source @param {any} each */
const shownSource = (source, each) => (source?.page === each.page && source?.value === each.now
  ? html`<pre class="source beside-value" tabindex="0">${source?.parts.map((part, index) => (index ? [html`<mark>${each.now}</mark>`, part] : part))}</pre>` : null);

/** The source of the newest stored page of an address, as text. @param {string} url */
async function sourceOf(url) {
  const { data: rows } = await get("/api/v1/pages", { url });
  const file = rows.length ? (await get(rows[0].path)).data.files.find((/** @type {any} */ each) => !each.content_type.startsWith("image/")) : null;
  if (!file) throw new Error("No page of this address is stored any more.");
  return (await fetch(file.path)).text();
}

/** The parts of a text between the places that show a value, some lines around each; its beginning if none does. @param {string} text @param {string} value */
function around(text, value) {
  const parts = value ? text.split(value).slice(0, 6) : [text];
  if (parts.length === 1) return [text.slice(0, 4000)];
  return parts.map((part, index) => (part.length <= 600 ? part : index === 0 ? `…${part.slice(-300)}` : index === parts.length - 1 ? `${part.slice(0, 300)}…` : `${part.slice(0, 300)}\n…\n${part.slice(-300)}`));
}

/** @param {any[]} all @param {() => void} again */
function wrappers(all, again) {
  const rows = all.filter((each) => each.state === "proposed" || each.state === "adopted");
  if (!rows.length) return html`<div class="empty small">Nothing has been learnt. Forager learns when some pages of a shop lack what the markup of others has.</div>`;
  return rows.map((each) => {
    const decide = (/** @type {Event} */ event, /** @type {"adopt" | "reject"} */ way) => act(event, () => post(`/api/v1/admin/wrappers/${way}`, {}, { name: each.name }).then(again), way === "adopt" ? "Adopted: stored pages are parsed again." : "Rejected: it is not used.");
    const moved = each.fields.reduce((/** @type {number} */ sum, /** @type {any} */ field) => sum + field.changed + field.found, 0);
    return html`<div class="look" data-wrapper=${each.name}>${tag(each.state === "adopted" ? "completed" : "waiting", each.state)}
      <div><div class="strong">${each.name}</div><div class="quiet">${each.fields.map((/** @type {any} */ field) => words(field.field)).join(", ")} · right on at least ${percent(Math.min(...each.fields.map((/** @type {any} */ field) => field.score)))} of the pages left out · ${plural(moved, "stored value")} that it changes or finds · ${each.mode === "heal" ? "taught by last good values" : "taught by markup"} <span title=${utc(each.learnt_at)}>${ago(each.learnt_at)}</span></div></div>
      <div class="row">${each.state === "proposed" ? html`<button class="button writes small" @click=${(/** @type {Event} */ event) => decide(event, "adopt")}>Adopt</button>` : ""}<button class="button writes small" @click=${(/** @type {Event} */ event) => decide(event, "reject")}>Reject</button></div></div>`;
  });
}

/** @param {any[]} days */
function readings(days) {
  if (!days.length) return html`<div class="empty">No page has been read yet.</div>`;
  /** @type {Map<string, any[]>} */
  const shops = new Map();
  for (const day of days) {
    const name = `${day.domain} ${day.parser} ${day.parser_version}`;
    shops.set(name, [...(shops.get(name) ?? []), day]);
  }
  return html`<div class="scroll"><table><thead><tr><th>Shop</th><th class="num">Pages</th><th class="num">Products</th><th>Over time</th><th>Fields that are filled least</th></tr></thead><tbody>${[...shops.values()].map((all) => {
    const now = all[0];
    const worst = Object.entries(now.fill).sort((a, b) => Number(a[1]) - Number(b[1])).slice(0, 4);
    return html`<tr class="hit"><td><span class="strong">${now.domain}</span><div class="quiet">parser ${now.parser} ${now.parser_version} · ${now.day}</div></td><td class="num">${number(now.pages)}</td>
      <td class="num">${share(now.success)}</td><td><div class="card"><div class="tiny">${all.length > 1 ? sparkline(all.map((day) => day.success).reverse(), { label: "success over time" }) : html`<span class="faint">one day</span>`}</div></div></td>
      <td>${worst.every(([, value]) => value === 1) ? html`<span class="quiet">all fields on every page</span>` : html`<div class="row">${worst.map(([name, value]) => html`<span class="quiet">${words(name)}</span>${share(Number(value))}`)}</div>`}</td></tr>`;
  })}</tbody></table></div>`;
}

/** @param {number} value */
const share = (value) => html`<span class=${`tag ${value >= 0.9 ? "green" : value >= 0.5 ? "yellow" : "red"}`}>${percent(value)}</span>`;

/** @param {any[]} all @param {() => void} again */
function shops(all, again) {
  if (!all.length) return html`<div class="empty"><p>No shop yet.</p><a class="button primary" href="/jobs/new?pipeline=products">Crawl a shop</a></div>`;
  return html`<div class="scroll"><table><thead><tr><th>Shop</th><th>State</th><th class="num">Delay</th><th class="num">At once</th><th>Currency</th><th></th></tr></thead><tbody>${all.map((each) => html`<tr class="hit">
    <td><a class="strong" href=${`/products?domain=${encodeURIComponent(each.domain_name)}`}>${each.domain_name}</a></td><td>${tag(each.is_active ? "active" : "paused")}</td>
    <td class="num">${each.crawl_delay_seconds ?? "–"} s</td><td class="num">${number(each.max_concurrent_requests)}</td><td>${each.currency ?? html`<span class="faint">of the page</span>`}</td>
    <td><div class="row end"><button class="button writes small" @click=${(/** @type {Event} */ event) => act(event, () => post(`/api/v1/admin/domains/${each.id}/${each.is_active ? "pause" : "resume"}`).then(again), each.is_active ? "Paused." : "Resumed.")}>${each.is_active ? "Pause" : "Resume"}</button>
      <button class="button writes small" @click=${(/** @type {Event} */ event) => reparse(event, each.domain_name)}>Parse stored pages again</button></div></td></tr>`)}</tbody></table></div>`;
}

/** What would change comes first, as a question. @param {Event} event @param {string} domain */
async function reparse(event, domain) {
  let told = "";
  if (!(await act(event, async () => {
    const { data } = await post("/api/v1/products/reparse", { domain, sample: 500 });
    const moved = data.fields.filter((/** @type {any} */ each) => each.changed || each.found);
    const fields = moved.map((/** @type {any} */ each) => `${words(each.field)} on ${number(each.changed + each.found)}`).join(", ");
    told = `Of ${plural(data.pages, "stored page")}, ${fields ? `these values would change: ${fields}` : "none would change"}.`;
  }))) return;
  if (await confirmed(`${told} Parse every stored page of ${domain} again? Nothing is fetched.`, "Parse again")) act(event, () => post("/api/v1/products/reparse", { domain, apply: true }), "Queued.");
}
