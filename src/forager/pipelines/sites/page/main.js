// @ts-check
/** Sites: start a crawl or a map, see the crawls, read a site's pages as Markdown. */

import { ApiError, post } from "/dashboard/lib/api.js";
import { ago, bytes, duration, moment, number, plural, utc } from "/dashboard/lib/format.js";
import { load, whenLoaded } from "/dashboard/lib/load.js";
import { go, setQuery } from "/dashboard/lib/router.js";
import { effect, html, signal } from "/dashboard/lib/view.js";
import { copyBox } from "/dashboard/parts/samples.js";
import { tag } from "/dashboard/parts/states.js";
import { pagedTable } from "/dashboard/parts/table.js";
import { markdown } from "./markdown.js";

/** @param {{ id?: string }} params @param {URLSearchParams} query */
export function page({ id }, query) {
  return id ? site(id, query) : all();
}

function all() {
  const crawls = load("/api/v1/sites", { every: 10 });
  return {
    title: "Sites",
    body: html`<div class="stack">${start()}
      <section class="panel"><header><h2>Crawls and maps</h2></header>${whenLoaded(crawls, (rows) => (rows.length ? html`<div class="scroll"><table><thead><tr><th>Site</th><th>What</th><th class="num">Pages</th><th class="num">Unchanged</th><th class="num wide-only">Bytes</th><th class="num wide-only">Started</th><th>State</th></tr></thead><tbody>
        ${rows.map((/** @type {any} */ row) => html`<tr class="hit"><td><a href=${`/sites/${encodeURIComponent(row.site)}`}><span class="job-name">${row.site}</span></a></td><td class="quiet">${row.mode === "map" ? "map" : "crawl"} of ${row.url}</td>
          <td class="num">${number(row.mode === "map" ? row.addresses : row.pages)}</td><td class="num">${number(row.unchanged)}</td><td class="num wide-only">${bytes(row.bytes)}</td><td class="num wide-only" title=${utc(row.started_at)}>${ago(row.started_at)}</td>
          <td>${row.job_id ? html`<a href=${`/jobs/${row.job_id}`}>${tag(row.state)}</a>` : tag(row.state)}${row.trapped ? html`<div class="quiet">${number(row.trapped)} endless links left out</div>` : null}</td></tr>`)}</tbody></table></div>`
        : html`<div class="empty"><p>No site was crawled yet. Give an address above, or:</p><code>forager site crawl https://docs.example</code></div>`))}</section></div>`,
  };
}

/** An address, how far, and what it takes before it starts. */
function start() {
  const body = signal(/** @type {Record<string, any>} */ ({ url: "", mode: "crawl" }));
  const plan = signal(/** @type {any} */ (null));
  const errors = signal(/** @type {Record<string, string>} */ ({}));
  const problem = signal("");
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  let timer;
  /** @param {unknown} error */
  const fail = (error) => {
    errors.value = error instanceof ApiError ? error.fields : {};
    problem.value = Object.keys(errors.peek()).length ? "" : error instanceof Error ? error.message : String(error);
  };
  effect(() => {
    const wanted = body.value;
    clearTimeout(timer);
    if (!/^https?:\/\/[^/.]+[.:][^/]+/.test(String(wanted.url))) return;
    timer = setTimeout(() => post("/api/v1/sites/plan", wanted).then((answer) => ((plan.value = answer.data), (errors.value = {}), (problem.value = "")), fail), 400);
  });
  /** @param {string} name @param {boolean} [numeric] */
  const typed = (name, numeric = false) => (/** @type {Event} */ event) => {
    const { value } = /** @type {HTMLInputElement} */ (event.target);
    const { [name]: _old, ...rest } = body.peek();
    body.value = value.trim() ? { ...rest, [name]: numeric ? Number(value) : value.trim() } : rest;
  };
  /** @param {SubmitEvent} event */
  const send = (event) => {
    event.preventDefault();
    post("/api/v1/sites/crawls", body.peek()).then((answer) => go(`/jobs/${answer.data.job_id}`), fail);
  };
  /** @param {string} name */
  const wrong = (name) => () => (errors.value[name] ? html`<span class="error" role="alert">${errors.value[name]}</span>` : null);
  return html`<section class="panel writes"><form class="stack" novalidate @submit=${send}><div class="two">
      <label class="field full"><span>Address</span><input type="url" name="url" required placeholder="https://docs.example/" @input=${typed("url")}>${wrong("url")}</label>
      <label class="field"><span>What</span><select name="mode" @change=${typed("mode")}><option value="crawl">its pages as Markdown</option><option value="map">only its addresses</option></select></label>
      <label class="field"><span>At most<span class="faint">pages, optional</span></span><input type="number" name="limit" min="1" placeholder="all within the limits" @input=${typed("limit", true)}>${wrong("limit")}</label></div>
    ${() => (problem.value ? html`<div class="notice" role="alert">${problem.value}</div>` : null)}
    <div class="row"><button class="button primary">Start</button><span class="quiet">${() => (plan.value ? sentence(plan.value) : "robots.txt and the pace of the site are kept.")}</span></div></form></section>`;
}

/** @param {any} plan */
function sentence(plan) {
  const known = plan.known ? `${plural(plan.known, "page")} known: about ${duration(plan.seconds)}. ` : "";
  return `${known}At most ${plural(plan.at_most, "page")} in ${duration(plan.at_most_seconds)}, one every ${duration(plan.seconds_per_page)}.`;
}

/** @param {string} name @param {URLSearchParams} query */
function site(name, query) {
  const about = load(`/api/v1/sites/${encodeURIComponent(name)}`);
  const chosen = signal(query.get("url") ?? "");
  /** @param {string} url */
  const open = (url) => ((chosen.value = url), setQuery({ url }));
  return {
    title: name,
    state: html`<a class="tag" href="/sites">all sites</a>`,
    body: html`<div class="stack"><section class="panel">${whenLoaded(about, (data) => html`<div class="figures">${[["Pages", number(data.pages)], ["Addresses", number(data.addresses)], ["Near-duplicates", number(data.duplicates)], ["Gone", number(data.gone)], ["Last crawl", ago(data.crawls[0]?.started_at)]]
      .map(([label, value]) => html`<div><div class="label">${label}</div><div class="value">${value}</div></div>`)}</div>`)}</section>
      <div class="split even"><section class="panel"><header><h2>Pages</h2><a href="/records/site_page">as records →</a></header>${pagedTable({
        path: `/api/v1/sites/${encodeURIComponent(name)}/pages`, keyOf: (row) => row.url,
        columns: [
          { title: "Page", cell: (row) => html`<button class="plain-row" aria-pressed=${() => String(chosen.value === row.url)} @click=${() => open(row.url)}><span class="strong">${row.title || row.url}</span><span class="faint clip">${row.url.replace(/^https?:\/\/[^/]+/, "") || "/"}</span></button>` },
          { title: "Size", right: true, wide: true, cell: (row) => bytes(row.bytes) },
          { title: "Changed", right: true, cell: (row) => html`<span title=${utc(row.changed_at)}>${row.gone_at ? tag("failed", "gone") : row.duplicate_of ? tag("", "duplicate") : ago(row.changed_at)}</span>` },
        ],
        empty: () => html`<p>No page of this site is stored.</p><code>forager site crawl ${name}</code>`,
      })}</section>
      <section class="panel sticky preview" tabindex="0">${() => (chosen.value ? preview(chosen.value) : html`<div class="empty">Choose a page to read it as Markdown.</div>`)}</section></div></div>`,
  };
}

/** @param {string} url */
function preview(url) {
  const one = load("/api/v1/sites/page", { query: { url } });
  const tab = signal("preview");
  return html`<div>${whenLoaded(one, (data) => html`
    <div class="tabs" role="tablist">${["preview", "source", ...(data.fields ? ["fields"] : []), "about"].map((each) => html`<button role="tab" aria-selected=${() => String(tab.value === each)} @click=${() => (tab.value = each)}>${each}</button>`)}</div>
    ${() => {
      if (tab.value === "source") return copyBox(() => data.content ?? "");
      if (tab.value === "fields") return html`<pre class="codebox" tabindex="0">${JSON.stringify(data.fields, null, 2)}</pre>`;
      if (tab.value === "about") return html`<dl class="pairs"><dt>Address</dt><dd><a class="link" href=${data.url} target="_blank" rel="noreferrer">${data.url}</a></dd><dt>Kind</dt><dd>${data.page_kind ?? "–"}</dd><dt>Language</dt><dd>${data.language ?? "–"}</dd>
        <dt>Links</dt><dd>${number(data.links_out)} out, ${number(data.links_in)} in</dd><dt>Depth</dt><dd>${number(data.depth)}</dd><dt>First seen</dt><dd title=${utc(data.first_seen_at)}>${moment(data.first_seen_at)}</dd><dt>Changed</dt><dd title=${utc(data.changed_at)}>${moment(data.changed_at)}</dd>${data.duplicate_of ? html`<dt>Like</dt><dd>${data.duplicate_of}</dd>` : null}</dl>`;
      return data.content ? markdown(data.content) : html`<div class="empty">This page has no stored text.</div>`;
    }}`)}</div>`;
}
