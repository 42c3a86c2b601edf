// @ts-check
/** A product as a card and its small parts: price, stock, picture, where a value came from. */

import { html, svg } from "/dashboard/lib/view.js";
import { money, words } from "/dashboard/lib/format.js";
import { tag } from "/dashboard/parts/states.js";

/** @param {any} product */
export const price = (product) => (product.price === null ? html`<span class="quiet">no price</span>` : money(product.price, product.currency ?? "XXX"));

/** @param {string | null} availability */
export const stock = (availability) => (availability ? tag(availability) : null);

/** The file of a stored picture. @param {{ image_path: string }} image */
export const pictureOf = (image) => `${image.image_path}/raw`;

/** The first stored picture, or a drawn box. @param {any} product */
export function cover(product) {
  const stored = product.images.find((/** @type {any} */ each) => each.image_path);
  if (stored) return html`<img src=${pictureOf(stored)} alt=${stored.alt_text ?? ""} loading="lazy">`;
  const wide = 60 + ((product.id * 37) % 50);
  const high = 34 + ((product.id * 53) % 28);
  const left = 155 - wide / 2;
  return html`<svg class="drawing" viewBox="0 0 310 104" preserveAspectRatio="xMidYMid slice" aria-hidden="true">${svg`<path class="wall" d=${`M${left} ${96 - high}h${wide}v${high}h${-wide}Z`}></path>
    <path d=${`M${left} ${96 - high}l14 -14h${wide}l-14 14M${left + wide + 14} ${82 - high}v${high}l-14 14M${left + wide * 0.42} ${96 - high}l14 -14M${left + wide * 0.58} ${96 - high}l14 -14`}></path>`}</svg>`;
}

/** @param {string | number | null} rating */
export function stars(rating) {
  if (rating === null || rating === undefined) return null;
  const full = Math.round(Number(rating));
  return html`<span class="stars" title=${`${rating} of 5`}>${"★".repeat(full)}<i>${"☆".repeat(5 - full)}</i></span>`;
}

/** Text with what a search has matched marked. The API sends it escaped, with `<em>` around matches: it is taken apart, never parsed as markup. @param {string} text */
export function marked(text) {
  const plain = (/** @type {string} */ part) => part.replace(/&(lt|gt|quot|#x27|#39|amp);/g, (_, name) => ({ lt: "<", gt: ">", quot: '"', "#x27": "'", "#39": "'", amp: "&" })[/** @type {"lt"} */ (name)] ?? "");
  return text.split(/<em>|<\/em>/).map((part, index) => (index % 2 ? html`<mark>${plain(part)}</mark>` : plain(part)));
}

/** @param {any} product @param {Record<string, string>} highlights */
export function card(product, highlights = {}) {
  return html`<a class="tile" href=${`/products/${product.id}`} data-id=${product.id}>
    <div class="cover">${cover(product)}${product.gone_at ? tag("failed", "gone") : stock(product.availability)}</div>
    <div class="about"><div class="price">${price(product)}</div>
      <div class="name"><span>${highlights.product_name ? marked(highlights.product_name) : (product.product_name ?? product.url)}</span></div>
      <div class="quiet clip">${[product.brand, product.category].filter(Boolean).join(" · ")}</div>
      ${highlights.description ? html`<div class="quiet">${marked(highlights.description)}</div>` : null}
      <div class="facts spread"><span class="clip">${product.domain_name}</span>${stars(product.rating)}</div></div></a>`;
}

/** @param {"products" | "changes" | "health"} now */
export const sections = (now) => html`<span class="segments">${/** @type {const} */ ([["products", "/products", "Catalogue"], ["changes", "/products/changes", "What changed"], ["health", "/products/health", "Shops and parsers"]])
  .map(([name, href, title]) => html`<a href=${href} aria-current=${name === now ? "page" : null}>${title}</a>`)}</span>`;

/** A value of a field for people. @param {string} field @param {any} value */
export function shownValue(field, value) {
  if (value === null || value === undefined || value === "") return html`<span class="faint">none</span>`;
  if (field === "availability") return words(value);
  const text = typeof value === "object" ? JSON.stringify(value) : String(value);
  return text.length > 140 ? `${text.slice(0, 140)}…` : text;
}
