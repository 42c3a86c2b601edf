// @ts-check
/** Filters above a list, as pills that say what is chosen ("Beds 2"). Their values are in the address of the page. */

import { ApiError } from "../lib/api.js";
import { words } from "../lib/format.js";
import { setQuery } from "../lib/router.js";
import { html, signal } from "../lib/view.js";

/** @typedef {{ values: import("../lib/view.js").Signal<Record<string, string>>, set: (name: string, value: string) => void, clear: () => void }} Filters */
/** @typedef {readonly [value: string, title: string]} Choice */

/** @param {readonly string[]} names @param {URLSearchParams} query @returns {Filters} */
export function filtersFrom(names, query) {
  const given = [...query].filter(([name]) => names.includes(name));
  const values = signal(/** @type {Record<string, string>} */ (Object.fromEntries(given)));
  /** @param {Record<string, string>} changes */
  const write = (changes) => {
    values.value = Object.fromEntries(Object.entries({ ...values.peek(), ...changes }).filter(([, value]) => value !== ""));
    setQuery(changes);
  };
  return { values, set: (name, value) => write({ [name]: value }), clear: () => write(Object.fromEntries(names.map((name) => [name, ""]))) };
}

/** One value of a few. @param {Filters} filters @param {string} name @param {string} label @param {readonly Choice[] | (() => readonly Choice[])} choices */
export function pickFilter(filters, name, label, choices) {
  const options = () => (typeof choices === "function" ? choices() : choices).map(([value, title]) => html`<option value=${value} ?selected=${(filters.values.peek()[name] ?? "") === value}>${title}</option>`);
  return html`<label class=${() => `pill ${filters.values.value[name] ? "on" : ""}`}><span>${label}</span>
    <select aria-label=${label} @change=${(/** @type {Event} */ event) => filters.set(name, /** @type {HTMLSelectElement} */ (event.target).value)}>${options}</select></label>`;
}

/**
 * A value that is typed; it holds after a short pause.
 * @param {Filters} filters @param {string} name @param {string} label
 * `whole`: how a complete value looks; until it does, nothing is asked.
 * @param {{ placeholder?: string, numeric?: boolean, before?: string, after?: string, wide?: boolean, whole?: RegExp }} [options]
 */
export function typeFilter(filters, name, label, { placeholder = "any", numeric = false, before = "", after = "", wide = false, whole } = {}) {
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  let timer;
  /** @param {Event} event */
  const typed = (event) => {
    clearTimeout(timer);
    const { value } = /** @type {HTMLInputElement} */ (event.target);
    const wanted = numeric ? value.replace(/[^\d.]/g, "") : value.trim();
    if (!wanted || !whole || whole.test(wanted)) timer = setTimeout(() => filters.set(name, wanted), 250);
  };
  return html`<label class=${() => `pill ${wide ? "wide" : ""} ${filters.values.value[name] ? "on" : ""}`}><span>${label}</span>${before ? html`<b>${before}</b>` : null}
    <input type=${wide ? "search" : "text"} inputmode=${numeric ? "numeric" : "text"} aria-label=${label} placeholder=${placeholder} .value=${filters.values.peek()[name] ?? ""} @input=${typed}>
    ${after ? html`<span>${after}</span>` : null}</label>`;
}

/** Values with how often they occur; the chosen one can be taken back. @param {Filters} filters @param {string} name @param {string} label @param {() => readonly (readonly [string, number])[]} counts @param {(value: string) => string} [show] */
export function facet(filters, name, label, counts, show = (value) => value) {
  const all = signal(false);
  return html`<section class="facet"><h2>${label}</h2>${() => {
    const chosen = filters.values.value[name] ?? "";
    const found = counts();
    const rows = chosen && !found.some(([value]) => value === chosen) ? [/** @type {const} */ ([chosen, 0]), ...found] : found;
    if (!rows.length) return html`<span class="faint">none</span>`;
    const top = Math.max(1, ...rows.map(([, count]) => count));
    return html`${(all.value ? rows : rows.slice(0, 6)).map(([value, count]) => html`<button class="facet-row" aria-pressed=${String(value === chosen)} --share=${count / top}
      @click=${() => filters.set(name, value === chosen ? "" : value)}><span class="clip">${show(value)}</span><span class="count">${count ? String(count) : "×"}</span></button>`)}
      ${rows.length > 6 ? html`<button class="more-link" @click=${() => (all.value = !all.value)}>${all.value ? "fewer" : `${rows.length - 6} more`}</button>` : null}`;
  }}</section>`;
}

/** Why a list could not be read: the API's sentence, with what it says of each field. @param {unknown} problem */
export function sentence(problem) {
  if (!(problem instanceof Error)) return String(problem);
  const fields = problem instanceof ApiError ? Object.entries(problem.fields).map(([name, message]) => (WHOLE.test(name) ? message : `${called(name)} ${message}`)) : [];
  const said = fields.join("; ");
  return said ? `${said.slice(0, 1).toUpperCase()}${said.slice(1)}${/[.?!]$/.test(said) ? "" : "."}` : problem.message;
}

/** The name of a field for people; that of an entry of a list (`targets.1.target_url`) counts from 1. @param {string} name */
function called(name) {
  const [, list, entry] = name.match(/^(\w+)[.[](\d+)/) ?? [];
  return entry ? `${words(list ?? "")}, entry ${Number(entry) + 1}:` : words(name);
}

/** What the API calls the request as a whole, where a message is of no single field. */
export const WHOLE = /^(body|params|options|)$/;
