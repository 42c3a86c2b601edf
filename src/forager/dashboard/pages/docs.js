// @ts-check
/** The reference of the API: search, one address for each operation, samples filled with the values of its form, and "Try it" with the signed-in key. */

import { mayWrite, session } from "../lib/api.js";
import { duration, words } from "../lib/format.js";
import { go } from "../lib/router.js";
import { html, signal } from "../lib/view.js";
import { samples } from "../parts/samples.js";

/** @typedef {{ id: string, method: string, path: string, tag: string, summary: string, description: string, parameters: any[], body: any, responses: Record<string, any>, open: boolean }} Operation */

/** The document, read once. @type {import("../lib/view.js").Signal<any>} */
const document_ = signal(/** @type {any} */ (null));

/** @param {{ id?: string }} params */
export function page({ id }) {
  if (!document_.peek()) fetch("/openapi.json").then((answer) => answer.json()).then((found) => (document_.value = found));
  const typed = signal("");
  const all = () => (document_.value ? operations(document_.value) : []);
  const found = () => {
    const wanted = typed.value.toLowerCase().split(/\s+/).filter(Boolean);
    const matching = all().filter((each) => wanted.every((word) => `${each.method} ${each.path} ${each.summary} ${each.tag}`.toLowerCase().includes(word)));
    const text = typed.value.trim().toLowerCase();
    return text ? matching.sort((a, b) => Number(b.summary.toLowerCase().startsWith(text)) - Number(a.summary.toLowerCase().startsWith(text))) : matching;
  };
  return {
    title: () => all().find((each) => each.id === id)?.summary ?? "API",
    state: html`<span class="row">${id ? html`<a class="tag" href="/docs">all operations</a>` : html`<a class="tag" href="/openapi.json">openapi.json</a><a class="tag" href="/docs/plain">on one page</a>`}</span>`,
    body: html`<div class="docs"><nav class="panel docs-list" tabindex="0" aria-label="Operations"><input type="search" aria-label="Search operations" placeholder="Search: retry, lanes, POST…" @input=${(/** @type {Event} */ event) => (typed.value = /** @type {HTMLInputElement} */ (event.target).value)}
        @keydown=${(/** @type {KeyboardEvent} */ event) => event.key === "Enter" && found()[0] && go(`/docs/${found()[0]?.id}`)}>
      ${() => (document_.value ? null : html`<div class="skeleton"></div>`)}
      ${() => grouped(found()).map(([tag, list]) => html`<div class="side-label">${tag}</div>${list.map((each) => html`<a class="docs-item" href=${`/docs/${each.id}`} aria-current=${each.id === id ? "page" : null}><span>${each.summary}</span><b class=${`method ${each.method}`}>${each.method}</b></a>`)}`)}
      ${() => (document_.value && !found().length ? html`<p class="quiet">No operation matches.</p>` : null)}</nav>
      <div>${() => {
        if (!document_.value) return html`<div class="skeleton"></div>`;
        if (!id) return start(document_.value, all());
        const one = all().find((each) => each.id === id);
        return one ? operation(one, document_.value) : html`<div class="panel empty">There is no operation ${id}. <a class="link" href="/docs">See all</a></div>`;
      }}</div></div>`,
  };
}

/** @param {any} found @returns {Operation[]} */
function operations(found) {
  return Object.entries(found.paths).flatMap(([path, methods]) => Object.entries(/** @type {Record<string, any>} */ (methods)).map(([method, each]) => ({
    id: each.operationId, method, path, tag: each.tags?.[0] ?? "", summary: each.summary, description: each.description ?? "", parameters: each.parameters ?? [],
    body: each.requestBody, responses: each.responses, open: !each.security?.length,
  })));
}

/** @param {Operation[]} list @returns {[string, Operation[]][]} */
function grouped(list) {
  /** @type {Map<string, Operation[]>} */
  const groups = new Map();
  for (const each of list) groups.set(each.tag, [...(groups.get(each.tag) ?? []), each]);
  return [...groups];
}

/** @param {any} found @param {Operation[]} all */
function start(found, all) {
  return html`<div class="stack"><section class="panel prose">${paragraphs(found.info.description)}<p class="quiet">${String(all.length)} operations. You try them with the key that you are signed in with: <b>${session.value?.name ?? ""}</b>, ${session.value?.role ?? ""}.</p></section>
    <div class="kinds">${found.tags.map((/** @type {any} */ tag) => html`<section class="panel kind"><h2>${tag.name}</h2><span class="quiet">${tag.description}</span>
      ${all.filter((each) => each.tag === tag.name).slice(0, 4).map((each) => html`<a class="link clip" href=${`/docs/${each.id}`}>${each.summary}</a>`)}</section>`)}</div></div>`;
}

/** @param {Operation} one @param {any} found */
function operation(one, found) {
  const values = signal(/** @type {Record<string, string>} */ (Object.fromEntries(one.parameters.filter((each) => each.in === "path").map((each) => [each.name, exampleOf(each, found)]))));
  const bodyText = signal(one.body ? JSON.stringify(bodyExample(one, found), null, 2) : "");
  const answer = signal(/** @type {{ status: number, took: number, text: string } | null} */ (null));
  const busy = signal(false);
  const asked = () => ({ method: one.method.toUpperCase(), ...filled(one, values.value), body: bodyText.value.trim() });
  const allowed = one.method === "get" || mayWrite() || /\/(plan|compare)$/.test(one.path);
  /** @param {SubmitEvent} event */
  async function send(event) {
    event.preventDefault();
    busy.value = true;
    const { method, target, headers, body } = asked();
    const began = performance.now();
    try {
      const reply = await fetch(target, { method, headers: { ...headers, ...(body ? { "Content-Type": "application/json" } : {}), "X-CSRF-Token": session.peek()?.csrf ?? "" }, body: body || null });
      const text = reply.headers.get("content-type")?.startsWith("text/event-stream") ? "An event stream: read it with curl or EventSource." : await reply.text();
      answer.value = { status: reply.status, took: (performance.now() - began) / 1000, text: pretty(text).slice(0, 100_000) };
    } catch (error) {
      answer.value = { status: 0, took: 0, text: error instanceof Error ? error.message : String(error) };
    } finally {
      busy.value = false;
    }
  }
  const streams = one.responses["200"]?.content?.["text/event-stream"];
  return html`<div class="stack">
    <section class="panel stack"><div class="row"><b class=${`method ${one.method}`}>${one.method.toUpperCase()}</b><code class="path">${one.path}</code>${one.open ? html`<span class="tag">open without a key</span>` : null}</div><div class="prose">${paragraphs(one.description)}</div></section>
    <div class="split even"><form class="panel stack" @submit=${send}><header><h2>Try it</h2></header>
        ${one.parameters.map((each) => html`<label class="field"><span>${each.name}${each.required ? "" : html`<span class="faint">optional</span>`}</span>
          <input type="text" name=${each.name} placeholder=${String(each.schema?.default ?? "")} .value=${values.peek()[each.name] ?? ""} @input=${(/** @type {Event} */ event) => (values.value = { ...values.peek(), [each.name]: /** @type {HTMLInputElement} */ (event.target).value })}>
          <span class="faint">${describe(each.schema, found)}${each.description ? ` · ${each.description}` : ""}</span></label>`)}
        ${one.body ? html`<label class="field"><span>Body</span><textarea name="body" rows="9" spellcheck="false" .value=${bodyText.peek()} @input=${(/** @type {Event} */ event) => (bodyText.value = /** @type {HTMLTextAreaElement} */ (event.target).value)}></textarea></label>` : null}
        ${allowed ? html`<div class="row"><button class="button primary" ?disabled=${() => busy.value || Boolean(streams)}>Send</button>${streams ? html`<span class="quiet">A stream: use the sample.</span>` : null}</div>` : html`<p class="quiet">Your key may only read.</p>`}</form>
      <section class="panel">${samples(asked)}</section></div>
    ${() => (answer.value ? html`<section class="panel" data-answer><header><h2>Answer</h2><span class="faint">${duration(answer.value.took)}</span></header><span class=${`tag ${answer.value.status && answer.value.status < 400 ? "green" : "red"}`}>${String(answer.value.status || "no answer")}</span><pre class="codebox" tabindex="0">${answer.value.text}</pre></section>` : null)}
    ${one.body ? fields("Fields of the body", resolved(one.body.content["application/json"]?.schema ?? {}, found), found) : null}
    <section class="panel"><header><h2>Answers</h2></header>${Object.entries(one.responses).map(([status, each]) => html`<div class="look"><span class=${`tag ${status < "400" ? "green" : ""}`}>${status}</span><div>${each.description}
      ${Object.values(each.content ?? {}).map((/** @type {any} */ content) => (content.example === undefined ? null : html`<details><summary class="faint">example</summary><pre class="codebox" tabindex="0">${typeof content.example === "string" ? content.example : JSON.stringify(content.example, null, 2)}</pre></details>`))}</div><span></span></div>`)}</section></div>`;
}

/** @param {Operation} one @param {Record<string, string>} values */
function filled(one, values) {
  let target = one.path;
  const query = new URLSearchParams();
  /** @type {Record<string, string>} */
  const headers = {};
  for (const each of one.parameters) {
    const value = values[each.name] ?? "";
    if (each.in === "path") target = target.replace(`{${each.name}}`, value ? encodeURIComponent(value) : `{${each.name}}`);
    else if (value && each.in === "query") query.append(each.name, value);
    else if (value && each.in === "header") headers[each.name] = value;
  }
  return { target: query.size ? `${target}?${query}` : target, headers };
}

/** @param {string} title @param {any} schema @param {any} found */
function fields(title, schema, found) {
  const entries = Object.entries(schema.properties ?? {});
  if (!entries.length) return null;
  return html`<section class="panel"><header><h2>${title}</h2></header><div class="scroll"><table><thead><tr><th>Field</th><th>Value</th><th>What it is</th></tr></thead><tbody>
    ${entries.map(([name, each]) => html`<tr><td><code class="strong">${name}</code>${schema.required?.includes(name) ? html` <span class="tag amber">required</span>` : null}</td><td class="quiet">${describe(each, found)}</td><td class="quiet">${/** @type {any} */ (each).description ?? ""}</td></tr>`)}</tbody></table></div></section>`;
}

/** @param {any} schema @param {any} found @returns {any} */
function resolved(schema, found) {
  if (schema.$ref) return found.components.schemas[schema.$ref.split("/").at(-1)] ?? {};
  const inner = schema.allOf?.[0] ?? schema.anyOf?.find((/** @type {any} */ each) => each.$ref);
  return inner ? resolved(inner, found) : schema;
}

/** @param {any} schema @param {any} found @returns {string} */
function describe(schema, found) {
  if (!schema) return "";
  if (schema.anyOf) return [...new Set(schema.anyOf.filter((/** @type {any} */ each) => each.type !== "null").map((/** @type {any} */ each) => describe(each, found)))].join(" or ");
  const known = resolved(schema, found);
  if (known.enum) return known.enum.join(", ");
  const kind = known.type === "array" ? `list of ${describe(known.items, found) || "values"}` : words(known.format ?? known.type ?? "value");
  const bounds = [known.minimum ?? known.minLength, known.maximum ?? known.maxLength].map((each) => (each === undefined ? "" : String(each)));
  return bounds.some(Boolean) ? `${kind}, ${bounds[0] || "…"} to ${bounds[1] || "…"}` : kind;
}

/** @param {any} parameter @param {any} found */
const exampleOf = (parameter, found) => String(parameter.example ?? parameter.schema?.examples?.[0] ?? resolved(parameter.schema ?? {}, found).enum?.[0] ?? "");

/** @param {Operation} one @param {any} found */
function bodyExample(one, found) {
  const content = one.body.content["application/json"] ?? {};
  const given = Object.values(content.examples ?? {})[0];
  return /** @type {any} */ (given)?.value ?? content.example ?? resolved(content.schema ?? {}, found).examples?.[0] ?? {};
}

/** @param {string} text */
function pretty(text) {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}

/** Text with `code` in it. @param {string} text */
const paragraphs = (text) => text.split("\n\n").filter(Boolean).map((part) => html`<p>${part.split("`").map((each, index) => (index % 2 ? html`<code>${each}</code>` : each))}</p>`);
