// @ts-check
/** The reviews of what is chosen, with stars and answers; how the rating moved, and how the stars are spread. */

import { get } from "/dashboard/lib/api.js";
import { ago, percent, plural, utc } from "/dashboard/lib/format.js";
import { load, whenLoaded } from "/dashboard/lib/load.js";
import { effect, html, list, signal } from "/dashboard/lib/view.js";
import { bars, timeChart } from "/dashboard/parts/chart.js";

/** @typedef {import("/dashboard/lib/view.js").Signal<{ account: string, location: string }>} Chosen */

/** @param {number | null} rating */
const stars = (rating) => html`<span class="stars" role="img" aria-label=${rating ? `${rating} of 5 stars` : "no stars"}>${"★".repeat(rating ?? 0)}<i>${"☆".repeat(5 - (rating ?? 0))}</i></span>`;

/** @param {string} path @param {Chosen} chosen @param {import("/dashboard/lib/view.js").Signal<number>} grown */
export function ratingPanel(path, chosen, grown) {
  const ratings = load(`${path}/ratings`, { query: () => (grown.value, chosen.value) });
  return html`<section class="panel"><header><h2>Rating over time</h2><span class="faint">mean of each month</span></header>${whenLoaded(ratings, ({ months, stars: counts }) => {
    const rated = months.filter((/** @type {any} */ each) => each.rating !== null);
    const total = Object.values(counts).reduce((sum, each) => Number(sum) + Number(each), 0);
    if (!rated.length) return html`<div class="empty">No rating yet.</div>`;
    return html`${timeChart({ times: rated.map((/** @type {any} */ each) => Date.parse(`${each.month}-15`)), values: rated.map((/** @type {any} */ each) => each.rating), label: "mean rating by month", steps: true, height: 110, format: (value) => `${value.toFixed(2)} ★` })}
      <div class="small-chart" title="Reviews by month">${bars(months.map((/** @type {any} */ each) => each.reviews), "reviews by month")}</div>
      <div class="spreads">${[5, 4, 3, 2, 1].map((each) => html`<span class="quiet">${each} ★</span><div class="meter tone-green"><i --share=${total ? counts[each] / total : 0}></i></div><span class="num faint">${percent(total ? counts[each] / total : 0)}</span>`)}</div>`;
  })}</section>`;
}

/** @param {string} path @param {Chosen} chosen @param {import("/dashboard/lib/view.js").Signal<number>} grown */
export function reviewList(path, chosen, grown) {
  const rows = signal(/** @type {any[]} */ ([]));
  const cursor = signal(/** @type {string | null} */ (null));
  const rating = signal("");
  const unanswered = signal(false);
  const busy = signal(true);
  const error = signal("");
  let visit = 0;
  /** @param {string | null} after */
  async function read(after) {
    const mine = ++visit;
    busy.value = true;
    try {
      const answer = await get(`${path}/reviews`, { ...chosen.peek(), rating: rating.peek(), unanswered: unanswered.peek() || "", limit: 30, cursor: after });
      if (mine !== visit) return;
      [rows.value, cursor.value, error.value] = [after ? [...rows.peek(), ...answer.data] : answer.data, answer.meta.next_cursor, ""];
    } catch (problem) {
      if (mine === visit) error.value = problem instanceof Error ? problem.message : String(problem);
    } finally {
      if (mine === visit) busy.value = false;
    }
  }
  effect(() => void (chosen.value, rating.value, unanswered.value, grown.value, read(null)));
  return html`<section class="panel"><header><h2>Reviews</h2><span class="row"><span class="segments" role="group" aria-label="Stars">${["", "5", "4", "3", "2", "1"].map((each) => html`<button aria-pressed=${() => String(rating.value === each)} @click=${() => (rating.value = each)}>${each ? `${each} ★` : "all"}</button>`)}</span>
      <button class="chip" aria-pressed=${() => String(unanswered.value)} @click=${() => (unanswered.value = !unanswered.value)}>without an answer</button></span></header>
    ${() => (error.value ? html`<div class="notice" role="alert">${error.value}</div>` : null)}
    <div>${list(() => rows.value, (row) => `${row.account_id}/${row.location_id}/${row.reviewId}`, (row) => review(row.peek()))}</div>
    ${() => (!busy.value && !rows.value.length ? html`<div class="empty">No review matches.</div>` : null)}
    ${() => (cursor.value ? html`<p class="row"><button class="button small" ?disabled=${() => busy.value} @click=${() => read(cursor.peek())}>Show more</button><span class="faint">${() => plural(rows.value.length, "review")} shown</span></p>` : null)}</section>`;
}

/** @param {any} row */
function review(row) {
  const reply = row.reply?.comment ?? row.reply?.text ?? (typeof row.reply === "string" ? row.reply : null);
  return html`<article class="review"><div class="spread"><span class="row">${stars(row.rating)}<span class="strong">${row.reviewer?.displayName ?? "Anonymous"}</span></span><span class="faint" title=${utc(row.createTime)}>${ago(row.createTime)}</span></div>
    ${row.text ? html`<p>${row.text}</p>` : html`<p class="faint">Stars without words.</p>`}
    ${reply ? html`<blockquote><span class="quiet">Answer of the owner</span> ${reply}</blockquote>` : null}</article>`;
}

