// @ts-check
/** How far each ZIP of a job was read: to its end, cut off at the last allowed page, or empty. */

import { ago, number, plural } from "/dashboard/lib/format.js";
import { load, whenLoaded } from "/dashboard/lib/load.js";
import { go, setQuery } from "/dashboard/lib/router.js";
import { html, signal } from "/dashboard/lib/view.js";
import { jobName } from "/dashboard/parts/states.js";
import { sections } from "./sections.js";

const STATES = /** @type {Record<string, [title: string, about: string]>} */ ({
  complete: ["read to the end", "the last page was not full"],
  cut_off: ["cut off", "every allowed page was full: there may be more places"],
  empty: ["empty", "no place was found"],
  failed: ["failed", "a page could not be read"],
  open: ["not read yet", "the job is still at work, or was stopped"],
});
const CLASSES = /** @type {Record<string, string>} */ ({ complete: "full", cut_off: "cut", empty: "", failed: "failed", open: "part" });

/** @param {URLSearchParams} query */
export function coveragePage(query) {
  const job = signal(query.get("job") ?? "");
  const only = signal("");
  const jobs = load("/api/v1/jobs", { query: { pipeline: "places", limit: 50 } });
  const coverage = load("/api/v1/places/coverage", { query: () => ({ job: job.value }) });
  return {
    title: "Places",
    state: sections("coverage"),
    body: html`<div><div class="filters"><label class="pill"><span>Job</span><select aria-label="Job" @change=${(/** @type {Event} */ event) => ((job.value = /** @type {HTMLSelectElement} */ (event.target).value), setQuery({ job: job.peek() }))}>
        <option value="">newest</option>${() => (jobs.state.value.data ?? []).map((/** @type {any} */ each) => html`<option value=${each.id} ?selected=${each.id === job.peek()}>${jobName(each)}, ${ago(each.created_at)}</option>`)}</select></label></div>
      ${whenLoaded(coverage, (data) => shown(data, only))}</div>`,
  };
}

/** @param {any} data @param {import("/dashboard/lib/view.js").Signal<string>} only */
function shown(data, only) {
  /** @type {any[]} */
  const zips = data.zips;
  if (!zips.length) return html`<div class="panel empty"><p>The tasks of this job are not kept any more.</p></div>`;
  const count = (/** @type {string} */ state) => zips.filter((each) => each.state === state).length;
  const places = zips.reduce((sum, each) => sum + each.places, 0);
  return html`<div class="stack">
    <div class="cards"><div class="panel card"><div class="label">ZIPs</div><div class="figure">${number(zips.length)}</div><div class="quiet">${plural(places, "place")} on their pages</div></div>
      ${Object.entries(STATES).filter(([state]) => count(state)).map(([state, [title, about]]) => html`<button class="panel card as-button" aria-pressed=${() => String(only.value === state)} title=${about} @click=${() => (only.value = only.peek() === state ? "" : state)}>
        <div class="label"><i class=${`swatch-box ${CLASSES[state]}`}></i>${title}</div><div class="figure">${number(count(state))}</div><div class="quiet">${about}</div></button>`)}</div>
    <section class="panel"><header><h2>ZIP by ZIP</h2><span class="faint">in the order of the codes; click one to see its places</span></header>
      <div class="heat" role="img" aria-label="One square for each ZIP, coloured by its state">${zips.map((each) => html`<i class=${() => `${CLASSES[each.state]} ${only.value && only.value !== each.state ? "off" : ""}`} title=${`${each.zip}: ${plural(each.places, "place")} on ${each.read} of ${plural(each.pages, "page")}, ${STATES[each.state]?.[0]}`}
        @click=${() => go(`/places?zip=${each.zip}`)}></i>`)}</div></section>
    ${() => list(zips.filter((each) => (only.value ? each.state === only.value : each.state === "cut_off" || each.state === "failed")), only.value)}
  </div>`;
}

/** @param {any[]} rows @param {string} state */
function list(rows, state) {
  if (!rows.length) return null;
  return html`<section class="panel"><header><h2>${state ? STATES[state]?.[0] : "Where more pages would help"}</h2><span class="faint">${plural(rows.length, "ZIP")}</span></header>
    <div class="long"><table><thead><tr><th>ZIP</th><th class="num">Pages read</th><th class="num">Full</th><th class="num">Places</th><th>State</th></tr></thead><tbody>${rows.slice(0, 300).map((each) => html`<tr class="hit"><td><a class="strong" href=${`/places?zip=${each.zip}`}>${each.zip}</a></td>
      <td class="num">${each.read} of ${each.pages}</td><td class="num">${each.full}</td><td class="num">${number(each.places)}</td><td class="quiet">${STATES[each.state]?.[0]}</td></tr>`)}</tbody></table></div></section>`;
}
