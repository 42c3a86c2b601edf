// @ts-check
/** Web search: a query with its price before it starts, its results, and the pages that were read. */

import { ApiError, post } from "/dashboard/lib/api.js";
import { ago, money, number, plural } from "/dashboard/lib/format.js";
import { load, whenLoaded } from "/dashboard/lib/load.js";
import { go } from "/dashboard/lib/router.js";
import { effect, html, signal } from "/dashboard/lib/view.js";
import { copyBox } from "/dashboard/parts/samples.js";
import { tag } from "/dashboard/parts/states.js";

const PRICE_MS = 400;

/** @param {{ id?: string }} params */
export function page({ id }) {
  return id ? search(id) : all();
}

function all() {
  const jobs = load("/api/v1/jobs", { query: { pipeline: "web", limit: 20 }, every: 10 });
  return {
    title: "Web search",
    body: html`<div class="stack">${start()}
      <section class="panel"><header><h2>Searched before</h2><a href="/jobs?pipeline=web">All jobs →</a></header>${whenLoaded(jobs, (rows) => (rows.length
        ? rows.map((/** @type {any} */ job) => html`<a class="look" href=${`/web/${job.id}`}>${tag(job.state)} <span class="clip">${job.params.query}</span><span class="faint">${ago(job.created_at)}</span></a>`)
        : html`<div class="empty"><p>Nothing was searched for yet.</p><code>forager web "oak table care" --read 5</code></div>`))}</section></div>`,
  };
}

/** The query, how much of it is read, and what that costs before it starts. */
function start() {
  const body = signal(/** @type {Record<string, any>} */ ({ query: "", read: 3 }));
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
    if (!wanted.query) return;
    timer = setTimeout(() => post("/api/v1/web/plan", wanted).then((answer) => ((plan.value = answer.data), (errors.value = {}), (problem.value = "")), fail), PRICE_MS);
  });
  /** @param {string} name @param {boolean} [numeric] */
  const typed = (name, numeric = false) => (/** @type {Event} */ event) => {
    const value = /** @type {HTMLInputElement} */ (event.target).value.trim();
    const { [name]: _old, ...rest } = body.peek();
    body.value = value ? { ...rest, [name]: numeric ? Number(value) : value } : name === "query" ? { ...rest, query: "" } : rest;
  };
  /** @param {SubmitEvent} event */
  const send = (event) => {
    event.preventDefault();
    post("/api/v1/web/searches", body.peek()).then((answer) => go(`/web/${answer.data.job_id}`), fail);
  };
  /** @param {string} name */
  const wrong = (name) => () => (errors.value[name] ? html`<span class="error" role="alert">${errors.value[name]}</span>` : null);
  return html`<section class="panel writes"><form class="stack" novalidate @submit=${send}><div class="two">
      <label class="field full"><span>Search for</span><input type="search" name="query" required placeholder="oak table care" @input=${typed("query")}>${wrong("query")}</label>
      <label class="field"><span>Read<span class="faint">first results, as Markdown</span></span><input type="number" name="read" min="0" max="10" value="3" @input=${typed("read", true)}>${wrong("read")}</label>
      <label class="field"><span>Pages of results<span class="faint">each is a query</span></span><input type="number" name="pages" min="1" max="10" placeholder="1" @input=${typed("pages", true)}>${wrong("pages")}</label>
      <label class="field"><span>At most<span class="faint">credits</span></span><input type="number" name="max_credits" min="0" placeholder="no limit" @input=${typed("max_credits", true)}>${wrong("max_credits")}</label></div>
    ${() => (problem.value ? html`<div class="notice" role="alert">${problem.value}</div>` : null)}
    <div class="row"><button class="button primary">Search</button><span class="quiet" data-price>${() => (plan.value ? `${plural(plan.value.queries, "query", "queries")}: at most ${plural(plan.value.worst_credits, "credit")}, ${money(Number(plan.value.worst_usd))}. Reading costs nothing.` : "The search is paid for with Serper's credits.")}</span></div></form></section>`;
}

/** One search: its results, and each page that was read. @param {string} id */
function search(id) {
  const found = load(`/api/v1/web/searches/${encodeURIComponent(id)}`, { every: 3 });
  const chosen = signal("");
  return {
    title: "Web search",
    state: html`<a class="tag" href="/web">all searches</a>`,
    body: html`<div class="stack">${whenLoaded(found, (data) => html`<section class="panel"><header><h2>${data.query}</h2><span class="faint">${tag(data.status)} ${plural(data.results.length, "result")} · ${plural(data.credits, "credit")}</span></header>
        <div class="scroll"><table><thead><tr><th class="num">#</th><th>Result</th><th>Page</th></tr></thead><tbody>${data.results.map((/** @type {any} */ hit) => html`<tr class="hit" data-hit=${hit.position}><td class="num">${number(hit.position)}</td>
          <td><a class="link" href=${hit.url} target="_blank" rel="noreferrer"><span class="strong">${hit.title ?? hit.url}</span></a><div class="faint clip">${hit.url}</div><div class="quiet">${hit.snippet ?? ""}</div></td>
          <td>${read(hit, () => (chosen.value = hit.url))}</td></tr>`)}</tbody></table></div>
        ${data.results.length ? null : html`<div class="empty">${data.done ? "Nothing was found." : "The search has not been answered yet."}</div>`}
        ${data.read_job ? html`<p class="faint"><a class="link" href=${`/jobs/${data.read_job}`}>The job that reads the pages →</a></p>` : null}</section>
      ${() => {
        const hit = data.results.find((/** @type {any} */ each) => each.url === chosen.value);
        return hit?.page?.markdown ? html`<section class="panel" data-page><header><h2>${hit.title ?? hit.url}</h2></header>${copyBox(() => hit.page.markdown)}</section>` : null;
      }}`)}</div>`,
  };
}

/** @param {any} hit @param {() => void} open */
function read(hit, open) {
  if (!hit.page) return html`<span class="faint">not read</span>`;
  if (hit.page.error) return html`<div class="notice">${hit.page.error}</div>`;
  if (hit.page.markdown === null) return tag(hit.page.status);
  return html`<button class="button small" @click=${open}>Read</button>${hit.page.stored ? html`<div class="faint">a stored page</div>` : null}`;
}
