// @ts-check
/** A form from a JSON Schema: one field for each property, the API's message beside the field that it names. */

import { ApiError } from "../lib/api.js";
import { words } from "../lib/format.js";
import { html, signal } from "../lib/view.js";
import { withCode } from "./feedback.js";

/** @typedef {{ type?: string | string[], title?: string, description?: string, enum?: any[], anyOf?: any[], default?: any, format?: string, items?: any, $ref?: string }} Property */
/** @typedef {{ properties?: Record<string, Property>, required?: string[], $defs?: Record<string, any> }} Schema */

/** Fields that are seen at once; the others are behind "more options". */
const SHOWN = 10;

/**
 * @param {Schema} schema
 * @param {{ save: (values: Record<string, any>) => Promise<unknown>, submit: string, problem?: import("../lib/view.js").Signal<string>,
 *           extra?: Record<string, Property>, optional?: string[], values?: Record<string, any>, first?: string[], titles?: Record<string, string>, changed?: (values: Record<string, any>) => void }} options
 * `extra`: fields before those of the schema; all but `optional` are required. `changed` gets the values while a person types; `first`: optional fields that are not hidden among the further options.
 */
export function schemaForm(schema, { save, submit, problem = signal(""), extra = {}, optional = [], values = {}, first: early = [], titles = {}, changed }) {
  const fields = { ...extra, ...(schema.properties ?? {}) };
  const required = [...Object.keys(extra).filter((name) => !optional.includes(name)), ...(schema.required ?? [])];
  const errors = signal(/** @type {Record<string, string>} */ ({}));
  const busy = signal(false);
  /** @type {HTMLFormElement | null} */
  let form = null;
  const read = () => (form ? collect(form, fields, schema) : values);
  /** @param {SubmitEvent} event */
  async function send(event) {
    event.preventDefault();
    form = /** @type {HTMLFormElement} */ (event.target);
    busy.value = true;
    problem.value = "";
    errors.value = {};
    try {
      await save(read());
    } catch (error) {
      errors.value = error instanceof ApiError ? error.fields : {};
      const named = Object.keys(errors.peek()).filter((name) => name.split(/[.[]/)[0]?.replace(/^(params|options|body)$/, "") in fields);
      if (named.length === 0) problem.value = error instanceof Error ? error.message : String(error);
      else problem.value = "";
    } finally {
      busy.value = false;
    }
  }
  const ordered = Object.entries(fields).sort(([a], [b]) => Number(required.includes(b)) - Number(required.includes(a)));
  /** @param {string} name */
  const wanted = (name) => required.includes(name) || name in values || early.includes(name);
  const shown = ordered.filter(([name]) => wanted(name)).concat(ordered.filter(([name]) => !wanted(name)));
  const [first, rest] = [shown.slice(0, SHOWN), shown.slice(SHOWN)];
  /** @param {[string, Property]} entry */
  const row = ([name, property]) => field(name, titles[name] ?? words(name), property, schema, required.includes(name), values[name] ?? property.default, () => messageFor(errors.value, name));
  return html`<form class="stack" novalidate @submit=${send} @input=${(/** @type {Event} */ event) => ((form = /** @type {HTMLFormElement} */ (event.currentTarget)), changed?.(read()))}>
    <div class="two">${first.map(row)}</div>
    ${rest.length ? html`<details><summary class="quiet">${rest.length} more options</summary><div class="two">${rest.map(row)}</div></details>` : null}
    ${() => (problem.value ? html`<div class="notice" role="alert">${problem.value}</div>` : null)}
    <div class="row"><button class="button primary" ?disabled=${() => busy.value}>${submit}</button></div></form>`;
}

/** @param {Record<string, string>} errors @param {string} name */
function messageFor(errors, name) {
  const found = Object.entries(errors).find(([path]) => path === name || path.endsWith(`.${name}`) || path.startsWith(`${name}[`) || path.startsWith(`${name}.`));
  return found?.[1] ?? "";
}

/** @param {Property} property @param {Schema} schema @returns {Property} */
function plain(property, schema) {
  let found = property.$ref ? { ...(schema.$defs?.[property.$ref.split("/").at(-1) ?? ""] ?? {}), ...property } : property;
  if (found.anyOf) {
    const real = found.anyOf.filter((/** @type {any} */ each) => each.type !== "null");
    found = { ...plain(real[0] ?? {}, schema), title: found.title, description: found.description, default: found.default };
  }
  return /** @type {Property} */ (found);
}

/** @param {string} name @param {string} title @param {Property} property @param {Schema} schema @param {boolean} required @param {any} value @param {() => string} error */
function field(name, title, property, schema, required, value, error) {
  const kind = plain(property, schema);
  const text = value === null || value === undefined ? "" : typeof value === "object" ? (Array.isArray(value) && value.every((each) => typeof each !== "object") ? value.join("\n") : JSON.stringify(value)) : String(value);
  const label = html`<span>${title}${required ? "" : html` <span class="faint">optional</span>`}</span>`;
  const help = property.description ?? kind.description;
  const below = html`${help ? html`<span class="faint">${withCode(help.split("\n")[0] ?? "")}</span>` : null}${() => (error() ? html`<span class="error" role="alert">${error()}</span>` : null)}`;
  if (kind.enum) return html`<label class="field">${label}<select name=${name}>${required ? null : html`<option value=""></option>`}${kind.enum.map((each) => html`<option value=${String(each)} ?selected=${String(each) === text}>${String(each)}</option>`)}</select>${below}</label>`;
  if (kind.type === "boolean") return html`<label class="field"><span class="row"><input type="checkbox" name=${name} .checked=${value === true}> ${title}</span>${below}</label>`;
  if (kind.type === "array" || kind.type === "object") return html`<label class=${`field ${kind.type === "object" ? "full" : ""}`}>${label}<textarea name=${name} class=${kind.type === "array" ? "lines" : ""} rows=${kind.type === "array" ? "1" : "3"} placeholder=${kind.type === "array" ? "one per line" : "{}"} .value=${text}></textarea>${below}</label>`;
  const numeric = kind.type === "integer" || kind.type === "number";
  return html`<label class="field">${label}<input type=${numeric ? "number" : kind.format === "password" ? "password" : "text"} autocomplete="off" step="any" name=${name} .value=${text}>${below}</label>`;
}

/** @param {HTMLFormElement} form @param {Record<string, Property>} fields @param {Schema} schema */
function collect(form, fields, schema) {
  /** @type {Record<string, any>} */
  const values = {};
  const given = new FormData(form);
  for (const [name, property] of Object.entries(fields)) {
    const kind = plain(property, schema);
    const text = String(given.get(name) ?? "").trim();
    if (kind.type === "boolean") values[name] = given.has(name);
    else if (text === "") continue;
    else if (kind.type === "integer" || kind.type === "number") values[name] = Number.isNaN(Number(text)) ? text : Number(text);
    else if (kind.type === "array") values[name] = text.startsWith("[") ? parsed(text) : text.split(/[\n,]+/).map((each) => each.trim()).filter(Boolean);
    else if (kind.type === "object") values[name] = parsed(text);
    else values[name] = text;
  }
  return values;
}

/** @param {string} text */
function parsed(text) {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}
