// @ts-check
/** The page of a browser that is not signed in: a key once, then a cookie that no script can read. */

import { ApiError, get, request, session } from "../lib/api.js";
import { html, signal } from "../lib/view.js";

export function signIn() {
  const problem = signal("");
  const busy = signal(false);
  /** @param {SubmitEvent} event */
  async function submit(event) {
    event.preventDefault();
    const key = String(new FormData(/** @type {HTMLFormElement} */ (event.target)).get("key") ?? "").trim();
    busy.value = true;
    try {
      await request("POST", "/dashboard/session", { body: { key } });
      session.value = (await get("/dashboard/session")).data;
    } catch (error) {
      problem.value = error instanceof ApiError ? error.message : String(error);
    } finally {
      busy.value = false;
    }
  }
  return html`<main class="sign-in"><form class="panel" @submit=${submit}>
    <div class="mark"><img src="/dashboard/mark.svg" alt="">Forager</div>
    <label class="field"><span>Key</span><input type="password" name="key" required autofocus autocomplete="current-password" aria-describedby="where"></label>
    ${() => (problem.value ? html`<div class="notice" role="alert">${problem.value}</div>` : null)}
    <button class="button primary" ?disabled=${() => busy.value}>Sign in</button>
    <p class="quiet" id="where">The service key is in <code>service.key</code> in the data folder. <code>forager up</code> also prints a link that signs you in.</p>
  </form></main>`;
}
