// @ts-check
/**
 * A map without tiles: points on a grid of degrees. It zooms by wheel, buttons and keys, moves by dragging, and shows
 * points that lie close together as one with their number.
 */

import { effect, html, onEnd, signal, svg } from "../lib/view.js";
import { short } from "../lib/format.js";

/** @typedef {{ id: string | number, latitude: number, longitude: number, tone: string, title: string }} MapPoint */
/** @typedef {{ west: number, east: number, north: number, south: number }} Bounds */
/** @typedef {{ x: number, y: number, scale: number }} View  the middle in world units (0 to 1), and pixels per world */

const NEAR = 30;
const CLOSEST = 2 ** 27;
const KEYS = /** @type {Record<string, [number, number]>} */ ({ ArrowLeft: [-60, 0], ArrowRight: [60, 0], ArrowUp: [0, -60], ArrowDown: [0, 60] });

/** @param {number} longitude */
const worldX = (longitude) => (longitude + 180) / 360;
/** @param {number} latitude */
const worldY = (latitude) => 0.5 - Math.log(Math.tan(Math.PI / 4 + (Math.max(-85, Math.min(85, latitude)) * Math.PI) / 360)) / (2 * Math.PI);
/** @param {number} y */
const latitudeOf = (y) => (Math.atan(Math.exp((0.5 - y) * 2 * Math.PI)) * 360) / Math.PI - 90;

/**
 * `density`: groups are coloured by how many points they hold, not by the commonest colour of these.
 * @param {{ points: () => readonly MapPoint[], open: (id: string | number) => void, label: string,
 *           density?: boolean, hover?: import("../lib/view.js").Signal<string | number | null>, bounds?: import("../lib/view.js").Signal<Bounds | null> }} options
 */
export function pointMap({ points, open, label, density = false, hover = signal(/** @type {string | number | null} */ (null)), bounds }) {
  const size = signal({ width: 400, height: 400 });
  const view = signal(/** @type {View | null} */ (null));
  const moved = signal(false);
  const tip = signal(/** @type {{ x: number, y: number, text: string } | null} */ (null));
  /** @type {(readonly [x: number, y: number, point: MapPoint])[]} */
  let placed = [];
  const turn = signal(0);
  effect(() => {
    placed = points().map((point) => [worldX(point.longitude), worldY(point.latitude), point]);
    turn.value = turn.peek() + 1;
    if (!moved.peek()) fit();
  });
  function fit() {
    const { width, height } = size.peek();
    if (!placed.length) return void (view.value = null);
    const xs = placed.map(([x]) => x).sort((a, b) => a - b);
    const ys = placed.map(([, y]) => y).sort((a, b) => a - b);
    const [left, right, top, bottom] = [xs[0] ?? 0, xs.at(-1) ?? 1, ys[0] ?? 0, ys.at(-1) ?? 1];
    const scale = Math.min((width - 64) / Math.max(right - left, 1e-5), (height - 64) / Math.max(bottom - top, 1e-5), 2 ** 23);
    view.value = { x: (left + right) / 2, y: (top + bottom) / 2, scale: Math.max(scale, 64) };
    moved.value = false;
  }
  effect(() => {
    const now = view.value;
    if (!bounds || !now) return;
    const { width, height } = size.value;
    const [w, h] = [width / now.scale / 2, height / now.scale / 2];
    bounds.value = moved.value ? { west: (now.x - w) * 360 - 180, east: (now.x + w) * 360 - 180, north: latitudeOf(now.y - h), south: latitudeOf(now.y + h) } : null;
  });
  /** @param {number} factor @param {number} [px] @param {number} [py] pixels from the middle */
  function zoom(factor, px = 0, py = 0) {
    const now = view.peek();
    if (!now) return;
    const scale = Math.max(64, Math.min(CLOSEST, now.scale * factor));
    moved.value = true;
    view.value = { x: now.x + px / now.scale - px / scale, y: now.y + py / now.scale - py / scale, scale };
  }
  /** @param {number} dx @param {number} dy */
  function pan(dx, dy) {
    const now = view.peek();
    if (!now || (!dx && !dy)) return;
    moved.value = true;
    view.value = { ...now, x: now.x + dx / now.scale, y: now.y + dy / now.scale };
  }
  let drag = /** @type {{ x: number, y: number, far: boolean } | null} */ (null);
  /** @param {PointerEvent} event */
  const down = (event) => void (event.button || (drag = { x: event.clientX, y: event.clientY, far: false }));
  /** @param {PointerEvent} event */
  const move = (event) => {
    if (!drag) return;
    const [dx, dy] = [drag.x - event.clientX, drag.y - event.clientY];
    if (!drag.far && Math.hypot(dx, dy) < 4) return;
    if (!drag.far) /** @type {Element} */ (event.currentTarget).setPointerCapture(event.pointerId);
    drag = { x: event.clientX, y: event.clientY, far: true };
    pan(dx, dy);
  };
  const up = () => setTimeout(() => (drag = null));
  /** @param {WheelEvent} event */
  const wheel = (event) => {
    event.preventDefault();
    const box = /** @type {Element} */ (event.currentTarget).getBoundingClientRect();
    zoom(Math.exp(-event.deltaY / 300), event.clientX - box.left - box.width / 2, event.clientY - box.top - box.height / 2);
  };
  /** @param {KeyboardEvent} event */
  const press = (event) => {
    const step = KEYS[event.key];
    if (step) pan(...step);
    else if (event.key === "+" || event.key === "=") zoom(1.6);
    else if (event.key === "-") zoom(1 / 1.6);
    else if (event.key === "0") fit();
    else return;
    event.preventDefault();
  };
  const body = () => {
    turn.value;
    const now = view.value;
    const { width, height } = size.value;
    if (!now) return null;
    return [...grid(now, width, height), ...clusters(placed, now, width, height).map((each) => mark(each))];
  };
  /** @param {Cluster} each */
  const mark = ({ x, y, members, tone }) => {
    const [first] = members;
    if (members.length > 1)
      return svg`<g class=${density ? "cluster dense" : `cluster tone-${tone}`} --much=${Math.min(1, Math.log10(members.length) / 2.6).toFixed(2)} transform=${`translate(${x.toFixed(1)} ${y.toFixed(1)})`} @click=${() => drag?.far || zoom(2.4, x - size.peek().width / 2, y - size.peek().height / 2)}>
        <circle r=${radius(members.length).toFixed(1)}></circle><text dy="4">${short(members.length)}</text></g>`;
    return svg`<circle class=${() => `point tone-${tone} ${hover.value === first?.id ? "hot" : ""}`} cx=${x.toFixed(1)} cy=${y.toFixed(1)} r="6"
      @click=${() => first && !drag?.far && open(first.id)} @pointerenter=${() => first && ((hover.value = first.id), (tip.value = { x, y, text: first.title }))}
      @pointerleave=${() => ((hover.value = null), (tip.value = null))}></circle>`;
  };
  const box = /** @type {HTMLElement} */ (html`<div class="map"><svg tabindex="0" role="group" aria-label=${label} @pointerdown=${down} @pointermove=${move} @pointerup=${up} @pointercancel=${up}
      @wheel=${wheel} @keydown=${press}>${body}</svg>
    ${() => (tip.value ? html`<div class="map-tip" --x=${`${tip.value.x}px`} --y=${`${tip.value.y}px`}>${tip.value.text}</div>` : null)}
    ${() => (view.value ? null : html`<p class="map-none quiet">No coordinates to show.</p>`)}
    <div class="map-tools"><button class="button small" aria-label="Zoom in" @click=${() => zoom(1.6)}>+</button><button class="button small" aria-label="Zoom out" @click=${() => zoom(1 / 1.6)}>−</button>
      <button class="button small" aria-label="Show all" title="Show all" ?disabled=${() => !moved.value} @click=${fit}>⤢</button></div>
    <span class="map-scale faint">${() => (view.value ? distance(view.value) : "")}</span></div>`.firstElementChild);
  const watch = new ResizeObserver(([entry]) => {
    const { width, height } = entry?.contentRect ?? { width: 0, height: 0 };
    if (!width || !height) return;
    size.value = { width, height };
    if (!moved.peek()) fit();
  });
  watch.observe(box);
  onEnd(() => watch.disconnect());
  return box;
}

/** @typedef {{ x: number, y: number, members: MapPoint[], tone: string }} Cluster */

/** Points in the window, those of one small square together. @param {readonly (readonly [number, number, MapPoint])[]} placed @param {View} view @param {number} width @param {number} height @returns {Cluster[]} */
function clusters(placed, view, width, height) {
  const near = placed.length > 80 ? NEAR : 16;
  /** @type {Map<string, { x: number, y: number, members: MapPoint[] }>} */
  const cells = new Map();
  for (const [wx, wy, point] of placed) {
    const [x, y] = [(wx - view.x) * view.scale + width / 2, (wy - view.y) * view.scale + height / 2];
    if (x < -NEAR || y < -NEAR || x > width + NEAR || y > height + NEAR) continue;
    // The squares are fixed to the world, so that dragging does not rearrange them.
    const key = `${Math.floor((wx * view.scale) / near)}:${Math.floor((wy * view.scale) / near)}`;
    const cell = cells.get(key);
    if (cell) (cell.members.push(point), (cell.x += x), (cell.y += y));
    else cells.set(key, { x, y, members: [point] });
  }
  const found = [...cells.values()].map(({ x, y, members }) => ({ x: x / members.length, y: y / members.length, members }));
  return apart(found.sort((a, b) => b.members.length - a.members.length)).map((each) => ({ ...each, tone: commonest(each.members) }));
}

/** Join those that would cover one another, the larger first. @param {{ x: number, y: number, members: MapPoint[] }[]} found */
function apart(found) {
  /** @type {typeof found} */
  const kept = [];
  for (const each of found) {
    const near = kept.find(({ x, y, members }) => Math.hypot(x - each.x, y - each.y) < (members.length > 1 ? 8 + radius(members.length) : 9));
    if (near) near.members = [...near.members, ...each.members];
    else kept.push(each);
  }
  return kept;
}

/** @param {number} count */
const radius = (count) => Math.min(26, 9 + 2.2 * Math.log2(count));

/** @param {readonly MapPoint[]} members */
function commonest(members) {
  /** @type {Map<string, number>} */
  const counts = new Map();
  for (const { tone } of members) counts.set(tone, (counts.get(tone) ?? 0) + 1);
  if (counts.size > 1) counts.delete("grey"); // the colour of those without a value
  return [...counts].sort((a, b) => b[1] - a[1])[0]?.[0] ?? "";
}

/** @param {View} view @param {number} width @param {number} height */
function grid(view, width, height) {
  const across = (width / view.scale) * 360;
  const step = [30, 10, 5, 2, 1, 0.5, 0.2, 0.1, 0.05, 0.02, 0.01, 0.005, 0.002, 0.001].find((each) => across / each > 4) ?? 0.001;
  const lines = [];
  const west = (view.x - width / view.scale / 2) * 360 - 180;
  for (let at = Math.ceil(west / step) * step; at < west + across; at += step) {
    const x = ((worldX(at) - view.x) * view.scale + width / 2).toFixed(1);
    lines.push(svg`<line class="grid" x1=${x} x2=${x} y1="0" y2=${height}></line>`);
  }
  const [north, south] = [latitudeOf(view.y - height / view.scale / 2), latitudeOf(view.y + height / view.scale / 2)];
  for (let at = Math.ceil(south / step) * step; at < north; at += step) {
    const y = ((worldY(at) - view.y) * view.scale + height / 2).toFixed(1);
    lines.push(svg`<line class="grid" x1="0" x2=${width} y1=${y} y2=${y}></line>`);
  }
  return lines;
}

/** How far 80 pixels are. @param {View} view */
function distance(view) {
  const metres = (80 / view.scale) * 40_075_017 * Math.cos((latitudeOf(view.y) * Math.PI) / 180);
  const power = 10 ** Math.floor(Math.log10(metres));
  const nice = [5, 2, 1].map((each) => each * power).find((each) => each <= metres) ?? power;
  return `80 px ≈ ${metres >= 1000 ? `${short(Math.round(nice / 1000) || 1)} km` : `${Math.round(nice)} m`}`;
}
