// @ts-check
/** Start a job of any pipeline: a form from its parameter schema, the estimate before the start. */

import { post } from "../lib/api.js";
import { duration, money, number, words } from "../lib/format.js";
import { load, whenLoaded } from "../lib/load.js";
import { go, setQuery } from "../lib/router.js";
import { effect, html, signal } from "../lib/view.js";
import { withCode } from "../parts/feedback.js";
import { schemaForm } from "../parts/form.js";
import { sentence } from "../parts/filters.js";
import { copyBox } from "../parts/samples.js";

/** @param {Record<string, string>} _params @param {URLSearchParams} query */
export function page(_params, query) {
  const pipelines = load("/api/v1/pipelines");
  const chosen = signal(query.get("pipeline") ?? "");
  const original = load(() => (query.get("from") ? `/api/v1/jobs/${query.get("from")}` : null));
  effect(() => {
    if (original.state.value.data) chosen.value = original.state.value.data.pipeline;
  });
  return {
    title: "New job",
    body: html`<div class="stack">${whenLoaded(pipelines, (all) => html`
      <div class="chips" role="group" aria-label="Pipeline">${all.map((/** @type {any} */ each) => html`<button class="chip" aria-pressed=${() => String(each.name === chosen.value)} @click=${() => ((chosen.value = each.name), setQuery({ pipeline: each.name, from: "" }))}>${words(each.name)}</button>`)}</div>
      ${() => {
        const pipeline = all.find((/** @type {any} */ each) => each.name === chosen.value);
        if (!pipeline) return html`<div class="kinds">${all.map((/** @type {any} */ each) => html`<button class="panel kind as-button" @click=${() => ((chosen.value = each.name), setQuery({ pipeline: each.name, from: "" }))}><h2>${words(each.name)}</h2><span class="quiet">${each.summary}</span>
          <span class="faint">${each.paid ? "costs money; the price is shown first" : "free"}</span></button>`)}</div>`;
        if (query.get("from") && !original.state.value.data) return html`<div class="skeleton"></div>`;
        return start(pipeline, original.state.value.data?.pipeline === pipeline.name ? original.state.value.data.params : {});
      }}`)}</div>`,
  };
}

/** The parameter that limits what a job may spend, where a pipeline has one. */
const LIMIT = "max_credits";
/** What a job is about, of which one is often enough: at the top of the form. */
const ABOUT = ["urls", "url", "sitemap", "state", "zips", "areas"];
/** How far it goes from there: at the end. */
const REACH = ["depth", "follow"];

/** @param {any} pipeline @param {Record<string, any>} values */
function start(pipeline, values) {
  const estimate = signal(/** @type {any} */ (null));
  const problem = signal("");
  const params = signal(values);
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  let timer;
  let visit = 0;
  async function plan() {
    const mine = ++visit;
    try {
      const answer = await post("/api/v1/jobs/plan", { pipeline: pipeline.name, params: params.peek() });
      if (mine === visit) (estimate.value = answer.data), (problem.value = "");
    } catch (error) {
      if (mine === visit) (estimate.value = null), (problem.value = sentence(error));
    }
  }
  /** @param {Record<string, any>} given */
  const changed = (given) => {
    params.value = given;
    clearTimeout(timer);
    if (pipeline.estimated && pipeline.params.required?.every((/** @type {string} */ name) => name in given)) timer = setTimeout(plan, 400);
  };
  if (Object.keys(values).length) changed(values);
  const hasLimit = LIMIT in (pipeline.params.properties ?? {});
  const dollars = signal("");
  /** The price of one credit, as the last estimate had it. */
  const price = signal(0);
  /** Whole credits that the dollars pay for; the part of one is left out. */
  const credits = () => Math.floor(Number(dollars.value) / price.value + 1e-9);
  const tooLow = () => {
    if (!dollars.value || !price.value || credits() >= 1) return "";
    if (Number.isNaN(credits())) return `“${dollars.value}” is not an amount: write it as 0.50.`;
    return `$${dollars.value} does not pay for one credit, which costs $${Number(price.value.toPrecision(6))}. Give at least that, or no limit.`;
  };
  const inCredits = () => document.querySelector(`form [name=${LIMIT}]`);
  /** A limit in money fills the limit in credits. */
  function fill() {
    const input = inCredits();
    if (!(input instanceof HTMLInputElement) || !price.peek()) return;
    const text = dollars.peek() ? String(Math.max(0, credits() || 0)) : "";
    if (input.value === text) return;
    input.value = text;
    input.dispatchEvent(new InputEvent("input", { bubbles: true }));
  }
  effect(() => {
    const found = Number(estimate.value?.price_per_1000_usd) / 1000;
    if (!found || found === price.peek()) return;
    price.value = found;
    if (dollars.peek()) fill();
  });
  // Whoever types the credits has taken the dollars back.
  /** @param {Event} event */
  const typed = (event) => {
    const input = document.querySelector("[name=limit_usd]");
    if (event.isTrusted && event.target === inCredits() && input instanceof HTMLInputElement) dollars.value = input.value = "";
  };
  const types = pipeline.name === "scrape" ? load("/api/v1/scrape/kinds") : null;
  const typesOf = () => (types?.state.value.data ?? []).map((/** @type {any} */ each) => each.name).sort((/** @type {string} */ a, /** @type {string} */ b) => Number(b === "page") - Number(a === "page"));
  return html`<div class="split" @input=${typed}><section class="panel stack"><p class="quiet">${pipeline.summary}</p>
    ${schemaForm(pipeline.params, {
      values, submit: "Start", changed, first: [...ABOUT, ...(hasLimit ? [LIMIT] : [])], last: REACH, refuse: tooLow,
      kinds: types ? { targets: { name: "target_type", title: "type of the pages", choices: typesOf } } : {}, titles: { [LIMIT]: "price limit, in credits" },
      save: async (given) => {
        const answer = await post("/api/v1/jobs", { pipeline: pipeline.name, params: given });
        await go(`/jobs/${answer.data.id ?? answer.data.job_id}`);
      },
    })}</section>
    <div class="stack sticky"><section class="panel stack"><header><h2>What it will cost</h2></header>
      ${() => (estimate.value ? cost(estimate.value) : problem.value ? html`<div class="quiet">${withCode(problem.value)}</div>` : html`<div class="quiet">${pipeline.estimated ? "Fill in the form: the price appears before anything is sent or spent." : pipeline.paid ? "This pipeline has no estimate; it stops at the limits of its settings." : "Nothing: this pipeline fetches public pages."}</div>`)}
      ${hasLimit ? html`<div ?hidden=${() => !price.value}><label class="field"><span>Price limit in dollars<span class="faint">optional</span></span><input type="text" inputmode="decimal" autocomplete="off" name="limit_usd" placeholder="no limit" @input=${(/** @type {Event} */ event) => ((dollars.value = /** @type {HTMLInputElement} */ (event.target).value.trim()), fill())}>
        ${() => (tooLow() ? html`<span class="error" role="alert">${tooLow()}</span>` : html`<span class="faint">${dollars.value ? `${number(credits())} credits, rounded down. ` : ""}The job stops before it spends more.</span>`)}</label></div>` : null}</section>
    <section class="panel"><header><h2>The same as a command</h2></header>${copyBox(() => `forager jobs add ${pipeline.name} '${JSON.stringify(params.value).replaceAll("'", `'\\''`)}'`)}</section></div></div>`;
}

/** The estimate: money and time first, then what it is made of. @param {Record<string, any>} plan */
function cost(plan) {
  const usd = plan.expected_usd ?? plan.usd;
  const seconds = plan.expected_seconds ?? plan.seconds;
  const requests = plan.queries ?? plan.pages ?? plan.tasks ?? plan.total;
  const details = [usd !== undefined && plan.worst_usd ? `at most ${money(plan.worst_usd)}` : "", seconds !== undefined && seconds !== null ? `about ${duration(Number(seconds))}` : "", requests !== undefined ? `${number(Number(requests))} requests` : ""].filter(Boolean);
  return html`<div data-estimate><div class="figure-large">${usd === undefined ? (details.shift() ?? "free") : money(usd)}</div><div class="quiet">${usd === undefined ? "" : "expected · "}${details.join(" · ")}</div></div>`;
}
