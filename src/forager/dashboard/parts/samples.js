// @ts-check
/** A request as curl, Python and JavaScript, to be copied. The key is never part of it. */

import { html, signal } from "../lib/view.js";
import { toast } from "./feedback.js";

/** @param {string} text */
const quoted = (text) => `'${text.replaceAll("'", `'\\''`)}'`;
/** Values of JSON in the words of Python. @param {any} value @param {string} indent @returns {string} */
function python(value, indent = "    ") {
  if (value === true) return "True";
  if (value === false) return "False";
  if (value === null) return "None";
  if (Array.isArray(value)) return `[${value.map((each) => python(each, indent)).join(", ")}]`;
  if (typeof value === "object") return `{\n${Object.entries(value).map(([name, each]) => `${indent}    ${JSON.stringify(name)}: ${python(each, `${indent}    `)},\n`).join("")}${indent}}`;
  return JSON.stringify(value);
}

/** @typedef {{ method: string, target: string, headers?: Record<string, string>, body?: string }} Asked */
export const LANGUAGES = ["curl", "Python", "JavaScript"];

/** A request in one of the languages. @param {string} language @param {Asked} asked */
export function sample(language, { method, target, headers = {}, body = "" }) {
  const url = `${location.origin}${target}`;
  let value;
  try {
    value = body ? JSON.parse(body) : undefined;
  } catch {
    value = undefined;
  }
  if (language === "Python") {
    const given = Object.entries(headers).map(([name, text]) => `, ${JSON.stringify(name)}: ${JSON.stringify(text)}`).join("");
    const sent = body ? `    ${value === undefined ? `content=${JSON.stringify(body)}` : `json=${python(value)}`},\n` : "";
    return `import os\n\nimport httpx\n\nanswer = httpx.${method.toLowerCase() === "delete" && body ? 'request(\n    "DELETE",' : `${method.toLowerCase()}(`}\n    "${url}",\n    headers={"X-Service-Key": os.environ["FORAGER_KEY"]${given}},\n${sent}    timeout=130,\n)\nprint(answer.json())`;
  }
  if (language === "JavaScript") {
    const given = Object.entries(headers).map(([name, text]) => `, ${JSON.stringify(name)}: ${JSON.stringify(text)}`).join("");
    const sent = body ? `  body: ${value === undefined ? JSON.stringify(body) : `JSON.stringify(${JSON.stringify(value, null, 2).replaceAll("\n", "\n  ")})`},\n` : "";
    return `const answer = await fetch("${url}", {\n  method: "${method}",\n  headers: { "X-Service-Key": process.env.FORAGER_KEY${body ? ', "Content-Type": "application/json"' : ""}${given} },\n${sent}});\nconsole.log(await answer.json());`;
  }
  const lines = [`curl -s ${method === "GET" ? "" : `-X ${method} `}${quoted(url)}`, '-H "X-Service-Key: $FORAGER_KEY"', ...Object.entries(headers).map(([name, text]) => `-H ${quoted(`${name}: ${text}`)}`)];
  if (body) lines.push("-H 'Content-Type: application/json'", `-d ${quoted(value === undefined ? body : JSON.stringify(value))}`);
  return lines.join(" \\\n  ");
}

/** Tabs with the request in each language. @param {() => Asked} read */
export function samples(read) {
  const language = signal(localStorage.getItem("samples") ?? "curl");
  return html`<div><div class="tabs" role="tablist">${LANGUAGES.map((name) => html`<button type="button" role="tab" aria-selected=${() => String(language.value === name)} @click=${() => ((language.value = name), localStorage.setItem("samples", name))}>${name}</button>`)}</div>
    ${copyBox(() => sample(language.value, read()))}<p class="faint after">FORAGER_KEY is your key.</p></div>`;
}

/** Text with a button that copies it. @param {() => string} read */
export function copyBox(read) {
  const copy = () => navigator.clipboard.writeText(read()).then(() => toast("Copied."), () => toast("The browser does not allow copying here.", { bad: true }));
  return html`<div class="codebox" tabindex="0"><button type="button" class="button small" @click=${copy}>Copy</button><pre>${() => read()}</pre></div>`;
}
