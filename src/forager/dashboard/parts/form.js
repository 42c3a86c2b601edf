// @ts-check
/** A form from a JSON Schema: one field for each property, the API's message beside the field that it names. */

import { ApiError } from "../lib/api.js";
import { words } from "../lib/format.js";
import { html, signal } from "../lib/view.js";
import { withCode } from "./feedback.js";
import { sentence, WHOLE } from "./filters.js";

/** @typedef {{ type?: string | string[], title?: string, description?: string, enum?: any[], anyOf?: any[], default?: any, format?: string, items?: any, $ref?: string, properties?: Record<string, Property>, required?: string[] }} Property */
/** @typedef {{ properties?: Record<string, Property>, required?: string[], $defs?: Record<string, any> }} Schema */

/** @typedef {{ name: string, title: string, choices: () => string[] }} Kind */

/** Fields that are seen at once; the others are behind "more options". */
const SHOWN = 10;

/**
 * @param {Schema} schema
 * @param {{ save: (values: Record<string, any>) => Promise<unknown>, submit: string, problem?: import("../lib/view.js").Signal<string>,
 *           extra?: Record<string, Property>, optional?: string[], values?: Record<string, any>, first?: string[], last?: string[], titles?: Record<string, string>,
 *           kinds?: Record<string, Kind>, refuse?: () => string, changed?: (values: Record<string, any>) => void }} options
 * `extra`: fields before those of the schema; all but `optional` are required. `changed` gets the values while a person types; `first`: optional fields that are not hidden among the further options,
 * in this order after the required ones; `last`: those at the end of what is seen at once. `kinds`: by list of addresses, a field of its entries that is chosen once for all of them.
 * `refuse`: why the form cannot be sent as it is.
 */
export function schemaForm(schema, { save, submit, problem = signal(""), extra = {}, optional = [], values = {}, first: early = [], last: late = [], titles = {}, kinds = {}, refuse, changed }) {
  const fields = { ...extra, ...(schema.properties ?? {}) };
  const required = [...Object.keys(extra).filter((name) => !optional.includes(name)), ...(schema.required ?? [])];
  const errors = signal(/** @type {Record<string, string>} */ ({}));
  const busy = signal(false);
  /** @type {HTMLFormElement | null} */
  let form = null;
  const read = () => (form ? collect(form, fields, schema, kinds) : values);
  /** @param {SubmitEvent} event */
  async function send(event) {
    event.preventDefault();
    form = /** @type {HTMLFormElement} */ (event.target);
    errors.value = {};
    problem.value = refuse?.() ?? "";
    if (problem.peek()) return;
    busy.value = true;
    try {
      await save(read());
    } catch (error) {
      errors.value = error instanceof ApiError ? error.fields : {};
      const named = Object.keys(errors.peek()).filter((path) => (path.split(/[.[]/)[0] ?? "") in fields);
      problem.value = named.length ? "" : sentence(error);
      setTimeout(() => form?.querySelector(".error")?.scrollIntoView({ block: "nearest" }));
    } finally {
      busy.value = false;
    }
  }
  /** @param {string} name */
  const rank = (name) => (required.includes(name) ? -1 : early.includes(name) ? early.indexOf(name) : name in values ? early.length : early.length + 1);
  const ordered = Object.entries(fields).sort(([a], [b]) => rank(a) - rank(b));
  const closing = ordered.filter(([name]) => late.includes(name) && !required.includes(name)).sort(([a], [b]) => late.indexOf(a) - late.indexOf(b));
  const others = ordered.filter((entry) => !closing.includes(entry));
  const room = SHOWN - closing.length;
  const [first, rest] = [others.slice(0, room).concat(closing), others.slice(room)];
  /** What the API says of the whole is shown beside the first field that it names, too. @param {string} name */
  const saidOf = (name) => messageFor(errors.value, name) || (Object.entries(errors.value).find(([path, text]) => WHOLE.test(path) && first.concat(rest).find(([each]) => text.includes(`\`${each}\``))?.[0] === name)?.[1] ?? "");
  /** @param {[string, Property]} entry */
  const row = ([name, property]) => field(name, titles[name] ?? words(name), property, schema, required.includes(name), values[name] ?? property.default, () => saidOf(name), kinds[name]);
  return html`<form class="stack" novalidate @submit=${send} @input=${(/** @type {Event} */ event) => ((form = /** @type {HTMLFormElement} */ (event.currentTarget)), changed?.(read()))}>
    <div class="two">${first.map(row)}</div>
    ${rest.length ? html`<details><summary class="quiet">${rest.length} more options</summary><div class="two">${rest.map(row)}</div></details>` : null}
    ${() => (problem.value ? html`<div class="notice" role="alert">${withCode(problem.value)}</div>` : null)}
    <div class="row"><button class="button primary" ?disabled=${() => busy.value}>${submit}</button></div></form>`;
}

/** @param {Record<string, string>} errors @param {string} name */
function messageFor(errors, name) {
  const found = Object.entries(errors).find(([path]) => path === name || path.endsWith(`.${name}`) || path.startsWith(`${name}[`) || path.startsWith(`${name}.`));
  const [, entry] = found?.[0].match(/[.[](\d+)/) ?? [];
  return found ? (entry ? `entry ${Number(entry) + 1}: ${found[1]}` : found[1]) : "";
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

/** The entries of a list, where they are objects. @param {Property} kind @param {Schema} schema @returns {Property | null} */
function entryOf(kind, schema) {
  const entry = kind.type === "array" && kind.items ? plain(kind.items, schema) : null;
  return entry?.properties ? entry : null;
}

/** The field of such an entry that alone makes one, if it is an address: then a line of the list may be an address. @param {Property | null} entry */
function addressOf(entry) {
  const alone = entry?.required?.length === 1 ? entry.required[0] : entry?.required?.length ? "" : "url";
  const found = alone ? entry?.properties?.[alone] : null;
  return alone && found && (found.format === "uri" || /(^|_)url$/.test(alone)) ? alone : "";
}

/** Whether a line of a list may be an address. @param {Property} kind @param {Schema} schema */
const hasAddresses = (kind, schema) => Boolean(addressOf(entryOf(kind, schema)) || (kind.type === "array" && kind.items && plain(kind.items, schema).format === "uri"));

/** Objects as lines: an address where an entry says nothing else, otherwise JSON. @param {any[]} value @param {Property} entry @param {string} shared a field that is chosen for all */
function linesOf(value, entry, shared) {
  const url = addressOf(entry);
  /** @param {string} name @param {any} given */
  const usual = (name, given) => name === url || given === null || name === shared || JSON.stringify(given) === JSON.stringify(entry.properties?.[name]?.default);
  return value.map((each) => (url && typeof each?.[url] === "string" && Object.entries(each).every(([name, given]) => usual(name, given)) ? each[url] : JSON.stringify(each))).join("\n");
}

/** The value that every entry has for a field, if it is one. @param {any} value @param {string} name @returns {string | undefined} */
function common(value, name) {
  const found = Array.isArray(value) ? new Set(value.map((each) => each?.[name])) : new Set();
  return found.size === 1 ? [...found][0] : undefined;
}

/** Lines as entries of a list: objects as JSON, one per line or all together; addresses; or what commas divide. @param {string} text @param {Property} kind @param {Schema} schema @param {Record<string, any>} shared */
function entries(text, kind, schema, shared) {
  const entry = entryOf(kind, schema);
  if (text.startsWith("[")) return parsed(text);
  if (entry && text.startsWith("{")) {
    const all = parsed(`[${text.replace(/,\s*$/, "")}]`);
    if (Array.isArray(all)) return all;
  }
  const addresses = hasAddresses(kind, schema);
  const lines = text.split(entry && !addresses ? /\n/ : addresses ? /\n|,\s*(?=https?:\/\/)/ : /[\n,]+/).map((each) => (entry ? each.trim().replace(/,$/, "") : each.trim())).filter(Boolean);
  const url = addressOf(entry);
  return entry ? lines.map((each) => (url && !each.startsWith("{") ? { ...shared, [url]: each } : parsed(each))) : lines;
}

/** @param {string} name @param {string} title @param {Property} property @param {Schema} schema @param {boolean} required @param {any} value @param {() => string} error @param {Kind} [shared] */
function field(name, title, property, schema, required, value, error, shared) {
  const kind = plain(property, schema);
  const entry = entryOf(kind, schema);
  const same = shared ? common(value, shared.name) : undefined;
  const text = entry && Array.isArray(value) ? linesOf(value, entry, same === undefined ? "" : (shared?.name ?? "")) : value === null || value === undefined ? "" : typeof value === "object" ? (Array.isArray(value) && value.every((each) => typeof each !== "object") ? value.join("\n") : JSON.stringify(value)) : String(value);
  const label = html`<span>${title}${required ? "" : html` <span class="faint">optional</span>`}</span>`;
  const help = property.description ?? kind.description;
  const below = html`${help ? html`<span class="faint">${withCode(help.split("\n")[0] ?? "")}</span>` : null}${() => (error() ? html`<span class="error" role="alert">${withCode(error())}</span>` : null)}`;
  if (kind.enum) return html`<label class="field">${label}<select name=${name}>${required ? null : html`<option value=""></option>`}${kind.enum.map((each) => html`<option value=${String(each)} ?selected=${String(each) === text}>${String(each)}</option>`)}</select>${below}</label>`;
  if (kind.type === "boolean") return html`<label class="field"><span class="row"><input type="checkbox" name=${name} .checked=${value === true}> ${title}</span>${below}</label>`;
  if (hasAddresses(kind, schema)) return html`<label class="field full">${label}<textarea name=${name} rows="4" spellcheck="false" placeholder="https://…, one per line" .value=${text}></textarea>${below}</label>
    ${shared ? html`<label class="field"><span>${shared.title}</span><select name=${`${name}/${shared.name}`}>${() => [...new Set([...(same ? [same] : []), ...shared.choices()])].map((each) => html`<option value=${each} ?selected=${each === same}>${words(each)}</option>`)}</select></label>` : null}`;
  if (kind.type === "array" || kind.type === "object") return html`<label class=${`field ${kind.type === "object" ? "full" : ""}`}>${label}<textarea name=${name} class=${kind.type === "array" ? "lines" : ""} rows=${kind.type === "array" ? "1" : "3"} placeholder=${kind.type === "array" ? "one per line" : "{}"} .value=${text}></textarea>${below}</label>`;
  const numeric = kind.type === "integer" || kind.type === "number";
  return html`<label class="field">${label}<input type=${numeric ? "number" : kind.format === "password" ? "password" : "text"} autocomplete="off" step="any" name=${name} .value=${text}>${below}</label>`;
}

/** @param {HTMLFormElement} form @param {Record<string, Property>} fields @param {Schema} schema @param {Record<string, Kind>} kinds */
function collect(form, fields, schema, kinds) {
  /** @type {Record<string, any>} */
  const values = {};
  const given = new FormData(form);
  for (const [name, property] of Object.entries(fields)) {
    const kind = plain(property, schema);
    const text = String(given.get(name) ?? "").trim();
    if (kind.type === "boolean") values[name] = given.has(name);
    else if (text === "") continue;
    else if (kind.type === "integer" || kind.type === "number") values[name] = Number.isNaN(Number(text)) ? text : Number(text);
    else if (kind.type === "array") {
      const shared = kinds[name];
      const chosen = shared ? given.get(`${name}/${shared.name}`) : null;
      const usual = shared ? entryOf(kind, schema)?.properties?.[shared.name]?.default : null;
      values[name] = entries(text, kind, schema, shared && chosen && chosen !== usual ? { [shared.name]: chosen } : {});
    }
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
