// @ts-check
/** Reviews: accounts → locations → reviews as a job finds them; ratings over time; start from an access token. */

import { ApiError, address, post } from "/dashboard/lib/api.js";
import { ago, number, plural } from "/dashboard/lib/format.js";
import { follow } from "/dashboard/lib/live.js";
import { load, whenLoaded } from "/dashboard/lib/load.js";
import { go, setQuery } from "/dashboard/lib/router.js";
import { effect, html, list, signal } from "/dashboard/lib/view.js";
import { jobBar, progressText, tag } from "/dashboard/parts/states.js";
import { ratingPanel, reviewList } from "./reviews.js";

/** A token of the simulated Google. It opens nothing else. */
const SIMULATED = "sandbox-demo";

/** @param {{ id?: string }} params @param {URLSearchParams} query */
export function page({ id }, query) {
  const jobs = load("/api/v1/jobs", { query: { pipeline: "reviews", limit: 20 } });
  const job = signal(id ?? "");
  effect(() => {
    const newest = jobs.state.value.data?.[0]?.id;
    if (!job.peek() && newest) job.value = newest;
  });
  return {
    title: "Reviews",
    state: html`<span class="quiet">of a Google Business Profile</span>`,
    body: html`<div class="playground reviews">
      <div class="stack">${start()}
        <section class="panel"><header><h2>Jobs</h2></header>${whenLoaded(jobs, (rows) => (rows.length ? rows.map((/** @type {any} */ each) => html`<a class="look" href=${`/reviews/${each.id}`} aria-current=${() => (job.value === each.id ? "true" : null)}>${tag(each.state)}
          <span class="clip quiet">${ago(each.created_at)}</span><code>${each.id.slice(0, 6)}</code></a>`) : html`<div class="empty"><p>No job yet.</p><code>forager demo reviews</code></div>`))}</section></div>
      ${() => (job.value ? oneJob(job.value, query) : html`<div class="panel empty"><p>Give an access token: accounts, locations and reviews appear here as they are found.</p></div>`)}
    </div>`,
  };
}

function start() {
  const problem = signal("");
  const busy = signal(false);
  const system = load("/api/v1/system");
  /** Whether Google is simulated here, as in `forager demo --stay`: its hosts are on this machine. */
  const simulated = () => (system.state.value.data?.settings ?? []).some((/** @type {any} */ each) => each.name === "FORAGER_GOOGLE_REVIEWS_URL" && /^https?:\/\/(127\.|localhost)/.test(each.value ?? ""));
  /** @param {SubmitEvent} event */
  const send = (event) => {
    event.preventDefault();
    const field = /** @type {HTMLInputElement} */ (/** @type {HTMLFormElement} */ (event.currentTarget).elements.namedItem("access_token"));
    return begin(field.value.trim(), () => (field.value = ""));
  };
  /** @param {string} token @param {() => void} [done] */
  async function begin(token, done) {
    [busy.value, problem.value] = [true, ""];
    try {
      const made = await post("/api/v1/review-fetch", { access_token: token });
      done?.();
      await go(`/reviews/${made.data.job_id}`);
    } catch (error) {
      problem.value = error instanceof ApiError ? (error.fields.access_token ?? error.message) : String(error);
    } finally {
      busy.value = false;
    }
  }
  return html`<section class="panel"><form class="stack" novalidate @submit=${send}>
    <label class="field"><span>Access token</span><input type="password" name="access_token" autocomplete="off" placeholder="ya29.…" required>
      <span class="faint">OAuth, with the scope business.manage. It is sealed while the job runs and deleted when it ends.</span>
      ${() => (problem.value ? html`<span class="error" role="alert">${problem.value}</span>` : null)}</label>
    <div class="row"><button class="button primary" ?disabled=${() => busy.value}>Fetch the reviews</button></div></form>
    <div class="apart writes">${() => (simulated() ? html`<p class="quiet">No token at hand?</p><button class="button" ?disabled=${() => busy.value} @click=${() => begin(SIMULATED)}>Fetch from the simulated world</button>`
      : html`<p class="quiet">No token at hand? A simulated world has one: <code>forager demo --stay</code></p>`)}</div></section>`;
}

/** @param {string} id @param {URLSearchParams} query */
function oneJob(id, query) {
  const path = `/api/v1/review-fetch/${encodeURIComponent(id)}`;
  const counts = load(path);
  const tree = load(`${path}/tree`);
  const chosen = signal({ account: query.get("account") ?? "", location: query.get("location") ?? "" });
  const grown = signal(0);
  const job = signal(/** @type {any} */ (null));
  let done = -1;
  follow(`job:${id}`, (data) => {
    job.value = data;
    const moved = data.completed + data.failed;
    if (moved === done && !data.finished_at) return;
    done = moved;
    counts.again();
    tree.again();
    grown.value = grown.peek() + 1;
  });
  /** @param {string} account @param {string} location */
  const choose = (account, location) => {
    const same = chosen.peek().account === account && chosen.peek().location === location;
    chosen.value = same ? { account: "", location: "" } : { account, location };
    setQuery(chosen.peek());
  };
  return html`<div class="stack">
    <div class="cards">${whenLoaded(counts, (data) => html`${figure("Accounts", data.accounts)}${figure("Locations", data.locations)}${figure("Reviews", data.reviews)}
      <div class="panel card"><div class="label">State</div><div class="figure">${tag(data.status)}</div>${() => (job.value && !job.value.finished_at ? html`${jobBar(job.value)}<div class="quiet">${progressText(job.value)}</div>` : html`<div class="quiet">${data.failures ? `${plural(data.failures, "page")} failed` : `${number(data.pages)} pages`}</div>`)}</div>`)}</div>
    ${() => (counts.state.value.data?.error ? html`<div class="notice" role="alert">${counts.state.value.data.error}</div>` : null)}
    <div class="split even">
      <section class="panel"><header><h2>Accounts and locations</h2><a href=${address("/api/v1/export/review", { job: id, format: "csv" })} download>Export CSV</a></header>${whenLoaded(tree, () => html`<div class="long tree">${list(() => tree.state.value.data ?? [], (account) => account.account_id, (account) => branch(account, chosen, choose))}</div>`)}</section>
      ${ratingPanel(path, chosen, grown)}
    </div>
    ${reviewList(path, chosen, grown)}</div>`;
}

/** @param {string} label @param {number} count */
const figure = (label, count) => html`<div class="panel card"><div class="label">${label}</div><div class="figure" data-figure=${label.toLowerCase()}>${number(count)}</div></div>`;

/** @param {import("/dashboard/lib/view.js").Signal<any>} account @param {import("/dashboard/lib/view.js").Signal<{ account: string, location: string }>} chosen @param {(account: string, location: string) => void} choose */
function branch(account, chosen, choose) {
  const id = account.peek().account_id;
  const total = () => account.value.locations.reduce((/** @type {number} */ sum, /** @type {any} */ each) => sum + each.reviews, 0);
  return html`<section><div class="tree-head"><button class="plain-row strong" @click=${() => choose(id, "")}>${() => account.value.account_name ?? id}</button>
      <span class="faint">${() => `${plural(account.value.locations.length, "location")} · ${plural(total(), "review")}`}</span></div>
    ${list(() => account.value.locations, (each) => each.location_id, (each) => html`<button class="leaf" aria-pressed=${() => String(chosen.value.location === each.value.location_id && chosen.value.account === id)} @click=${() => choose(id, each.peek().location_id)}>
      <span class="clip">${() => each.value.title ?? each.value.location_id}</span><span class="num quiet">${() => each.value.rating?.toFixed(1) ?? "–"} ★</span><span class="num faint">${() => number(each.value.reviews)}</span></button>`)}</section>`;
}
