// @ts-check
/** A value from the API as a signal: loading, loaded or failed; loaded again when its inputs change. */

import { get } from "./api.js";
import { effect, html, onEnd, signal } from "./view.js";

/**
 * @template T
 * @typedef {{ state: import("./view.js").Signal<{ data: T | null, meta: any, error: Error | null, busy: boolean }>,
 *             again: () => void, put: (data: T) => void }} Loaded
 */

/**
 * Load `path` with `query`; both may be functions that read signals. `every` repeats it after that many seconds.
 * @param {string | (() => string | null)} path
 * @param {{ query?: Record<string, unknown> | (() => Record<string, unknown>), every?: number }} [options]
 * @returns {Loaded<any>}
 */
export function load(path, { query = {}, every = 0 } = {}) {
  const state = signal({ data: /** @type {any} */ (null), meta: /** @type {any} */ (null), error: /** @type {Error | null} */ (null), busy: true });
  const turn = signal(0);
  let abort = new AbortController();
  effect(() => {
    turn.value;
    const where = typeof path === "function" ? path() : path;
    const filters = typeof query === "function" ? query() : query;
    abort.abort();
    abort = new AbortController();
    const mine = abort;
    if (where === null) return;
    state.value = { ...state.peek(), busy: true };
    get(where, filters, mine.signal).then(
      (answer) => {
        state.value = { data: answer.data, meta: answer.meta, error: null, busy: false };
      },
      (error) => {
        if (!mine.signal.aborted) state.value = { ...state.peek(), error, busy: false };
      },
    );
  });
  const again = () => void (turn.value = turn.peek() + 1);
  if (every) {
    const timer = setInterval(() => document.hidden || again(), every * 1000);
    onEnd(() => clearInterval(timer));
  }
  onEnd(() => abort.abort());
  return { state, again, put: (data) => void (state.value = { ...state.peek(), data, busy: false }) };
}

/**
 * Show what was loaded: a skeleton at first, then `render`, or the API's sentence if it failed.
 * @param {Loaded<any>} loaded @param {(data: any, meta: any) => unknown} render
 */
export const whenLoaded = (loaded, render) => () => {
  const { data, meta, error } = loaded.state.value;
  if (error && data === null) return html`<div class="notice" role="alert">${error.message}</div>`;
  if (data === null) return html`<div class="stack" aria-busy="true"><div class="skeleton"></div><div class="skeleton"></div><div class="skeleton"></div></div>`;
  return render(data, meta);
};

/**
 * The same, but rendered once: later data reaches it through the signals that `render` reads. For a page whose inputs,
 * filters and scroll position must stay while its figures move.
 * @param {Loaded<any>} loaded @param {() => unknown} render
 */
export function onceLoaded(loaded, render) {
  const phase = signal("");
  effect(() => {
    const { data, error } = loaded.state.value;
    phase.value = data !== null ? "loaded" : error ? "failed" : "";
  });
  return () => (phase.value === "loaded" ? render() : whenLoaded({ ...loaded, state: { value: loaded.state.peek(), peek: loaded.state.peek } }, () => null)());
}
