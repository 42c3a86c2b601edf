// @ts-check
/** Short messages at the edge of the page, and dialogs that confirm an action or show a form. */

import { html, list, signal } from "../lib/view.js";

/** @typedef {{ id: number, text: string, bad: boolean }} Toast */
const toasts = signal(/** @type {Toast[]} */ ([]));
let last = 0;

/** @param {string} text @param {{ bad?: boolean }} [options] */
export function toast(text, { bad = false } = {}) {
  const id = ++last;
  toasts.value = [...toasts.peek(), { id, text, bad }];
  setTimeout(() => (toasts.value = toasts.peek().filter((each) => each.id !== id)), bad ? 8000 : 4000);
}

export const toastArea = () => html`<div class="toasts" role="status" aria-live="polite">
  ${list(() => toasts.value, (each) => each.id, (each) => html`<div class=${() => `toast ${each.value.bad ? "bad" : ""}`}>${() => each.value.text}</div>`)}</div>`;

/** A text of the API with what stands between backticks as code. @param {string} text */
export const withCode = (text) => text.split("`").map((part, index) => (index % 2 ? html`<code>${part}</code>` : part));

/**
 * Run an action and report how it went: `done`, or the sentence that the action returns. The button that was pressed is
 * disabled meanwhile.
 * @param {Event} event @param {() => Promise<unknown>} action @param {string} [done]
 */
export async function act(event, action, done) {
  const button = event.currentTarget instanceof HTMLButtonElement ? event.currentTarget : null;
  if (button) button.disabled = true;
  try {
    const told = await action();
    if (done || typeof told === "string") toast(done ?? String(told));
    return true;
  } catch (error) {
    toast(error instanceof Error ? error.message : String(error), { bad: true });
    return false;
  } finally {
    if (button) button.disabled = false;
  }
}

/**
 * Show a dialog. `render` gets a function that closes it.
 * @param {(close: () => void) => Node} render @param {string} label
 */
export function dialog(render, label) {
  const element = document.createElement("dialog");
  element.setAttribute("aria-label", label);
  element.append(render(() => element.close()));
  element.addEventListener("close", () => element.remove());
  element.addEventListener("click", (event) => event.target === element && element.close());
  document.body.append(element);
  element.showModal();
  return element;
}

/** Ask before something that cannot be undone. @param {string} question @param {string} verb @returns {Promise<boolean>} */
export function confirmed(question, verb) {
  return new Promise((resolve) => {
    let answer = false;
    const element = dialog(
      (close) => html`<div class="inside"><p>${question}</p><div class="row">
        <button class="button primary" @click=${() => ((answer = true), close())}>${verb}</button>
        <button class="button" @click=${close}>Keep as it is</button></div></div>`,
      question,
    );
    element.addEventListener("close", () => resolve(answer));
  });
}
