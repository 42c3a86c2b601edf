// @ts-check
/** Where changes are delivered: lag, retries, the last error, and what a receiver refused. */

import { post } from "../lib/api.js";
import { ago, duration, number, rate, utc } from "../lib/format.js";
import { load, whenLoaded } from "../lib/load.js";
import { html, signal } from "../lib/view.js";
import { act, dialog } from "../parts/feedback.js";
import { schemaForm } from "../parts/form.js";
import { tag } from "../parts/states.js";

export function page() {
  const sinks = load("/api/v1/sinks", { every: 10 });
  const types = load("/api/v1/sink-types");
  /** @param {any} row @param {string} verb @param {string} done */
  const steer = (row, verb, done) => (/** @type {Event} */ event) => act(event, () => post(`/api/v1/sinks/${encodeURIComponent(row.name)}/${verb}`, verb === "replay" ? { after: 0 } : {}).then(sinks.again), done);
  return {
    title: "Sinks",
    actions: html`<button class="button primary admins" @click=${() => add(types.state.peek().data ?? [], sinks.again)}>Add a sink</button>`,
    body: html`<div class="stack">${whenLoaded(sinks, (rows) => (rows.length ? rows.map((/** @type {any} */ row) => html`<section class="panel">
      <div class="spread"><div class="row"><span class="job-name">${row.name}</span>${tag(row.state)}<code>${row.type ?? ""}</code></div>
        <div class="row"><button class="button writes small" @click=${steer(row, row.state === "paused" ? "resume" : "pause", "Done.")}>${row.state === "paused" ? "Resume" : "Pause"}</button>
          <button class="button writes small" @click=${steer(row, "replay", "The whole log is delivered again.")}>Replay</button>
          ${row.set_aside ? html`<button class="button writes small" @click=${steer(row, "refused/retry", "They are delivered again.")}>Deliver ${number(row.set_aside)} refused again</button>` : null}</div></div>
      ${row.error ? html`<div class="notice">${row.error} <span class="quiet">since ${ago(row.failing_since)} · ${row.retry_at ? `next try ${ago(row.retry_at)}` : ""}</span></div>` : null}
      ${row.problem ? html`<div class="notice">${row.problem}</div>` : null}
      <div class="cards">${[["Delivered", number(row.delivered)], ["Behind", number(row.behind)], ["Lag", row.behind ? duration(row.lag_seconds) : "–"], ["Retries waiting", number(row.waiting)], ["Refused", number(row.set_aside)], ["Rate", rate(row.rate)]]
        .map(([label, value]) => html`<div class="card"><div class="label">${label}</div><div class="figure">${value}</div></div>`)}</div>
      <p class="quiet" title=${utc(row.moved_at)}>${row.kinds ? `Kinds: ${row.kinds.join(", ")}. ` : "All kinds. "}Last moved ${ago(row.moved_at)}.</p></section>`)
      : html`<div class="panel empty"><p>No sinks: changes stay in the store until one is added.</p><code>forager sinks add lake files --folder ./lake</code></div>`))}</div>`,
  };
}

/** @param {any[]} types @param {() => void} done */
function add(types, done) {
  const type = signal(types.find((each) => each.addable !== false)?.name ?? types[0]?.type ?? "");
  const problem = signal("");
  dialog((close) => {
    const options = () => types.find((each) => (each.name ?? each.type) === type.value)?.options ?? {};
    return html`<div class="inside"><h2>Add a sink</h2>
      <label class="field"><span>Type</span><select @change=${(/** @type {Event} */ event) => (type.value = /** @type {HTMLSelectElement} */ (event.target).value)}>${types.map((each) => html`<option value=${each.name ?? each.type}>${each.name ?? each.type}</option>`)}</select></label>
      ${() => schemaForm(options(), {
        extra: { name: { type: "string", title: "Name" } }, submit: "Add", problem,
        save: (values) => {
          const { name, ...rest } = values;
          return post("/api/v1/sinks", { name, type: type.peek(), options: rest }).then(() => (close(), done()));
        },
      })}</div>`;
  }, "Add a sink");
}
