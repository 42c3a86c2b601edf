// @ts-check
/** An address that no page has. */

import { html } from "../lib/view.js";

export const page = () => ({
  title: "Not found",
  body: html`<div class="panel empty"><p>There is no page at <code>${location.pathname}</code>.</p><a class="button" href="/">Overview</a></div>`,
});
