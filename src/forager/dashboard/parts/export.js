// @ts-check
/** A list as a file, exactly as its filters show it: all pages are read, and the file is made in the browser. */

import { get } from "../lib/api.js";
import { number } from "../lib/format.js";
import { html, signal } from "../lib/view.js";
import { act, toast } from "./feedback.js";

/** Rows of one file. A larger one is for the command line and the API, which write while they read. */
const MOST = 20_000;

/** @param {string} path @param {() => Record<string, unknown>} query @param {string} name @param {{ rows?: (data: any) => any[], next?: (answer: any) => string | null }} [read] */
export function exportMenu(path, query, name, { rows = (data) => data, next = (answer) => answer.meta?.next_cursor ?? null } = {}) {
  const progress = signal("");
  /** @param {Event} event @param {"csv" | "jsonl"} form */
  const save = (event, form) => act(event, async () => {
    /** @type {any[]} */
    const found = [];
    let cursor = /** @type {string | null} */ (null);
    do {
      const answer = await get(path, { ...query(), limit: 500, cursor });
      found.push(...rows(answer.data));
      cursor = next(answer);
      progress.value = `${number(found.length)} rows`;
    } while (cursor && found.length < MOST);
    progress.value = "";
    if (cursor) toast(`The first ${number(found.length)} rows are saved; forager export writes all of them.`);
    download(form === "csv" ? csv(found) : found.map((row) => `${JSON.stringify(row)}\n`).join(""), form === "csv" ? "text/csv" : "application/x-ndjson", `${name}.${form}`);
  });
  return html`<details class="menu"><summary class="button">${() => progress.value || "Export"}</summary><div>
    <button class="menu-item" @click=${(/** @type {Event} */ event) => save(event, "csv")}>CSV</button>
    <button class="menu-item" @click=${(/** @type {Event} */ event) => save(event, "jsonl")}>JSON lines</button><span class="faint">what the filters show</span></div></details>`;
}

/** One column for each field of any row, in the order in which fields appear. @param {any[]} rows */
export function csv(rows) {
  const names = [...new Set(rows.flatMap((row) => Object.keys(row)))];
  return [names, ...rows.map((row) => names.map((name) => row[name]))].map((cells) => `${cells.map(cell).join(",")}\r\n`).join("");
}

/** Text that a spreadsheet would run as a formula gets an apostrophe, as in the files of the API. @param {any} value */
function cell(value) {
  if (value === null || value === undefined) return "";
  if (typeof value === "number" || typeof value === "boolean") return String(value);
  const text = typeof value === "object" ? JSON.stringify(value) : String(value);
  const safe = /^[=+\-@\t\r]/.test(text) ? `'${text}` : text;
  return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}

/** @param {string} text @param {string} type @param {string} name */
function download(text, type, name) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], { type }));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}
