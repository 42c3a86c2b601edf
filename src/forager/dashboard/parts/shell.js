// @ts-check
/** Navigation, the line above every page, the command palette, and the keys. */

import { request, session } from "../lib/api.js";
import { short } from "../lib/format.js";
import { connected, follow } from "../lib/live.js";
import { go, place, shown } from "../lib/router.js";
import { effect, html, onEnd, signal } from "../lib/view.js";
import { dialog, toastArea } from "./feedback.js";
import { palette } from "./palette.js";

/** The newest overview; pages share it. */
export const overview = signal(/** @type {any} */ (null));
/** The time range of charts. */
export const range = signal(localStorage.getItem("range") ?? "24h");
export const RANGES = ["1h", "24h", "7d"];

const DATA = /** @type {const} */ ([["/", "Overview"], ["/jobs", "Jobs"], ["/records", "Records"], ["/changes", "Changes"], ["/dead", "Dead letters"]]);
const OPERATE = /** @type {const} */ ([["/schedules", "Schedules"], ["/watches", "Watches & alerts"], ["/lanes", "Lanes"], ["/sinks", "Sinks"], ["/system", "System"], ["/keys", "Keys"], ["/docs", "API"]]);
const KEYS = /** @type {const} */ ([
  ["/ or Ctrl-K", "Jump to a job, lane, record or action"], ["g o", "Overview"], ["g j", "Jobs"], ["g r", "Records"],
  ["g d", "Dead letters"], ["g l", "Lanes"], ["g s", "Sinks"], ["n", "New job"], ["m", "Hide or show the menu"], ["t", "Light or dark"], ["?", "This list"],
]);
/** @type {Record<string, string>} */
const JUMPS = { o: "/", j: "/jobs", r: "/records", d: "/dead", c: "/changes", l: "/lanes", s: "/sinks" };

export function shell() {
  const menu = signal(false);
  follow("overview", (data) => (overview.value = data));
  keys();
  /** @param {string} path */
  const current = (path) => () => {
    const [now] = place.value.split("?");
    return (path === "/" ? now === "/" : now === path || now?.startsWith(`${path}/`)) ? "page" : null;
  };
  /** @param {string} path @param {string} title @param {() => unknown} [beside] */
  const item = (path, title, beside = () => null) => html`<a class="item" href=${path} aria-current=${current(path)} @click=${() => (menu.value = false)}>${title}<span>${beside}</span></a>`;
  /** @param {unknown} count */
  const counted = (count) => (count ? html`<span class="count">${short(Number(count))}</span>` : null);
  /** @param {string} path */
  const beside = (path) => () => {
    const now = overview.value;
    if (!now) return null;
    if (path === "/jobs") return counted(now.counts.open_jobs);
    if (path === "/changes") return counted(now.counts.changes_today);
    if (path === "/dead") return counted(now.counts.dead_letters);
    if (path === "/lanes") return now.attention.some((/** @type {any} */ each) => each.kind === "lane") ? html`<i class="dot" title="A lane needs a look"></i>` : null;
    if (path === "/sinks") return now.attention.some((/** @type {any} */ each) => each.kind === "sink") ? html`<i class="dot bad" title="A sink needs a look"></i>` : null;
    return null;
  };
  const title = () => {
    const named = shown.value?.title ?? "";
    return typeof named === "function" ? named() : named;
  };
  effect(() => void (document.title = `${title()} · Forager`));
  const features = () => session.value?.features.filter((page) => page.module) ?? [];
  return html`<div class="shell">
    <nav class=${() => `side ${menu.value ? "open" : ""}`} aria-label="Main">
      <a class="mark" href="/"><img src="/dashboard/mark.svg" alt="">Forager</a>
      ${DATA.map(([path, title]) => item(path, title, beside(path)))}
      ${() => (features().length ? html`<div class="side-label">Pipelines</div>` : null)}
      ${() => features().map((page) => item(`/${page.name}`, page.title))}
      <div class="side-label">Operate</div>
      ${OPERATE.map(([path, title]) => item(path, title, beside(path)))}
      <div class="side-foot">
        <div class="row"><button class="button small plain" @click=${flipScheme} title="Light or dark (t)">◐ Theme</button>
          <button class="button small plain hide-menu" @click=${flipMenu} title="Hide the menu (m)">« Hide</button>
          <button class="button small plain" @click=${() => help()} title="Keys (?)">Keys ?</button></div>
        <div class="row faint"><span class="who" title=${() => `Forager ${session.value?.version ?? ""}`}><div class="clip">${() => session.value?.name ?? ""}</div><div class="clip">${() => session.value?.role ?? ""}</div></span>
          <button class="button small plain" @click=${signOut}>Sign out</button></div>
      </div>
    </nav>
    <main class="main" id="main">
      <div class="top"><button class="button show-menu" aria-label="Show the menu" title="Show the menu (m)" @click=${flipMenu}>☰</button><h1>${title}</h1><span>${() => shown.value?.state ?? null}</span><span class="grow"></span>
        <button class="jump" aria-label="Jump to a job, lane, record" @click=${() => palette()}><i class="glass" aria-hidden="true"></i><span>Jump to a job, lane, record…</span><kbd>/</kbd></button>
        <span class="row">${() => shown.value?.actions ?? null}</span></div>
      ${() => (connected.value ? null : html`<div class="offline" role="status">Live updates are interrupted. Reconnecting…</div>`)}
      ${() => shown.value?.body ?? html`<div class="skeleton"></div>`}
    </main>
    <nav class="bottom" aria-label="Short">
      <a href="/" aria-current=${current("/")}>Overview</a><a href="/jobs" aria-current=${current("/jobs")}>Jobs</a>
      <a href="/records" aria-current=${current("/records")}>Records</a><button @click=${() => (menu.value = !menu.value)} aria-label="Menu">More</button>
    </nav>
    ${toastArea()}
  </div>`;
}

export const rangePicker = () => html`<span class="range" role="group" aria-label="Time range">${RANGES.map((each) => html`<button
  aria-pressed=${() => String(range.value === each)} @click=${() => (localStorage.setItem("range", each), (range.value = each))}>${each.replace(/(\d+)/, "$1 ")}</button>`)}</span>`;

function flipScheme() {
  const dark = getComputedStyle(document.documentElement).colorScheme === "dark" || (document.documentElement.dataset.scheme !== "light" && matchMedia("(prefers-color-scheme: dark)").matches);
  const next = dark ? "light" : "dark";
  localStorage.setItem("scheme", next);
  document.documentElement.dataset.scheme = next;
}

/** The menu at the side is there or not, in this browser. */
function flipMenu() {
  const root = document.documentElement;
  root.dataset.menu = root.dataset.menu === "off" ? "" : "off";
  localStorage.setItem("menu", root.dataset.menu);
}

async function signOut() {
  await request("DELETE", "/dashboard/session").catch(() => null);
  session.value = null;
}

function keys() {
  let prefix = "";
  /** @param {KeyboardEvent} event */
  const press = (event) => {
    if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "k") return event.preventDefault(), void palette();
    const typing = event.target instanceof HTMLElement && /^(INPUT|TEXTAREA|SELECT)$/.test(event.target.tagName);
    if (typing || event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
    if (prefix === "g" && JUMPS[event.key]) go(JUMPS[event.key] ?? "/");
    else if (event.key === "/") event.preventDefault(), palette();
    else if (event.key === "?") help();
    else if (event.key === "n") go("/jobs/new");
    else if (event.key === "t") flipScheme();
    else if (event.key === "m") flipMenu();
    prefix = event.key === "g" ? "g" : "";
  };
  addEventListener("keydown", press);
  onEnd(() => removeEventListener("keydown", press));
}

const help = () => dialog(() => html`<div class="inside"><h2>Keys</h2><dl class="pairs">${KEYS.map(([key, what]) => html`<dt><kbd>${key}</kbd></dt><dd>${what}</dd>`)}</dl></div>`, "Keys");
