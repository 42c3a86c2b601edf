// @ts-check
/** A label whose explanation is one hover, tap or key press away. */

import { html } from "../lib/view.js";

/** What figures mean, by their label. */
const MEANINGS = /** @type {Record<string, string>} */ ({
  "Tasks per second": "Tasks that ended in this process over the last 30 seconds. “Allowed” is what the lanes of the running job permit.",
  "Changes today": "New, changed and gone records since midnight UTC. Each is one entry of the change log.",
  "Failed permanently": "Dead letters: tasks that are not tried again by themselves. The share is that of all tasks that ended in 24 hours.",
  "Spent today": "Money of all pipelines that pay for requests, since midnight UTC. A budget is a cap of the settings.",
  "Oldest undelivered": "How long the oldest change has waited for the sink that is furthest behind.",
  Rate: "Tasks that ended per second, over the last 30 seconds; once the job has ended, over its whole run.",
  Left: "Tasks that are left, divided by the rate. A rate of the lanes is used before there is one.",
  Records: "Records that tasks of this job have written and that belong to one job. Shared records are in the change log.",
  Retries: "Attempts that failed and were tried again. A wait for a lane is not one.",
  Spent: "Units that the upstream has charged, and those that it may have charged because its answer was lost.",
  Took: "From the first task to the last one, pauses included.",
  Delivered: "Changes that the receiver has accepted, repeated deliveries included.",
  Behind: "Changes in the log that this sink has not passed yet.",
  Lag: "Age of the oldest of the changes that it has not passed.",
  "Retries waiting": "Messages that a receiver has not accepted yet. They are sent again by themselves.",
  Refused: "Changes that the receiver has rejected for good. They are set aside, and delivery goes on without them.",
  "Per second": "Changes delivered per second, averaged over about a minute.",
  "Tasks waiting": "Queued tasks of all open jobs.",
  "Tasks at work": "Tasks that a worker has leased now.",
  "Dead letters": "Tasks that have failed permanently and are not discarded.",
  "Sinks that stall": "Sinks that fail and have delivered nothing for five minutes.",
  "Keys refused": "Keys of upstreams, such as Serper, that were rejected. Their lanes wait for another key.",
  Store: "Whether the store answers and takes writes.",
  "In use": "Browsers that show a page for a task now.",
  Idle: "Browsers that are running and wait for the next task.",
  "May be started": "Further browsers that fit the settings and the memory of this machine.",
  "Waiting for one": "Tasks that wait for a free browser.",
  "Pages visited": "Pages that browsers of this process have opened since it started.",
  Sure: "How sure the parser is of a value: 95 % for structured data, less for text of the page.",
});

/** A label with its meaning, if there is one. @param {string} label @param {string} [meaning] */
export function explained(label, meaning = MEANINGS[label]) {
  return meaning ? html`<span class="why" tabindex="0" role="note" aria-label=${`${label}: ${meaning}`} data-why=${meaning}>${label}</span>` : html`<span>${label}</span>`;
}
