// @ts-check
/** Where changes are delivered: lag, retries, the last error, what a receiver refused; and from where to deliver again. */

import { post, remove } from "../lib/api.js";
import { ago, duration, number, rate, utc, words } from "../lib/format.js";
import { load, whenLoaded } from "../lib/load.js";
import { html, scoped, signal } from "../lib/view.js";
import { explained } from "../parts/explain.js";
import { act, confirmed, dialog, toast } from "../parts/feedback.js";
import { schemaForm } from "../parts/form.js";
import { tag } from "../parts/states.js";
import { pagedTable } from "../parts/table.js";

export function page() {
  const sinks = load("/api/v1/sinks", { every: 10 });
  const types = load("/api/v1/sink-types");
  /** @param {any} row @param {string} verb @param {string} done */
  const steer = (row, verb, done) => (/** @type {Event} */ event) => act(event, () => post(`${pathOf(row)}/${verb}`).then(sinks.again), done);
  return {
    title: "Sinks",
    actions: html`<button class="button primary admins" @click=${() => add(types.state.peek().data ?? [], sinks.again)}>Add a sink</button>`,
    body: html`<div class="stack">${whenLoaded(sinks, (rows) => (rows.length ? rows.map((/** @type {any} */ row) => html`<section class="panel stack" data-sink=${row.name}>
      <div class="spread"><div class="row"><span class="job-name">${row.name}</span>${tag(row.state)}<code>${row.type ?? ""}</code></div>
        <div class="row end">${row.set_aside ? html`<button class="button small" @click=${() => refused(row, sinks.again)}>${number(row.set_aside)} refused</button>` : null}
          <button class="button writes small" @click=${steer(row, row.state === "paused" ? "resume" : "pause", "Done.")}>${row.state === "paused" ? "Resume" : "Pause"}</button>
          <button class="button writes small" @click=${() => replay(row, sinks.again)}>Replay from…</button>
          ${row.origin === "row" || !row.configured ? html`<button class="button admins small danger" @click=${(/** @type {Event} */ event) => removal(event, row, sinks.again)}>Remove</button>` : null}</div></div>
      ${row.error && row.failing_since ? html`<div class="notice">${row.error} <span>· since ${ago(row.failing_since)}${row.retry_at ? ` · next try ${Date.parse(row.retry_at) > Date.now() ? ago(row.retry_at) : "now"}, by itself` : ""}</span></div>` : null}
      ${row.problem ? html`<div class="notice">${row.problem}</div>` : null}
      <div class="figures">${[["Delivered", number(row.delivered)], ["Behind", number(row.behind)], ["Lag", row.behind ? duration(row.lag_seconds) : "–"], ["Retries waiting", number(row.waiting)], ["Refused", number(row.set_aside)], ["Per second", rate(row.rate)]]
        .map(([label, value]) => html`<div><div class="label">${explained(label ?? "")}</div><div class="value">${value}</div></div>`)}</div>
      <div class="faint">${row.kinds ? `Kinds: ${row.kinds.map(words).join(", ")}. ` : "All kinds. "}${row.where ? html`Where <code>${row.where}</code>. ` : null}<span title=${utc(row.moved_at)}>Last moved ${ago(row.moved_at)}.</span>${row.state === "idle" ? " No process delivers it now: forager up does." : ""}${row.error && !row.failing_since ? html` Last error ${ago(row.error_at)}: ${row.error}` : null}</div></section>`)
      : html`<div class="panel empty"><p>No sinks: changes stay in the store until one is added.</p><code>forager sinks add lake files --folder ./lake</code></div>`))}</div>`,
  };
}

/** @param {any} row */
const pathOf = (row) => `/api/v1/sinks/${encodeURIComponent(row.name)}`;

/** @param {Event} event @param {any} row @param {() => void} done */
async function removal(event, row, done) {
  if (await confirmed(`Remove the sink ${row.name}, its position and its ${number(row.set_aside)} refused changes? What it has delivered stays.`, "Remove")) await act(event, () => remove(pathOf(row)).then(done), "Removed.");
}

/** From where in the log a sink delivers again: a number of a change, or the first change after a moment. @param {any} row @param {() => void} done */
function replay(row, done) {
  const last = row.cursor + row.behind;
  const schema = { required: ["after"], properties: { after: { type: "integer", description: `0: the whole log. It is at ${number(row.cursor)} of ${number(last)} now; a larger number leaves changes out.` } } };
  dialog((close) => html`<div class="inside"><h2>Deliver again to ${row.name}</h2>
    <p class="quiet">A change takes effect once by its number. A stream, such as a Kafka topic, shows it again under the same number.</p>
    <div class="row">${[["the last 100", 100], ["the last 1,000", 1000], ["all", last]].map(([title, count]) => html`<button type="button" class="chip" @click=${(/** @type {Event} */ event) => fill(event, Math.max(0, last - Number(count)))}>${title}</button>`)}</div>
    ${schemaForm(schema, {
      submit: "Deliver again", titles: { after: "After change number" }, values: { after: 0 },
      save: (values) => post(`${pathOf(row)}/replay`, values).then(() => (toast(`${row.name} delivers the changes after ${number(values.after)}.`), close(), done())),
    })}</div>`, `Deliver again to ${row.name}`);
}

/** @param {Event} event @param {number} value */
function fill(event, value) {
  const input = /** @type {HTMLElement} */ (event.target).closest("dialog")?.querySelector("[name=after]");
  if (input instanceof HTMLInputElement) input.value = String(value);
}

/** What a receiver has rejected: try one or all again, or give up on them. @param {any} row @param {() => void} done */
function refused(row, done) {
  const again = signal(0);
  /** @param {string} verb @param {number} [change] */
  const decide = (verb, change) => (/** @type {Event} */ event) => act(event, async () => {
    await post(`${pathOf(row)}/refused/${verb}`, {}, change ? { change } : {});
    again.value = again.peek() + 1;
    done();
  }, verb === "retry" ? "Delivered again shortly." : "Discarded. The log keeps them.");
  const [content, end] = scoped(() => html`<div class="inside"><div class="spread"><h2>Refused by ${row.name}</h2><span class="row"><button class="button writes small" @click=${decide("retry")}>Deliver all again</button><button class="button writes small danger" @click=${decide("discard")}>Discard all</button></span></div>
    ${pagedTable({
      path: `${pathOf(row)}/refused`, keyOf: (each) => each.change, again, pageSize: 20,
      columns: [
        { title: "Change", cell: (each) => html`<a class="link" href=${`/records/${each.kind}/${encodeURIComponent(each.key)}`}>${words(each.kind)}</a> <code>${String(each.change)}</code>` },
        { title: "Why", cell: (each) => html`<span class="quiet">${each.error}</span><div class="faint">${each.retry ? "tried again shortly" : `tried ${number(each.tries)} times, last ${ago(each.at)}`}</div>` },
        { title: "", right: true, cell: (each) => html`<button class="button writes small" @click=${decide("retry", each.change)}>Again</button>` },
      ], empty: () => "Nothing is refused.",
    })}</div>`);
  dialog(() => content, `Refused by ${row.name}`).addEventListener("close", end);
}

/** @param {any[]} types @param {() => void} done */
function add(types, done) {
  const addable = types.filter((each) => each.addable !== false);
  const type = signal(addable[0]?.name ?? "");
  const problem = signal("");
  dialog((close) => {
    const chosen = () => addable.find((each) => each.name === type.value);
    return html`<div class="inside"><h2>Add a sink</h2>
      <label class="field"><span>Type</span><select @change=${(/** @type {Event} */ event) => (type.value = /** @type {HTMLSelectElement} */ (event.target).value)}>${addable.map((each) => html`<option value=${each.name}>${each.name}</option>`)}</select><span class="faint">${() => chosen()?.summary ?? ""}</span></label>
      ${() => schemaForm(chosen()?.options ?? {}, {
        extra: { name: { type: "string", description: "Letters, digits, . _ and -" } }, submit: "Add", problem,
        save: async (values) => {
          const { name, ...options } = values;
          const { data } = await post("/api/v1/sinks", { name, type: type.peek(), options });
          toast(data.warnings?.length ? `${name} is added. ${data.warnings[0]}` : `${name} is added.`, { bad: Boolean(data.warnings?.length) });
          close();
          done();
        },
      })}</div>`;
  }, "Add a sink");
}
