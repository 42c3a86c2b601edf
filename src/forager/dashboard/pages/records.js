// @ts-check
/** Records of any kind: search, columns to choose, filters from the indexes, time travel, export of what is shown. */

import { address } from "../lib/api.js";
import { ago, number, utc, words } from "../lib/format.js";
import { load, whenLoaded } from "../lib/load.js";
import { setQuery } from "../lib/router.js";
import { effect, html, signal } from "../lib/view.js";
import { breakable } from "../parts/states.js";
import { pagedTable } from "../parts/table.js";

const FORMATS = /** @type {const} */ ([["csv", "CSV"], ["jsonl", "JSON lines"], ["parquet", "Parquet"], ["xlsx", "Excel"]]);
/** Fields that name a record for a person, the best first. */
const NAMES = ["title", "product_name", "name", "property_name", "location_name", "account_name", "reviewer_name", "display_name", "url", "page_url", "address"];
/** Values that tell a person nothing: ids and hashes. */
const OPAQUE = /^([0-9a-f]{8}-[0-9a-f-]{27}|[0-9a-f]{24,})/i;
/** Fields that a person seldom wants to see in a table. */
const DULL = /(_uid|_hash|_id|^cid|^id|^key|version|_path|times_seen|gone_|first_seen_at|last_seen_at|changed_at|fingerprint|^evidence|^sources?$|^job$|Id$|_key$|Photo)/;
const MONEY = /(price|rent|amount|cost|_usd)/;
const exact = new Intl.NumberFormat("en-US", { minimumFractionDigits: 2 });
const AMOUNT = /(price|rent|amount|cost|_usd|count|rating|score|confidence|beds|baths|sqft|size|seconds|_ms|position|total)/;

/** @param {{ kind?: string }} params @param {URLSearchParams} query */
export function page({ kind }, query) {
  const kinds = load("/api/v1/records");
  return {
    title: kind ? `Records · ${words(kind)}` : "Records",
    body: html`<div class="stack">${whenLoaded(kinds, (all) => (kind ? html`
      <div class="chips"><a class="chip" href="/records">All kinds</a>${all.map((/** @type {any} */ each) => html`<a class="chip" aria-current=${each.kind === kind ? "page" : null} href=${`/records/${each.kind}`}>${words(each.kind)}</a>`)}</div>
      ${table(all.find((/** @type {any} */ each) => each.kind === kind), query)}` : html`<div class="kinds">${all.map(card)}</div>`))}</div>`,
  };
}

/** A kind with its newest records, so that it explains itself. @param {any} kind */
function card(kind) {
  const first = load(`/api/v1/records/${kind.kind}`, { query: { limit: 3 } });
  return html`<a class="panel kind" href=${`/records/${kind.kind}`}><h2>${words(kind.kind)}</h2>
    <span class="faint">${number(kind.fields.length)} fields${kind.per_job ? " · of one job each" : ""}</span>
    ${whenLoaded(first, (rows) => (rows.length ? rows.map((/** @type {any} */ row) => html`<span class="clip quiet">${nameOf(row)}</span>`) : html`<span class="quiet">none yet</span>`))}</a>`;
}

/** @param {any} kind @param {URLSearchParams} query */
function table(kind, query) {
  if (!kind) return html`<div class="notice">There is no such kind of record. <a class="link" href="/records">See all kinds</a></div>`;
  const remembered = JSON.parse(localStorage.getItem(`columns:${kind.kind}`) ?? "null");
  const usual = kind.fields.filter((/** @type {string} */ name) => !DULL.test(name));
  const columns = signal(/** @type {string[]} */ (remembered ?? (usual.length > 2 ? usual : kind.fields).slice(0, 6)));
  const filters = signal(/** @type {Record<string, string>} */ (Object.fromEntries([...query].filter(([name]) => kind.filters.includes(name) || name === "job" || name === "search"))));
  const asOf = signal(query.get("as_of") ?? "");
  const order = signal(query.get("order") ?? "newest");
  const sorted = signal(query.get("sort") ?? "");
  effect(() => setQuery({ sort: sorted.value }));
  const choosing = signal(false);
  /** Newest records, for values that a filter suggests. */
  const known = load(`/api/v1/records/${kind.kind}`, { query: { limit: 200 } });
  /** @param {string} name @param {string} value */
  const set = (name, value) => {
    if ((filters.peek()[name] ?? "") === value) return;
    filters.value = { ...filters.peek(), [name]: value };
    setQuery({ [name]: value });
  };
  const asked = () => ({ ...filters.value, order: order.value, as_of: asOf.value ? new Date(asOf.value).toISOString() : "" });
  /** The order of a file is that of its rows in the store. */
  const exported = () => {
    const { order: _order, ...conditions } = asked();
    return conditions;
  };
  /** @param {string} name @param {boolean} on */
  const toggle = (name, on) => {
    columns.value = kind.fields.filter((/** @type {string} */ each) => (each === name ? on : columns.peek().includes(each)));
    localStorage.setItem(`columns:${kind.kind}`, JSON.stringify(columns.peek()));
  };
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  let timer;
  /** @param {Event} event */
  const typed = (event) => {
    clearTimeout(timer);
    const { value } = /** @type {HTMLInputElement} */ (event.target);
    timer = setTimeout(() => set("search", value.trim()), 300);
  };
  return html`<div class="stack">
    <div class="filters">
      <label class="pill wide"><span>Search</span><input type="search" aria-label="Search" placeholder="any field" .value=${filters.peek().search ?? ""} @input=${typed}></label>
      ${kind.filters.map((/** @type {string} */ name) => html`<label class="pill"><span>${words(name)}</span><input type="text" placeholder="any" list=${`values-${name}`} aria-label=${`Filter by ${words(name)}`} .value=${filters.peek()[name] ?? ""}
        @change=${(/** @type {Event} */ event) => set(name, /** @type {HTMLInputElement} */ (event.target).value.trim())}><datalist id=${`values-${name}`}>${() => (known.state.value.data ? [...new Set(known.state.value.data.map((/** @type {any} */ row) => row[name]).filter((/** @type {any} */ value) => typeof value === "string" || typeof value === "number"))].slice(0, 40).map((value) => html`<option value=${String(value)}></option>`) : null)}</datalist></label>`)}
      ${() => (filters.value.job ? html`<button class="pill on" title="Show records of all jobs" @click=${() => set("job", "")}><span>Job</span><b>${filters.value.job.slice(0, 8)}</b> ×</button>` : null)}
      <label class=${() => `pill ${asOf.value ? "on" : ""}`} title="Records as they were at this moment"><span>As of</span><input class="when" type="datetime-local" aria-label="As of" .value=${asOf.peek()} @change=${(/** @type {Event} */ event) => ((asOf.value = /** @type {HTMLInputElement} */ (event.target).value), setQuery({ as_of: asOf.peek() }))}></label>
      <label class="pill"><span>Order</span><select aria-label="Order" @change=${(/** @type {Event} */ event) => ((order.value = /** @type {HTMLSelectElement} */ (event.target).value), setQuery({ order: order.peek() }))}>${["newest", "oldest"].map((each) => html`<option value=${each} ?selected=${each === order.peek()}>${each} first</option>`)}</select></label>
      <span class="end"><button class="button small" aria-expanded=${() => String(choosing.value)} @click=${() => (choosing.value = !choosing.value)}>Columns</button>
        <details class="menu"><summary class="button small">Export</summary><div>${FORMATS.map(([format, title]) => html`<a download href=${() => address(`/api/v1/export/${kind.kind}`, { ...exported(), format })}>${title}</a>`)}
          <span class="faint">what the filters show</span></div></details></span>
    </div>
    ${() => (choosing.value ? html`<div class="panel row">${kind.fields.map((/** @type {string} */ name) => html`<label class="row quiet"><input type="checkbox" .checked=${columns.peek().includes(name)}
      @change=${(/** @type {Event} */ event) => toggle(name, /** @type {HTMLInputElement} */ (event.target).checked)}>${words(name)}</label>`)}</div>` : null)}
    <section class="panel">${() => {
      const [naming, others] = parted(columns.value);
      return pagedTable({
        path: `/api/v1/records/${kind.kind}`, query: asked, keyOf: (row) => `${row.job ?? ""}/${keyOf(row, kind)}`, href: (row) => addressOf(row, kind), fill: () => Boolean(filters.value.search), sorted,
        columns: [{ title: naming ? words(naming) : words(kind.kind), value: (row) => (naming ? row[naming] : nameOf(row)), cell: (row) => html`<span class="job-name">${short(naming ? (row[naming] ?? nameOf(row)) : nameOf(row))}</span>` },
          ...others.map((name) => ({ title: words(name), right: AMOUNT.test(name), value: (/** @type {any} */ row) => row[name], cell: (/** @type {any} */ row) => show(name, row[name]) }))],
        empty: () => (Object.values(filters.value).some(Boolean) || asOf.value ? "No record matches." : html`<p>No ${words(kind.kind)} yet: a job writes them.</p><a class="button writes" href="/jobs/new">Start a job</a>`),
      });
    }}</section></div>`;
}

/** The column that names a record, and the others. @param {string[]} columns @returns {[string | undefined, string[]]} */
function parted(columns) {
  const naming = NAMES.find((name) => columns.includes(name));
  return [naming, columns.filter((name) => name !== naming)];
}

/** @param {unknown} text */
const short = (text) => String(text).replace(/^https?:\/\/(www\.)?/, "").slice(0, 120);

/** What names a record for a person. @param {any} row */
export function nameOf(row) {
  const found = NAMES.find((name) => typeof row[name] === "string" && row[name]);
  if (found) return short(row[found]);
  const person = Object.values(row).find((value) => typeof value?.displayName === "string");
  if (person) return short(person.displayName);
  const told = Object.entries(row).find(([name, value]) => typeof value === "string" && value && !DULL.test(name) && !/_at$|^job$/.test(name) && !OPAQUE.test(value));
  return told ? short(told[1]) : String(row._key ?? row.key ?? Object.entries(row).find(([name]) => name !== "job")?.[1] ?? "");
}

/** The key of a record. @param {any} row @param {any} kind */
export const keyOf = (row, kind) => row[kind.key];

/** The page of a record; one that belongs to a job is named with it. @param {any} row @param {any} kind */
const addressOf = (row, kind) => address(`/records/${kind.kind}/${encodeURIComponent(keyOf(row, kind))}`, kind.per_job ? { job: row.job } : {});

/** @param {string} name @param {any} value */
export function show(name, value) {
  if (value === null || value === undefined || value === "") return html`<span class="faint">–</span>`;
  if (typeof value === "boolean") return value ? "yes" : "no";
  if (typeof value.displayName === "string") return value.displayName;
  if (typeof value === "object") return html`<code>${JSON.stringify(value).slice(0, 120)}</code>`;
  if (/_at$/.test(name)) return html`<span class="nowrap" title=${utc(value)}>${ago(value)}</span>`;
  const text = String(value);
  if (AMOUNT.test(name) && /^-?\d+(\.\d+)?$/.test(text)) return MONEY.test(name) && text.includes(".") ? exact.format(Number(text)) : number(Number(text));
  if (/^https?:\/\//.test(text)) return html`<a class="link url" href=${text} target="_blank" rel="noreferrer" title=${text}>${breakable(short(text).replace(/[?#].*$/, "").slice(0, 48))}</a>`;
  if (text.length <= 20) return html`<span class="nowrap">${text}</span>`;
  return text.length > 90 ? html`<span title=${text}>${text.slice(0, 90)}…</span>` : text;
}
