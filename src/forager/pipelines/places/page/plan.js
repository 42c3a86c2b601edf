// @ts-check
/** Plan a job: what it will cost is shown while the form is filled; nothing is spent before Start. */

import { ApiError, post } from "/dashboard/lib/api.js";
import { duration, money, number, words } from "/dashboard/lib/format.js";
import { go } from "/dashboard/lib/router.js";
import { html, signal } from "/dashboard/lib/view.js";
import { sections } from "./sections.js";

/** @param {URLSearchParams} query */
export function planPage(query) {
  const plan = signal(/** @type {any} */ (null));
  const errors = signal(/** @type {Record<string, string>} */ ({}));
  const problem = signal("");
  const busy = signal(false);
  const pending = signal(false);
  let visit = 0;
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  let timer;
  /** @param {HTMLFormElement} form */
  const read = (form) => {
    const given = new FormData(form);
    const text = (/** @type {string} */ name) => String(given.get(name) ?? "").trim();
    const zips = text("zips").split(/[\s,;]+/).filter(Boolean);
    return {
      keyword: text("keyword"), pages: Number(text("pages")) || 1, ...(zips.length ? { zips } : text("state") ? { state: text("state") } : {}),
      ...(text("max_credits") ? { max_credits: Number(text("max_credits")) } : {}),
    };
  };
  /** @param {unknown} error */
  const fail = (error) => {
    errors.value = error instanceof ApiError ? error.fields : {};
    const named = Object.keys(errors.peek()).some((name) => ["keyword", "state", "zips", "pages", "max_credits"].includes(name.split(/[.[]/)[0] ?? ""));
    problem.value = named ? "" : error instanceof Error ? error.message : String(error);
  };
  /** @param {HTMLFormElement} form */
  async function estimate(form) {
    const mine = ++visit;
    const params = read(form);
    if (!params.keyword || !("zips" in params || "state" in params)) return void ((plan.value = null), (errors.value = {}), (problem.value = ""));
    pending.value = true;
    try {
      const answer = await post("/api/v1/places/plan", params);
      if (mine !== visit) return;
      [plan.value, errors.value, problem.value] = [answer.data, {}, ""];
    } catch (error) {
      if (mine !== visit) return;
      plan.value = null;
      fail(error);
    } finally {
      if (mine === visit) pending.value = false;
    }
  }
  /** @param {Event} event */
  const typed = (event) => {
    const form = /** @type {HTMLFormElement} */ (event.currentTarget);
    clearTimeout(timer);
    timer = setTimeout(() => estimate(form), 350);
  };
  /** @param {SubmitEvent} event */
  async function start(event) {
    event.preventDefault();
    busy.value = true;
    try {
      const made = await post("/api/v1/places/jobs", read(/** @type {HTMLFormElement} */ (event.currentTarget)));
      await go(`/jobs/${made.data.job_id}`);
    } catch (error) {
      fail(error);
    } finally {
      busy.value = false;
    }
  }
  /** @param {string} name @param {string} label @param {string} help @param {Record<string, any>} [more] */
  const field = (name, label, help, { value = query.get(name) ?? "", numeric = false, placeholder = "" } = {}) => html`<label class="field"><span>${label}</span>
    <input type=${numeric ? "number" : "text"} name=${name} min=${numeric ? "1" : null} placeholder=${placeholder} .value=${value}>
    <span class="faint">${help}</span>${() => (message(errors.value, name) ? html`<span class="error" role="alert">${message(errors.value, name)}</span>` : null)}</label>`;
  const body = html`<div class="split even"><section class="panel"><form class="stack" novalidate @input=${typed} @submit=${start}>
      ${field("keyword", "What", "As you would type it into a map.", { placeholder: "coffee shops" })}
      ${field("state", "Where: a state", "Two letters, every ZIP of it.", { placeholder: "AZ" })}
      ${field("zips", "… or ZIP codes", "Five digits each, separated by spaces.", { placeholder: "85001 85002" })}
      ${field("pages", "Pages per ZIP", "At most ten places each; a ZIP ends with its first page that is not full.", { value: query.get("pages") ?? "3", numeric: true })}
      ${field("max_credits", "Stop at", "Credits; the job pauses before it spends more. Optional.", { numeric: true })}
      ${() => (problem.value ? html`<div class="notice" role="alert">${problem.value}</div>` : null)}
      <div class="row"><button class="button primary" ?disabled=${() => busy.value || !plan.value}>${() => (plan.value ? `Start for about ${money(plan.value.expected_usd)}` : "Start")}</button></div></form></section>
      <section class="panel"><header><h2>What it will cost</h2></header>${() => (plan.value ? told(plan.value) : pending.value ? html`<div class="skeleton"></div>` : html`<div class="empty"><p>Say what and where. Nothing is sent or spent before you press Start.</p></div>`)}</section></div>`;
  const form = body.querySelector("form");
  if (form) setTimeout(() => estimate(form));
  return { title: "Places", state: sections("plan"), body };
}

/** @param {Record<string, string>} errors @param {string} name */
const message = (errors, name) => Object.entries(errors).find(([path]) => path === name || path.startsWith(`${name}.`) || path.startsWith(`${name}[`))?.[1] ?? "";

/** @param {any} plan */
function told(plan) {
  const share = plan.worst_credits ? plan.expected_credits / plan.worst_credits : 0;
  return html`<div class="stack"><div class="hero-figure"><div class="figure-large">${money(plan.expected_usd)}</div><div class="quiet">expected, at most ${money(plan.worst_usd)} · about ${duration(plan.expected_seconds)}</div></div>
    <div class="bar"><i --share=${share}></i></div>
    <dl class="pairs"><dt>ZIPs</dt><dd>${number(plan.zips)}, up to ${plan.pages} pages each</dd><dt>Queries</dt><dd>${number(plan.queries)} at most</dd>
      <dt>Credits</dt><dd>${number(plan.expected_credits)} expected, ${number(plan.worst_credits)} at most</dd>
      <dt>Known from before</dt><dd>${number(plan.zips_with_history)} ZIPs; for the others 60 % full pages are assumed</dd>
      <dt>Price</dt><dd>${money(plan.price_per_1000_usd)} per 1,000 credits${plan.package ? ` (${plan.package})` : ""}</dd>
      <dt>Limited by</dt><dd>${words(plan.binds)}</dd></dl></div>`;
}
