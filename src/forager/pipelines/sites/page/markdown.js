// @ts-check
/** Markdown as elements, for reading: headings, lists, quotes, code, tables as text. Everything in it reaches the page as text. */

import { html } from "/dashboard/lib/view.js";

/** @param {string} text */
export function markdown(text) {
  /** @type {unknown[]} */
  const blocks = [];
  const parts = text.slice(0, 200_000).split(/^```.*$/m);
  parts.forEach((part, index) => {
    if (index % 2) return void blocks.push(html`<pre class="codebox">${part.trim()}</pre>`);
    for (const block of part.split(/\n{2,}/).map((each) => each.trim()).filter(Boolean)) blocks.push(...shown(block));
  });
  return html`<article class="markdown">${blocks}</article>`;
}

/** @param {string} block @returns {unknown[]} */
function shown(block) {
  const [first = "", ...rest] = block.split("\n");
  const heading = /^(#{1,6})\s+(.*)$/.exec(first);
  if (heading) {
    const level = heading[1]?.length ?? 1;
    const title = inline(heading[2] ?? "");
    return [level === 1 ? html`<h2 class="first">${title}</h2>` : html`<h3>${title}</h3>`, ...(rest.length ? shown(rest.join("\n").trim()) : [])];
  }
  const lines = [first, ...rest];
  if (lines.every((line) => /^\s*([-*+]|\d+[.)])\s+/.test(line) || /^\s{2,}/.test(line)))
    return [html`<ul>${lines.map((line) => html`<li>${inline(line.replace(/^\s*([-*+]|\d+[.)])\s+/, ""))}</li>`)}</ul>`];
  if (first.startsWith("|")) return [html`<pre>${block}</pre>`];
  if (first.startsWith(">")) return [html`<blockquote>${inline(block.replace(/^>\s?/gm, ""))}</blockquote>`];
  if (/^([-*_]\s*){3,}$/.test(first)) return [html`<hr>`];
  return [html`<p>${inline(lines.join(" "))}</p>`];
}

/** Links, code and emphasis of a line. A link shows its text; where it leads is in its tooltip. @param {string} text */
function inline(text) {
  return text.split(/(`[^`]+`|!?\[[^\]]*\]\([^)]*\)|\*\*[^*]+\*\*)/).map((part) => {
    const link = /^!?\[([^\]]*)\]\(([^)\s]*)[^)]*\)$/.exec(part);
    if (link) return html`<span class="linked" title=${link[2]}>${link[1] || link[2]}</span>`;
    if (/^`.+`$/.test(part)) return html`<code>${part.slice(1, -1)}</code>`;
    if (/^\*\*.+\*\*$/.test(part)) return html`<strong>${part.slice(2, -2)}</strong>`;
    return part;
  });
}
