// @ts-check
/** The playground: a page, what is wanted of it, and what came back, field by field with its source. */

import { ApiError, post } from "/dashboard/lib/api.js";
import { ago, words } from "/dashboard/lib/format.js";
import { load, whenLoaded } from "/dashboard/lib/load.js";
import { go, setQuery } from "/dashboard/lib/router.js";
import { effect, html, signal } from "/dashboard/lib/view.js";
import { act, dialog, toast } from "/dashboard/parts/feedback.js";
import { jobName, tag } from "/dashboard/parts/states.js";
import { result } from "./result.js";
import { samples } from "/dashboard/parts/samples.js";

export { taskActions } from "./reread.js";

const FORMATS = ["markdown", "html", "text", "links", "screenshot", "pdf", "captured"];
const RENDERS = /** @type {const} */ ([["auto", "auto: a browser only if needed"], ["http", "HTTP only"], ["browser", "browser"]]);

const AGES = /** @type {const} */ ([["", "never: fetch the page"], ["600", "up to 10 minutes old"], ["86400", "up to a day old"], ["604800", "up to a week old"]]);

/** The value of a text: nothing, JSON, or else the text as it is, whose mistakes the answer names. @param {string} text @returns {any} */
const valueOf = (text) => {
  if (!text.trim()) return null;
  try { return JSON.parse(text); } catch { return text.trim(); }
};

/** @param {{ id?: string }} params @param {URLSearchParams} query */
export function page({ id }, query) {
  const kinds = load("/api/v1/scrape/kinds");
  const jobs = load("/api/v1/jobs", { query: { pipeline: "scrape", limit: 8 } });
  const body = signal(/** @type {Record<string, any>} */ ({
    target_url: query.get("url") ?? "", target_type: query.get("kind") ?? "page", formats: query.get("kind") && query.get("kind") !== "page" ? null : ["markdown", "links"],
    requested_fields: null, render: "auto", workspace_id: "dashboard", min_confidence: null, timeout_seconds: 60, max_age: null, actions: null, page_schema: null, session: null,
  }));
  const state = signal({ busy: false, answer: /** @type {any} */ (null), problem: "", task: "", since: 0 });
  const errors = signal(/** @type {Record<string, string>} */ ({}));
  /** @param {Record<string, any>} changes */
  const set = (changes) => void (body.value = { ...body.peek(), ...changes });
  const earlier = load(() => (id ? `/api/v1/scrape/${encodeURIComponent(id)}` : null));
  effect(() => {
    const { data, meta, error } = earlier.state.value;
    if (data) set({ target_url: data.target_url ?? data.url ?? "", target_type: data.target_type ?? "page" });
    if (data) state.value = { ...state.peek(), answer: { data, meta }, problem: data.status === "completed" ? "" : (data.error ?? `The page is ${data.status}.`) };
    else if (error) state.value = { ...state.peek(), problem: error.message };
  });
  /** @param {SubmitEvent} event */
  async function run(event) {
    event.preventDefault();
    state.value = { busy: true, answer: null, problem: "", task: "", since: Date.now() };
    errors.value = {};
    setQuery({ url: body.peek().target_url, kind: body.peek().target_type });
    try {
      const answer = await post("/api/v1/scrape/sync", wanted(body.peek()));
      state.value = { ...state.peek(), busy: false, answer };
    } catch (error) {
      errors.value = error instanceof ApiError ? error.fields : {};
      state.value = { ...state.peek(), busy: false, problem: error instanceof Error ? error.message : String(error) };
    }
    jobs.again();
  }
  return {
    title: "Scrape",
    state: html`<span class="quiet">Fetch one page and see what was read from it</span>`,
    actions: html`<a class="button" href="/jobs/new?pipeline=scrape">Many pages</a>`,
    body: html`<div class="playground">
      <div class="stack"><section class="panel"><form class="stack" novalidate @submit=${run}>${whenLoaded(kinds, (all) => fields([...all].sort((a, b) => Number(b.name === "page") - Number(a.name === "page")), body, set, errors))}
        <div class="row"><button class="button primary" ?disabled=${() => state.value.busy}>${() => (state.value.busy ? "Fetching…" : "Fetch")}</button>
          <span class="faint">robots.txt and the site's pace are kept</span></div></form></section>
        <section class="panel"><header><h2>The same request</h2></header>${samples(() => ({ method: "POST", target: "/api/v1/scrape/sync", body: JSON.stringify(wanted(body.value)) }))}</section></div>
      <div class="stack"><section class="panel">${() => result(state.value, () => body.peek())}</section>
        ${() => (state.value.answer ? further(body.peek()) : null)}
        <section class="panel"><header><h2>Fetched before</h2><a href="/jobs?pipeline=scrape">All jobs →</a></header>${whenLoaded(jobs, (rows) => (rows.length ? rows.map((/** @type {any} */ job) => html`<a class="look" href=${`/jobs/${job.id}`}>${tag(job.state)}
          <span class="clip">${jobName({ ...job, params: { ...job.params, url: job.params.targets?.[0]?.target_url, targets: undefined } })}${job.total > 1 ? html` <span class="quiet">and ${job.total - 1} more</span>` : null}</span><span class="faint">${ago(job.created_at)}</span></a>`) : html`<div class="empty">Nothing yet.</div>`))}</section></div>
    </div>`,
  };
}

/** What may follow a page that was read: watch it, or read many like it. @param {Record<string, any>} body */
function further(body) {
  const { timeout_seconds: _seconds, ...target } = wanted(body);
  const many = () => {
    const typed = signal(body.target_url);
    const problem = signal("");
    dialog((close) => html`<div class="inside"><h2>Read many pages like it</h2><p class="quiet">One job with the same options: ${words(body.target_type)}. It goes at the pace of each site.</p>
      <label class="field"><span>Pages, one per line</span><textarea rows="8" name="targets" .value=${typed.peek()} @input=${(/** @type {Event} */ event) => (typed.value = /** @type {HTMLTextAreaElement} */ (event.target).value)}></textarea>
        ${() => (problem.value ? html`<span class="error" role="alert">${problem.value}</span>` : null)}</label>
      <div class="row"><button class="button primary" @click=${(/** @type {Event} */ event) => act(event, async () => {
        problem.value = "";
        const targets = typed.value.split(/\s+/).filter(Boolean).map((/** @type {string} */ url) => ({ ...target, target_url: url }));
        try {
          const made = await post("/api/v1/jobs", { pipeline: "scrape", params: { targets } });
          close();
          await go(`/jobs/${made.data.id}`);
        } catch (error) {
          problem.value = error instanceof ApiError ? (Object.values(error.fields)[0] ?? error.message) : String(error);
        }
      })}>Start the job</button><button class="button" @click=${close}>Close</button></div></div>`, "Read many pages like it");
  };
  const watch = (/** @type {Event} */ event) => act(event, async () => {
    const made = await post("/api/v1/watches", { url: body.target_url, every: "1h" });
    toast(`${made.data.name} is watched every hour.`);
    await go("/watches");
  });
  return html`<section class="panel row writes" data-further><span class="quiet">This page:</span><button class="button small" @click=${many}>Save as a batch…</button><button class="button small" @click=${watch}>Watch it</button></section>`;
}

/** What a schema takes the place of. */
const OF_KINDS = ["target_type", "formats", "requested_fields"];

/** The request without what is left at its default. @param {Record<string, any>} body */
const wanted = (body) => Object.fromEntries(Object.entries(body).filter(([name]) => body.page_schema === null || !OF_KINDS.includes(name)).filter(([name, value]) => value !== null && value !== "" && !(name === "render" && value === "auto") && !(name === "timeout_seconds" && value === 60) && !(Array.isArray(value) && !value.length)));

/** @param {import("/dashboard/lib/load.js").Loaded<any>} schemas */
const storedNames = (schemas) => {
  const names = (schemas.state.value.data ?? []).map((/** @type {any} */ each) => each.name);
  return names.length ? `: ${names.slice(0, 12).join(", ")}` : "";
};

/** @param {any[]} kinds @param {import("/dashboard/lib/view.js").Signal<Record<string, any>>} body @param {(changes: Record<string, any>) => void} set @param {import("/dashboard/lib/view.js").Signal<Record<string, string>>} errors */
function fields(kinds, body, set, errors) {
  const schemas = load("/api/v1/schemas");
  const value = (/** @type {Event} */ event) => /** @type {HTMLInputElement} */ (event.target).value;
  /** The mistake of a field, or the first one inside of it. */
  const mistake = (/** @type {string} */ name) => errors.value[name] ?? Object.entries(errors.value).find(([field]) => field.startsWith(`${name}.`))?.[1];
  const wrong = (/** @type {string} */ name) => () => (mistake(name) ? html`<span class="error" role="alert">${mistake(name)}</span>` : null);
  /** @param {string} kind */
  const choose = (kind) => set({ target_type: kind, formats: kind === "page" ? ["markdown", "links"] : null, requested_fields: null });
  /** @param {string} list @param {string} name */
  const toggle = (list, name) => {
    const now = body.peek()[list] ?? [];
    set({ [list]: now.includes(name) ? now.filter((/** @type {string} */ each) => each !== name) : [...now, name] });
  };
  const kind = signal(body.peek().target_type);
  effect(() => void (kind.value = body.value.target_type));
  return html`<label class="field"><span>Page</span><input type="url" name="url" required placeholder="https://example.com/jobs/1" .value=${() => body.value.target_url} @input=${(/** @type {Event} */ event) => set({ target_url: value(event).trim() })}>${wrong("target_url")}</label>
    <div class="field"><span>What it is</span><div class="row" role="group" aria-label="Kind of page">${kinds.map((each) => html`<button type="button" class="chip" aria-pressed=${() => String(kind.value === each.name)} @click=${() => choose(each.name)}>${each.name === "page" ? "any page" : words(each.name)}</button>`)}</div>${wrong("target_type")}</div>
    ${() => {
      const list = kind.value === "page" ? "formats" : "requested_fields";
      const names = kind.value === "page" ? FORMATS : (kinds.find((each) => each.name === kind.value)?.fields ?? []);
      return html`<div class="field"><span>${kind.value === "page" ? "Wanted" : "Fields"} <span class="faint">${kind.value === "page" ? "" : "none chosen: all of them"}</span></span>
        <div class="row">${names.map((/** @type {string} */ name) => html`<button type="button" class="chip small" aria-pressed=${() => String((body.value[list] ?? []).includes(name))} @click=${() => toggle(list, name)}>${words(name)}</button>`)}</div>${wrong(list)}</div>`;
    }}
    <details><summary class="quiet">Options</summary><div class="stack">
      <label class="field"><span>How</span><select @change=${(/** @type {Event} */ event) => set({ render: value(event) })}>${RENDERS.map(([name, title]) => html`<option value=${name}>${title}</option>`)}</select>${wrong("render")}</label>
      <label class="field"><span>At least this sure</span><input type="number" min="0" max="1" step="0.05" placeholder="any" @input=${(/** @type {Event} */ event) => set({ min_confidence: value(event) === "" ? null : Number(value(event)) })}>${wrong("min_confidence")}</label>
      <label class="field"><span>Stored page</span><select @change=${(/** @type {Event} */ event) => set({ max_age: value(event) === "" ? null : Number(value(event)) })}>${AGES.map(([seconds, title]) => html`<option value=${seconds}>${title}</option>`)}</select><span class="faint">a stored page that is young enough answers without a request</span>${wrong("max_age")}</label>
      <label class="field"><span>Fields of your own</span><textarea rows="3" name="schema" spellcheck="false" placeholder='{"fields": {"price": {"type": "number", "css": ".price"}}}' @input=${(/** @type {Event} */ event) => set({ page_schema: valueOf(value(event)) })}></textarea><span class="faint">instead of the kind above: a schema as JSON, or the name of a stored one${() => storedNames(schemas)}</span>${wrong("page_schema")}</label>
      <label class="field"><span>Session</span><input type="text" name="session" placeholder="none" @input=${(/** @type {Event} */ event) => set({ session: value(event).trim() || null })}><span class="faint">keep cookies and storage under this name from visit to visit</span>${wrong("session")}</label>
      <label class="field"><span>Actions</span><textarea rows="3" spellcheck="false" placeholder='[{"do": "click", "selector": "#more"}]' @input=${(/** @type {Event} */ event) => set({ actions: valueOf(value(event)) })}></textarea><span class="faint">what a browser does first: a JSON list, as in the API</span>${wrong("actions")}</label>
      <label class="field"><span>Workspace</span><input type="text" .value=${body.peek().workspace_id} @input=${(/** @type {Event} */ event) => set({ workspace_id: value(event) })}><span class="faint">whose login is used if the page needs one</span>${wrong("workspace_id")}</label>
      <label class="field"><span>Wait at most</span><input type="number" min="5" max="120" .value=${60} @input=${(/** @type {Event} */ event) => set({ timeout_seconds: Number(value(event)) || 60 })}><span class="faint">seconds; the task goes on after that</span>${wrong("timeout_seconds")}</label>
    </div></details>`;
}
