// @ts-check
/** The dialog that adds or changes a schedule: when, and the parameters of its jobs. */

import { put } from "../lib/api.js";
import { money, plural, words } from "../lib/format.js";
import { html, signal } from "../lib/view.js";
import { dialog, toast } from "./feedback.js";
import { schemaForm } from "./form.js";

const WHEN = {
  name: { type: "string", description: "Letters, digits, . _ and -" },
  when: { type: "string", description: "How often (30m, 6h, 1d), or a cron expression: 0 3 * * *" },
  timezone: { type: "string", description: "Of a cron expression; 6:00 stays 6:00 where clocks change." },
};

/** @param {any[]} pipelines @param {any | null} existing @param {() => void} done */
export function scheduleForm(pipelines, existing, done) {
  const chosen = signal(existing?.pipeline ?? pipelines[0]?.name ?? "");
  const title = existing ? `Change ${existing.name}` : "Add a schedule";
  dialog((close) => html`<div class="inside"><h2>${title}</h2>
    <label class="field"><span>Pipeline</span><select aria-label="Pipeline" ?disabled=${Boolean(existing)} @change=${(/** @type {Event} */ event) => (chosen.value = /** @type {HTMLSelectElement} */ (event.target).value)}>${pipelines.map((each) => html`<option value=${each.name} ?selected=${each.name === chosen.peek()}>${words(each.name)}</option>`)}</select></label>
    ${() => {
      const pipeline = pipelines.find((each) => each.name === chosen.value);
      if (!pipeline) return null;
      const { name: _name, ...later } = WHEN;
      return schemaForm(pipeline.params, {
        submit: existing ? "Save" : "Add", extra: existing ? later : WHEN, optional: ["timezone"],
        values: existing ? { ...existing.params, when: existing.cron ?? `${existing.every}`, timezone: existing.timezone } : { timezone: "UTC" },
        save: async (given) => {
          const { name = existing?.name, when = "", timezone, ...params } = given;
          const moment = /\s/.test(String(when).trim()) ? { cron: when } : { every: /^[\d.]+$/.test(when) ? Number(when) : when };
          const { data } = await put(`/api/v1/schedules/${encodeURIComponent(name)}`, { pipeline: pipeline.name, params, ...moment, ...(timezone ? { timezone } : {}), ...(existing?.paused ? { paused: true } : {}) });
          toast(data.per_month ? `${name}: ${plural(data.per_month.jobs, "job")} a month, about ${money(data.per_month.expected_usd)}.` : `${name} is ${existing ? "changed" : "added"}.`);
          close();
          done();
        },
      });
    }}</div>`, title);
}
