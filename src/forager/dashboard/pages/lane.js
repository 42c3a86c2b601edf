// @ts-check
/** One lane: the rule in force and whose it is, what it waits for, and a form to change the rule. */

import { patch, post, remove } from "../lib/api.js";
import { ago, moment, utc, words } from "../lib/format.js";
import { load, whenLoaded } from "../lib/load.js";
import { html, signal } from "../lib/view.js";
import { act } from "../parts/feedback.js";
import { tag } from "../parts/states.js";

/** @param {{ name: string }} params */
export function page({ name }) {
  const path = `/api/v1/lanes/${encodeURIComponent(name)}`;
  const lane = load(path, { every: 10 });
  const problem = signal("");
  /** @param {SubmitEvent} event */
  const save = (event) => {
    event.preventDefault();
    const form = new FormData(/** @type {HTMLFormElement} */ (event.target));
    const body = Object.fromEntries([...form].filter(([, value]) => value !== "").map(([key, value]) => [key, Number(value)]));
    problem.value = "";
    patch(`${path}/rules`, body).then(lane.again, (error) => (problem.value = error.message));
  };
  return {
    title: name,
    state: html`<span>${() => (lane.state.value.data?.paused ? tag("paused") : null)}</span>`,
    actions: html`<span class="row">${() => (lane.state.value.data ? html`<button class="button writes" @click=${(/** @type {Event} */ event) => act(event, () => post(`${path}/${lane.state.peek().data.paused ? "resume" : "pause"}`).then(lane.again))}>${lane.state.value.data.paused ? "Resume" : "Pause"}</button>` : null)}</span>`,
    body: html`<div class="split">
      <section class="panel">${whenLoaded(lane, (data) => html`<div class="stack">
        ${data.waiting ? html`<div class="notice warn">${data.waiting.message}</div>` : null}
        <dl class="pairs"><dt>Owner</dt><dd>${data.owner ?? "nobody"}</dd><dt>Used by</dt><dd>${(data.used_by ?? []).join(", ") || "–"}</dd>
          <dt>Next request</dt><dd title=${utc(data.next_at)}>${data.next_at ? ago(data.next_at) : "at once"}</dd><dt>Breaker</dt><dd>${data.breaker ? html`${tag(data.breaker.state)} <span class="quiet">${data.breaker.reason ?? ""}</span>` : "closed"}</dd>
          <dt>robots.txt delay</dt><dd>${data.crawl_delay_seconds === null ? "none" : `${data.crawl_delay_seconds} s`}</dd><dt>Open now</dt><dd>${data.open_now ? "yes" : `opens ${moment(data.opens_at)}`}</dd></dl>
        <div class="notice ok">${data.pace?.message ?? ""}</div>
        <h2>Rules in force</h2><div class="scroll"><table><thead><tr><th>Rule</th><th>Value</th><th>Whose</th></tr></thead><tbody>${Object.entries(data.rules ?? {}).map(([key, rule]) => html`<tr><td>${words(key)}</td>
          <td>${ruleText(/** @type {any} */ (rule).value)}</td><td>${tag(/** @type {any} */ (rule).by === "operator" ? "paused" : "", /** @type {any} */ (rule).by)} <span class="faint">${/** @type {any} */ (rule).where}</span></td></tr>`)}</tbody></table></div></div>`)}</section>
      <section class="panel writes"><header><h2>Change the rules</h2></header><form class="stack" @submit=${save}>
        <label class="field"><span>Requests</span><input type="number" name="tokens_per_interval" min="0" step="any"></label><label class="field"><span>per seconds</span><input type="number" name="interval_seconds" min="0" step="any"></label>
        <label class="field"><span>At the same time</span><input type="number" name="max_concurrent_requests" min="1"></label>
        ${() => (problem.value ? html`<div class="notice" role="alert">${problem.value}</div>` : null)}
        <div class="row"><button class="button primary">Save</button><button class="button writes" type="button" @click=${(/** @type {Event} */ event) => act(event, () => remove(`${path}/rules`).then(lane.again), "Only the policy holds now.")}>Clear overrides</button></div></form></section></div>`,
  };
}

/** @param {any} value */
const ruleText = (value) => (value === null || value === undefined ? "–" : typeof value === "boolean" ? (value ? "yes" : "no") : Array.isArray(value) ? value.join(", ") || "none" : typeof value === "object" ? `${value.start}:00 to ${value.end}:00` : String(value));
