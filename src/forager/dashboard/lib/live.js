// @ts-check
/**
 * Live data over one event stream per tab. A page follows topics ("overview", "job:<id>", "changes"); the stream is
 * opened for all of them together, resumes after a cut, and rests while the tab is hidden.
 */

import { onEnd, signal } from "./view.js";

/** Whether the stream is open; false while it reconnects. */
export const connected = signal(true);

/** @type {Map<string, Set<(data: any) => void>>} */
const followers = new Map();
/** @type {EventSource | null} */
let source = null;
let opened = "";
let retry = 0;
/** @type {ReturnType<typeof setTimeout> | undefined} */
let timer;

/**
 * Call `take` with every message of a topic until the present scope ends.
 * @param {string} topic @param {(data: any) => void} take
 */
export function follow(topic, take) {
  const takers = followers.get(topic) ?? new Set();
  followers.set(topic, takers.add(take));
  plan(0);
  onEnd(() => {
    takers.delete(take);
    if (takers.size === 0) followers.delete(topic);
    plan(0);
  });
}

/** @param {number} milliseconds */
function plan(milliseconds) {
  clearTimeout(timer);
  timer = setTimeout(connect, milliseconds);
}

function connect() {
  const topics = [...followers.keys()].sort().join(",");
  const wanted = document.hidden ? "" : topics;
  if (wanted === opened && source?.readyState !== EventSource.CLOSED) return;
  source?.close();
  source = null;
  opened = wanted;
  if (!wanted) return;
  const stream = new EventSource(`/api/v1/live?topics=${encodeURIComponent(wanted)}`);
  source = stream;
  stream.onopen = () => {
    connected.value = true;
    retry = 0;
  };
  stream.onmessage = (event) => {
    const { topic, data } = JSON.parse(event.data);
    for (const take of followers.get(topic) ?? []) take(data);
  };
  stream.onerror = () => {
    if (source !== stream) return;
    connected.value = false;
    if (stream.readyState === EventSource.CLOSED) {
      opened = "";
      plan(Math.min(30_000, 1000 * 2 ** retry++));
    }
  };
}

document.addEventListener("visibilitychange", () => plan(document.hidden ? 5000 : 0));
