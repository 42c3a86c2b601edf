// @ts-check
/** The parts of the places page. */

import { html } from "/dashboard/lib/view.js";

/** @param {"map" | "coverage" | "plan"} now */
export const sections = (now) => html`<span class="segments">${/** @type {const} */ ([["map", "/places", "Map"], ["coverage", "/places/coverage", "Coverage"], ["plan", "/places/plan", "Plan"]])
  .map(([name, href, title]) => html`<a href=${href} aria-current=${name === now ? "page" : null}>${title}</a>`)}</span>`;
