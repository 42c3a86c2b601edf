// @ts-check
/** The dialogs of "Watches & alerts": add a watch, a rule with its preview, a channel; and what a watch has observed. */

import { ApiError, post } from "../lib/api.js";
import { ago, plural, utc } from "../lib/format.js";
import { load, whenLoaded } from "../lib/load.js";
import { html, scoped, signal } from "../lib/view.js";
import { dialog, toast } from "./feedback.js";
import { schemaForm } from "./form.js";

const PREVIEW_MS = 400;
/** Kinds that are no records of a pipeline: the state of Forager itself. */
const OWN_KINDS = ["job", "dead_letters", "sink_state", "spend"];

/** Words that were removed and added, from the marks `[-old-]` and `{+new+}`, as elements. @param {string | null | undefined} text */
export function marked(text) {
  return (text ?? "").split(/(\[-.*?-\]|\{\+.*?\+\})/).map((part) => {
    if (part.startsWith("[-") && part.endsWith("-]")) return html`<del>${part.slice(2, -2)}</del>`;
    if (part.startsWith("{+") && part.endsWith("+}")) return html`<ins>${part.slice(2, -2)}</ins>`;
    return part;
  });
}

/** @param {any} value */
const shown = (value) => (value === null || value === undefined ? "nothing" : typeof value === "object" ? JSON.stringify(value) : String(value));

/** A difference by field, or by word. @param {any} difference */
function differing(difference) {
  const fields = Object.entries(difference?.fields ?? {});
  return html`${fields.map(([name, each]) => html`<div>${name}: <del>${shown(each.before)}</del> <ins>${shown(each.after)}</ins></div>`)}
    ${(difference?.lines ?? []).map((/** @type {any} */ line) => html`<div>${marked(line.words)}</div>`)}`;
}

/** What a watch has observed, newest first. @param {any} watch */
export function observations(watch) {
  const [content, end] = scoped(() => {
    const found = load(`/api/v1/watches/${encodeURIComponent(watch.name)}/observations`, { query: { limit: 20 } });
    return html`<div class="inside"><div class="spread"><h2>${watch.title ?? watch.name}</h2><button class="button small" @click=${() => element.close()}>Close</button></div>
      ${watch.screenshot ? html`<div class="two">${[["before the change", watch.screenshot_before], ["after the change", watch.screenshot]].map(([alt, path]) => (path ? html`<img class="shot" src=${path} alt=${alt}>` : null))}</div>` : null}
      ${whenLoaded(found, (rows) => (rows.length
        ? html`<div>${rows.map((/** @type {any} */ row) => html`<div class="observation"><div class="quiet" title=${utc(row.at)}>${ago(row.at)}</div>${row.op === "new" ? html`<div class="quiet">First seen.</div>` : differing(row.difference)}</div>`)}</div>`
        : html`<p class="quiet">Nothing yet: the page was not read.</p>`))}</div>`;
  });
  const element = dialog(() => content, "What was observed");
  element.addEventListener("close", end);
}

/** @param {string[]} channels */
const notifyField = (channels) => ({ type: "array", description: channels.length ? `Channels, one per line: ${channels.join(", ")}` : "There is no channel yet; add one to be told of changes." });

/** @param {string[]} channels @param {() => void} done */
export function addWatch(channels, done) {
  const schema = {
    required: ["url"],
    properties: {
      url: { type: "string", description: "The page, with http:// or https://" },
      name: { type: "string", description: "Without one, it is made from the address." },
      every: { type: "string", description: "30m, 1h, 1d: a minute to 366 days" },
      select: { type: "string", description: "CSS selector: watch the text of these elements only." },
      notify: notifyField(channels),
      when: { type: "string", description: "Alert only when this becomes true: price < 50" },
      schema: { type: "object", description: "Watch fields: the name of a stored schema, or a schema in JSON." },
      render: { type: "string", enum: ["http", "browser", "auto"], description: "auto: a browser only where it is needed." },
      ignore: { type: "string", enum: ["dates", "counters", "nothing"], description: "Without a choice, dates and counters are no change." },
      screenshots: { type: "boolean", description: "Keep a picture before and after a change; needs a browser." },
    },
  };
  dialog((close) => html`<div class="inside"><h2>Watch a page</h2>${schemaForm(schema, {
    submit: "Watch", values: { every: "1h" }, first: ["name", "select", "notify", "when"], titles: { url: "Address", select: "Only these elements", when: "Alert when" },
    save: async (values) => {
      const { ignore, ...body } = values;
      if (typeof body.schema === "string" && body.schema.startsWith("{")) throw new ApiError(422, null, { fields: [{ field: "schema", message: "This is no valid JSON." }] });
      if (ignore) body.ignore = ignore === "nothing" ? [] : [ignore];
      const made = await post("/api/v1/watches", body);
      toast(`${made.data.name} is watched; its first check has started.`);
      close();
      done();
    },
  })}</div>`, "Watch a page");
}

/** @param {string[]} kinds @param {string[]} channels @param {() => void} done */
export function addRule(kinds, channels, done) {
  const preview = signal(/** @type {any} */ (null));
  let turn = 0;
  /** @param {Record<string, any>} values */
  const look = (values) => {
    const mine = ++turn;
    const { name: _name, notify: _notify, ...asked } = values;
    setTimeout(async () => {
      if (mine !== turn) return;
      const found = await post("/api/v1/rules/preview", asked).then((answer) => answer.data, (error) => ({ error: error.message }));
      if (mine === turn) preview.value = found;
    }, PREVIEW_MS);
  };
  const schema = {
    required: ["name", "kind", "notify"],
    properties: {
      name: { type: "string" },
      kind: { type: "string", enum: [...new Set([...kinds, ...OWN_KINDS])], description: "Kind of the records it is about." },
      notify: notifyField(channels),
      when: { type: "string", description: "price < old.price * 0.95; without one, every change is an alert." },
      key: { type: "string", description: "Only the record with this key." },
      repeats: { type: "boolean", description: "Fire on every change that meets the condition, not only when it becomes true." },
    },
  };
  const values = channels.length === 1 ? { notify: channels } : {};
  dialog((close) => html`<div class="inside"><h2>Add a rule</h2>${schemaForm(schema, {
    submit: "Add the rule", values, titles: { kind: "On", when: "When" }, changed: look,
    save: async (given) => {
      const made = await post("/api/v1/rules", given);
      toast(`${made.data.name} is added; it ${made.data.preview.text}.`);
      close();
      done();
    },
  })}
  <div role="status" data-preview>${() => {
    const found = preview.value;
    if (!found) return html`<p class="quiet">While you type, the last 7 days show how often it would have fired. Nothing is sent.</p>`;
    if (found.error) return html`<div class="notice warn">${found.error}</div>`;
    return html`<div class="notice ok">It ${found.text}, of ${plural(found.changes, "change")}.</div>
      ${found.first.map((/** @type {any} */ each) => html`<div class="quiet" title=${utc(each.at)}>${each.title} · ${each.op} · ${ago(each.at)}</div>`)}`;
  }}</div></div>`, "Add a rule");
}

/** @param {() => void} done */
export function addChannel(done) {
  const schema = {
    required: ["name", "url"],
    properties: {
      name: { type: "string" },
      url: { type: "string", format: "password", description: "slack://…, mailto://…, ntfy://…, json://…. It is sealed and never shown again." },
      digest: { type: "string", description: "1h: one message with all alerts of the hour." },
      quiet: { type: "string", description: "22-7: hours in which nothing is sent." },
      timezone: { type: "string", description: "Of the quiet hours: Europe/Berlin" },
      per_hour: { type: "integer", description: "Messages per hour; alerts beyond them are joined." },
    },
  };
  dialog((close) => html`<div class="inside"><h2>Add a channel</h2>${schemaForm(schema, {
    submit: "Add", titles: { url: "Address", quiet: "Quiet hours" },
    save: (values) => post("/api/v1/channels", values).then(() => (toast(`${values.name} is added. Test it to send a first message.`), close(), done())),
  })}</div>`, "Add a channel");
}
