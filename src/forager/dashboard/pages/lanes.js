// @ts-check
/** Lanes: who may be asked how often, what waits and why. Proxies beside them. */

import { post } from "../lib/api.js";
import { ago, duration, rate, utc } from "../lib/format.js";
import { load, whenLoaded } from "../lib/load.js";
import { html, onEnd, signal } from "../lib/view.js";
import { act } from "../parts/feedback.js";
import { tag } from "../parts/states.js";
import { pagedTable } from "../parts/table.js";

export function page() {
  const again = signal(0);
  const proxies = load("/api/v1/proxies", { every: 30 });
  const timer = setInterval(() => document.hidden || (again.value = again.peek() + 1), 15_000);
  onEnd(() => clearInterval(timer));
  return {
    title: "Lanes",
    body: html`<div class="stack">
      <section class="panel">${pagedTable({
        path: "/api/v1/lanes", keyOf: (row) => row.name, href: (row) => `/lanes/${encodeURIComponent(row.name)}`, again,
        columns: [
          { title: "Lane", cell: (row) => html`<span class="job-name">${row.name}</span>` },
          { title: "State", cell: (row) => (row.paused ? tag("paused") : row.state?.breaker === "open" ? tag("open", "breaker open") : row.waiting ? tag("waiting") : row.owner ? tag("active") : tag("idle")) },
          { title: "Why it waits", cell: (row) => html`<span class="quiet">${row.waiting?.message ?? ""}</span>` },
          { title: "Sent now", right: true, wide: true, cell: (row) => html`<span title="requests of the process that answers, over half a minute">${row.per_second === null || row.per_second === undefined ? "–" : rate(row.per_second)}</span>` },
          { title: "Owner", wide: true, cell: (row) => html`<code>${row.owner ?? "–"}</code>` },
          { title: "Wakes", right: true, wide: true, cell: (row) => html`<span title=${utc(row.wake_at)}>${row.wake_at ? ago(row.wake_at) : "–"}</span>` },
          { title: "", right: true, cell: (row) => html`<button class="button writes small" @click=${(/** @type {Event} */ event) => act(event, () => post(`/api/v1/lanes/${encodeURIComponent(row.name)}/${row.paused ? "resume" : "pause"}`).then(() => (again.value = again.peek() + 1)))}>${row.paused ? "Resume" : "Pause"}</button>` },
        ], empty: () => "No lane yet: the first job makes one for each site and API.",
      })}</section>
      <section class="panel"><header><h2>Proxies</h2></header>${whenLoaded(proxies, (rows) => (rows.length ? html`<div class="scroll"><table><thead><tr><th>Proxy</th><th>State</th><th>Region</th><th class="num">Latency</th><th></th></tr></thead><tbody>
        ${rows.map((/** @type {any} */ row) => html`<tr><td><code>${`${row.protocol}://${row.url}:${row.port}`}</code></td><td>${!row.is_active ? tag("paused", "off") : row.disabled || !row.healthy ? tag("failed", "unhealthy") : tag("active", "healthy")}</td><td>${row.region ?? "–"}</td><td class="num">${row.avg_response_time_ms ? duration(row.avg_response_time_ms / 1000) : "–"}</td>
          <td class="num"><button class="button admins small" @click=${(/** @type {Event} */ event) => act(event, () => post(`/api/v1/proxies/${encodeURIComponent(row.id ?? row.name)}/check`).then(proxies.again), "Checked.")}>Check</button></td></tr>`)}</tbody></table></div>`
        : html`<div class="empty"><p>No proxies: requests leave from this machine.</p><code>forager proxies add http://user:password@host:port</code></div>`))}</section></div>`,
  };
}
