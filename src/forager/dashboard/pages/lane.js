// @ts-check
/** One lane: the rule in force and whose it is, what it waits for, and a form to change the rule. */

import { patch, post, remove } from "../lib/api.js";
import { ago, moment, rate, utc, words } from "../lib/format.js";
import { load, whenLoaded } from "../lib/load.js";
import { html, signal } from "../lib/view.js";
import { act, toast } from "../parts/feedback.js";
import { tag } from "../parts/states.js";

/** @param {{ name: string }} params */
export function page({ name }) {
  const path = `/api/v1/lanes/${encodeURIComponent(name)}`;
  const lane = load(path, { every: 10 });
  const problem = signal("");
  const errors = signal(/** @type {Record<string, string>} */ ({}));
  /** @param {SubmitEvent} event */
  const save = (event) => {
    event.preventDefault();
    const form = new FormData(/** @type {HTMLFormElement} */ (event.target));
    const text = (/** @type {string} */ name) => String(form.get(name) ?? "").trim();
    /** @type {Record<string, unknown>} */
    const body = {};
    for (const [key] of NUMBERS) if (text(key) !== "") body[key] = Number(text(key));
    if (text("from") !== "" && text("to") !== "") body.allowed_hours = { start: Number(text("from")), end: Number(text("to")) };
    if (text("respect_robots_txt") !== "") body.respect_robots_txt = text("respect_robots_txt") === "yes";
    [problem.value, errors.value] = ["", {}];
    patch(`${path}/rules`, body).then(() => (toast("The rules hold from now on."), lane.again()), (error) => {
      errors.value = error.fields ?? {};
      problem.value = Object.keys(errors.peek()).length ? "" : error.message;
    });
  };
  /** @param {string} key */
  const wrong = (key) => () => {
    const found = Object.entries(errors.value).find(([field]) => field.includes(key));
    return found ? html`<span class="error" role="alert">${found[1]}</span>` : null;
  };
  /** @param {string} key */
  const inForce = (key) => () => {
    const rule = lane.state.value.data?.rules?.[key];
    return rule ? html`<span class="faint">now ${ruleText(rule.value)}, ${rule.by === "operator" ? "set by an operator" : `by the ${rule.by}`}</span>` : null;
  };
  return {
    title: name,
    state: html`<span>${() => (lane.state.value.data?.paused ? tag("paused") : null)}</span>`,
    actions: html`<span class="row">${() => (lane.state.value.data ? html`<button class="button writes" @click=${(/** @type {Event} */ event) => act(event, () => post(`${path}/${lane.state.peek().data.paused ? "resume" : "pause"}`).then(lane.again))}>${lane.state.value.data.paused ? "Resume" : "Pause"}</button>` : null)}</span>`,
    body: html`<div class="split">
      <section class="panel">${whenLoaded(lane, (data) => html`<div class="stack">
        ${data.waiting ? html`<div class="notice warn">${data.waiting.message}</div>` : null}
        ${data.pace?.seconds && data.per_second !== null ? used(data) : null}
        <dl class="pairs"><dt>Owner</dt><dd>${data.owner ?? "no worker now"}</dd><dt>Used by</dt><dd>${(data.used_by ?? []).join(", ") || "–"}</dd>
          <dt>Next request</dt><dd title=${utc(data.next_at)}>${data.next_at ? ago(data.next_at) : "at once"}</dd><dt>Breaker</dt><dd>${data.breaker ? html`${tag(data.breaker.state)} <span class="quiet">${data.breaker.reason ?? ""}</span>` : "closed"}</dd>
          <dt>robots.txt delay</dt><dd>${data.crawl_delay_seconds === null ? "none" : `${data.crawl_delay_seconds} s`}</dd><dt>Open now</dt><dd>${data.open_now ? "yes" : `opens ${moment(data.opens_at)}`}</dd></dl>
        <div class="notice ok">${data.pace?.message ?? ""}</div>
        <h2>Rules in force</h2><div class="scroll"><table><thead><tr><th>Rule</th><th>Value</th><th>Whose</th></tr></thead><tbody>${Object.entries(data.rules ?? {}).map(([key, rule]) => html`<tr><td>${words(key)}</td>
          <td>${ruleText(/** @type {any} */ (rule).value)}</td><td>${tag(/** @type {any} */ (rule).by === "operator" ? "paused" : "", /** @type {any} */ (rule).by)} <span class="faint">${/** @type {any} */ (rule).where}</span></td></tr>`)}</tbody></table></div></div>`)}</section>
      <section class="panel writes"><header><h2>Change the rules</h2></header><form class="stack" @submit=${save}>
        ${NUMBERS.map(([key, title]) => html`<label class="field"><span>${title}</span><input type="number" name=${key} min="0" step="any">${inForce(key)}${wrong(key)}</label>`)}
        <div class="two"><label class="field"><span>Only from</span><input type="number" name="from" min="0" max="23" placeholder="any hour"></label><label class="field"><span>to, in UTC</span><input type="number" name="to" min="0" max="24"></label></div>${wrong("allowed_hours")}
        ${() => (lane.state.value.data?.kind === "site" ? html`<label class="field"><span>robots.txt</span><select name="respect_robots_txt"><option value="">as it is</option><option value="yes">obey it</option><option value="no">ignore it, with permission</option></select>${inForce("respect_robots_txt")}</label>` : null)}
        ${() => (problem.value ? html`<div class="notice" role="alert">${problem.value}</div>` : null)}
        <div class="row"><button class="button primary">Save</button><button class="button writes" type="button" @click=${(/** @type {Event} */ event) => act(event, () => remove(`${path}/rules`).then(lane.again), "Only the policy holds now.")}>Clear overrides</button></div></form></section></div>`,
  };
}

const NUMBERS = /** @type {const} */ ([["tokens_per_interval", "Requests"], ["interval_seconds", "per this many seconds"], ["max_concurrent_requests", "At the same time"], ["crawl_delay_seconds", "Pause between two, in seconds"]]);

/** The rate that is used of the rate that is allowed. @param {any} data */
function used(data) {
  const allowed = 1 / data.pace.seconds;
  const share = Math.min(1, data.per_second / allowed);
  return html`<div data-used><div class="bar" role="img" aria-label=${`${rate(data.per_second)} of ${rate(allowed)} allowed`}><i --share=${share}></i></div><div class="quiet">${data.per_second ? rate(data.per_second) : "nothing"} of ${rate(allowed)} allowed, over the last half minute in this process</div></div>`;
}

/** @param {any} value */
const ruleText = (value) => (value === null || value === undefined ? "–" : typeof value === "boolean" ? (value ? "yes" : "no") : Array.isArray(value) ? value.join(", ") || "none" : typeof value === "object" ? `${value.start}:00 to ${value.end}:00` : String(value));
