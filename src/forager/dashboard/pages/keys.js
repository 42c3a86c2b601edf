// @ts-check
/** Named keys with roles, and the log of what was done with them. For admins. */

import { isAdmin, post, remove } from "../lib/api.js";
import { ago, moment, utc } from "../lib/format.js";
import { load, whenLoaded } from "../lib/load.js";
import { html, signal } from "../lib/view.js";
import { act, confirmed, dialog } from "../parts/feedback.js";
import { schemaForm } from "../parts/form.js";
import { tag } from "../parts/states.js";
import { pagedTable } from "../parts/table.js";

const NEW_KEY = { properties: { name: { type: "string", description: "It stands in the log of actions." }, role: { enum: ["viewer", "operator", "admin"], description: "viewer: read; operator: run and steer; admin: everything." } }, required: ["name", "role"] };

/** @param {Record<string, string>} _params @param {URLSearchParams} query */
export function page(_params, query) {
  if (!isAdmin()) return { title: "Keys", body: html`<div class="panel empty">Keys and the log of actions are for admins.</div>` };
  const keys = load("/api/v1/keys");
  const again = signal(0);
  const only = signal(query.get("key") ?? "");
  const reload = () => (keys.again(), (again.value = again.peek() + 1));
  /** @param {Event} event @param {string} name */
  const revoke = (event, name) => act(event, async () => {
    if (!(await confirmed(`Revoke the key ${name}? Its sessions and streams end.`, "Revoke"))) return;
    await remove(`/api/v1/keys/${encodeURIComponent(name)}`);
    reload();
  });
  /** @param {Event} event @param {string} name */
  const rotate = async (event, name) => {
    if (!(await confirmed(`Replace the text of the key ${name}? The old text is refused at once; name, role and log stay.`, "Replace"))) return;
    await act(event, async () => {
      const text = (await post(`/api/v1/keys/${encodeURIComponent(name)}/rotate`)).data.key;
      dialog((close) => html`<div class="inside"><h2>${name}</h2>${once(text, close)}</div>`, `New text of ${name}`);
      reload();
    });
  };
  return {
    title: "Keys",
    actions: html`<button class="button primary" @click=${() => add(reload)}>New key</button>`,
    body: html`<div class="stack">
      <section class="panel">${whenLoaded(keys, (rows) => html`<div class="scroll"><table><thead><tr><th>Key</th><th>Role</th><th class="wide-only">Made</th><th>Last used</th><th></th></tr></thead><tbody>
        ${rows.map((/** @type {any} */ row) => html`<tr><td><button class="button plain small flush" @click=${() => (only.value = only.peek() === row.name ? "" : row.name)}><span class="job-name">${row.name}</span></button></td>
          <td>${tag(row.role === "admin" ? "paused" : row.role === "operator" ? "running" : "", row.role)}</td><td class="wide-only" title=${utc(row.created_at)}>${row.created_at ? `${ago(row.created_at)} by ${row.created_by}` : "in the data folder or a setting"}</td>
          <td title=${utc(row.last_used_at)}>${row.last_used_at ? ago(row.last_used_at) : "–"}</td>
          <td class="num">${row.created_at ? html`<button class="button admins small" @click=${(/** @type {Event} */ event) => rotate(event, row.name)}>Rotate</button> <button class="button admins small danger" @click=${(/** @type {Event} */ event) => revoke(event, row.name)}>Revoke</button>` : null}</td></tr>`)}</tbody></table></div>`)}</section>
      <section class="panel"><header><h2>Actions</h2><span class="faint">${() => (only.value ? `of ${only.value}` : "every write, newest first")}</span></header>${pagedTable({
        path: "/api/v1/actions", query: () => ({ key: only.value }), again, keyOf: (row) => row.request_id,
        columns: [
          { title: "When", cell: (row) => html`<span class="nowrap" title=${utc(row.at)}>${moment(row.at)}</span>` },
          { title: "Key", cell: (row) => row.key_name },
          { title: "What", cell: (row) => html`<code>${row.method} ${row.path}</code>` },
          { title: "Status", right: true, cell: (row) => tag(row.status < 400 ? "ok" : "failed", String(row.status)) },
        ], empty: () => "Nothing was written yet.",
      })}</section></div>`,
  };
}

/** The text of a key, which is shown this once. @param {string} text @param {() => void} close */
const once = (text, close) => html`<div class="notice ok">Keep it now: it cannot be shown again.</div><pre>${text}</pre><div class="row"><button class="button primary" @click=${close}>Done</button></div>`;

/** @param {() => void} done */
function add(done) {
  const made = signal("");
  dialog((close) => html`<div class="inside"><h2>New key</h2>${() => (made.value
    ? once(made.value, close)
    : schemaForm(NEW_KEY, { submit: "Make the key", save: async (values) => {
      made.value = (await post("/api/v1/keys", values)).data.key;
      done();
    } }))}</div>`, "New key");
}
