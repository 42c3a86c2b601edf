// @ts-check
/** Retry every dead letter that a filter selects, in as many requests as it takes. */

import { post } from "../lib/api.js";
import { number, plural } from "../lib/format.js";

/**
 * Returns a sentence for the person who pressed the button: how many run again, and which cannot.
 * @param {{ pipeline?: string, reason?: string | null, job?: string }} filter @returns {Promise<string>}
 */
export async function retryAll({ reason, ...filter }) {
  let letters = 0;
  /** Those that cannot run again, by the sentence that says why. @type {Map<string, number>} */
  const left = new Map();
  /** @type {string | null} */
  let cursor = null;
  do {
    const { data } = await post("/api/v1/dead/retry", { ...filter, ...(reason ? { reason } : {}), ...(cursor ? { cursor } : {}) });
    letters += data.letters;
    for (const each of data.passed_over) left.set(each.message, (left.get(each.message) ?? 0) + each.letters);
    cursor = data.next_cursor;
  } while (cursor);
  const rest = [...left].map(([why, count]) => `${number(count)} cannot: ${why}`);
  return [`${plural(letters, "task runs", "tasks run")} again.`, ...rest].join(" ");
}
