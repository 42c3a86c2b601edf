// @ts-check
/** What came back: fields with their source, Markdown, HTML as source, the screenshot, and the whole answer. */

import { mayWrite, post } from "/dashboard/lib/api.js";
import { ago, duration, percent, words } from "/dashboard/lib/format.js";
import { html, onEnd, signal } from "/dashboard/lib/view.js";
import { act } from "/dashboard/parts/feedback.js";
import { copyBox } from "/dashboard/parts/samples.js";

/** Characters of a source that are shown. */
const MOST_SOURCE = 400_000;
const TEXTS = ["markdown", "html", "text"];
const FILES = ["screenshot", "pdf"];

/** @param {{ busy: boolean, answer: any, problem: string, since: number }} state @param {() => Record<string, any>} body */
export function result(state, body) {
  if (state.busy) return waiting(state.since);
  const { data, meta } = state.answer ?? {};
  if (!data?.result) return state.problem ? html`<div class="notice" role="alert">${state.problem}</div>` : html`<div class="empty"><p>Say which page and what it is, then press Fetch.</p><code>forager scrape https://example.com/ --as markdown</code></div>`;
  const fields = Object.entries(data.result).filter(([name]) => !TEXTS.includes(name) && !FILES.includes(name));
  const tabs = [...(fields.length ? ["fields"] : []), ...TEXTS.filter((name) => data.result[name]), ...FILES.filter((name) => data.result[name]), "answer"];
  const tab = signal(tabs[0] ?? "answer");
  /** The text that the source is to show, if a field was chosen. */
  const sought = signal("");
  const source = signal(/** @type {string | null} */ (typeof data.result.html === "string" ? data.result.html.slice(0, MOST_SOURCE) : null));
  const canLocate = source.peek() !== null || (mayWrite() && body().target_url);
  /** @param {Event} event @param {string} text */
  const locate = (event, text) => act(event, async () => {
    source.value ??= await sourceOf(body());
    sought.value = text;
    tab.value = "source";
  });
  const found = fields.filter(([, value]) => value !== null && !(Array.isArray(value) && !value.length)).length;
  const took = data.started_at && data.completed_at ? (Date.parse(data.completed_at) - Date.parse(data.started_at)) / 1000 : null;
  return html`<header><h2>${fields.length ? `${found} of ${fields.length} fields` : words(data.target_type)}</h2>
      <span class="faint">${[took === null ? "" : duration(took), meta?.stored ? `stored page of ${ago(meta.fetched_at)}` : meta?.rendered ? "by a browser" : "by HTTP", meta?.pages?.length > 1 ? `${meta.pages.length} pages read` : ""].filter(Boolean).join(" · ")}</span></header>
    <div class="tabs" role="tablist">${() => [...tabs, ...(source.value ? ["source"] : [])].map((name) => html`<button role="tab" aria-selected=${() => String(tab.value === name)} @click=${() => (tab.value = name)}>${name}</button>`)}</div>
    ${() => {
      if (tab.value === "fields") return table(fields, meta?.provenance ?? {}, canLocate ? locate : null);
      if (tab.value === "source") return marked(source.value ?? "", sought.value);
      if (tab.value === "screenshot") return picture(data.result.screenshot);
      if (tab.value === "pdf") return html`<p><a class="button" href=${`/api/v1/pages/${data.task_id}/pdf`} download>Download the PDF</a></p>`;
      if (tab.value === "answer") return copyBox(() => JSON.stringify(shortened(data), null, 2));
      return copyBox(() => data.result[tab.value]);
    }}
    <p class="faint after">Task <a class="link" href=${`/tasks/${data.task_id}`}><code>${data.task_id}</code></a></p>`;
}

/** @param {number} since */
function waiting(since) {
  const now = signal(Date.now());
  const timer = setInterval(() => (now.value = Date.now()), 500);
  onEnd(() => clearInterval(timer));
  return html`<div class="stack" aria-busy="true"><p class="quiet">Fetching for ${() => duration(Math.max(1, Math.round((now.value - since) / 1000)))}…</p><div class="skeleton"></div><div class="skeleton"></div><div class="skeleton"></div></div>`;
}

/** The source of a page whose answer has fields only: the page is read once more, at its site's pace. @param {Record<string, any>} body @returns {Promise<string>} */
async function sourceOf(body) {
  const { data } = await post("/api/v1/scrape/sync", { target_url: body.target_url, target_type: "page", formats: ["html"], render: body.render ?? "auto", workspace_id: body.workspace_id });
  return String(data.result?.html ?? "").slice(0, MOST_SOURCE);
}

/** The source with every place of a text marked; it scrolls to the first one. @param {string} source @param {string} text */
function marked(source, text) {
  const parts = text ? source.split(text) : [source];
  const element = html`<pre class="source" tabindex="0">${parts.map((part, index) => (index ? [html`<mark>${text}</mark>`, part] : part))}</pre>`;
  setTimeout(() => document.querySelector(".source mark")?.scrollIntoView({ block: "center" }));
  return html`${text ? html`<p class="quiet" data-found>${parts.length > 1 ? `“${text.slice(0, 80)}” is ${parts.length === 2 ? "once" : `${parts.length - 1} times`} in the source.` : `“${text.slice(0, 80)}” is not in the source word for word: it was put together, or decoded.`}</p>` : null}${element}`;
}

/** The text of a value as a page would have it. @param {any} value @returns {string} */
const wording = (value) => (typeof value === "string" ? value.split("\n")[0]?.slice(0, 200) ?? "" : typeof value === "number" ? String(value) : Array.isArray(value) ? wording(value[0]) : value && typeof value === "object" ? wording(value.raw ?? Object.values(value).find((each) => typeof each === "string")) : "");

/** @param {[string, any][]} fields @param {Record<string, any>} origins @param {((event: Event, text: string) => unknown) | null} locate */
function table(fields, origins, locate) {
  return html`<div class="scroll"><table><thead><tr><th>Field</th><th>Value</th><th>Found in</th><th class="num">Sure</th></tr></thead><tbody>${fields.map(([name, value]) => {
    const origin = origins[name];
    return html`<tr class="hit"><td class="quiet nowrap">${words(name)}</td><td>${shown(value)}${origin?.also?.length ? html`<div class="faint">another source disagrees: ${JSON.stringify(origin.also).slice(0, 160)}</div>` : null}</td>
      <td class="from">${origin ? html`<code title=${origin.page ?? ""}>${origin.source}</code>${locate && wording(value) ? html` <button class="more-link" aria-label=${`Show ${words(name)} in the source`} @click=${(/** @type {Event} */ event) => locate(event, wording(value))}>show</button>` : null}` : html`<span class="faint">–</span>`}</td>
      <td class="num">${typeof origin?.confidence === "number" ? html`${percent(origin.confidence)}<div class=${`meter tone-${origin.confidence >= 0.8 ? "green" : origin.confidence >= 0.5 ? "yellow" : "orange"}`}><i --share=${origin.confidence}></i></div>` : ""}</td></tr>`;
  })}</tbody></table></div>`;
}

/** @param {any} value */
function shown(value) {
  if (value === null || value === undefined || (Array.isArray(value) && !value.length)) return html`<span class="faint">not found</span>`;
  if (typeof value === "string") return value.length > 500 ? html`<details><summary>${value.slice(0, 240)}…</summary>${value}</details>` : value;
  if (typeof value !== "object") return String(value);
  if (Array.isArray(value) && value.every((each) => typeof each === "string")) return value.length > 8 ? html`<details><summary>${value.length} values: ${value.slice(0, 3).join(", ")}…</summary>${value.map((each) => html`<div>${each}</div>`)}</details>` : value.join(", ");
  if (!Array.isArray(value) && typeof value.raw === "string") return html`${value.raw}<div class="faint">${Object.entries(value).filter(([name, each]) => name !== "raw" && each !== null && typeof each !== "object").map(([name, each]) => `${words(name)} ${each}`).join(" · ")}</div>`;
  return html`<details><summary class="quiet">${Array.isArray(value) ? `${value.length} entries` : Object.keys(value).map(words).slice(0, 6).join(", ")}</summary><pre>${JSON.stringify(value, null, 2).slice(0, 20_000)}</pre></details>`;
}

/** The picture from the answer itself, as an object of this page. @param {string} base64 */
function picture(base64) {
  const url = URL.createObjectURL(new Blob([Uint8Array.from(atob(base64), (each) => each.charCodeAt(0))], { type: "image/png" }));
  onEnd(() => URL.revokeObjectURL(url));
  return html`<a href=${url} target="_blank" rel="noopener"><img class="shot" src=${url} alt="Screenshot of the page"></a>`;
}

/** @param {any} data */
const shortened = (data) => ({ ...data, result: Object.fromEntries(Object.entries(data.result).map(([name, value]) => [name, FILES.includes(name) && value ? `${String(value).slice(0, 60)}… (base64)` : value])) });
