// @ts-check
/**
 * Signals, effects and templates: the only "framework" of the dashboard.
 *
 *     const count = signal(0);
 *     document.body.append(html`<button @click=${() => count.value++}>${() => count.value} clicks</button>`);
 *
 * A signal is a value that remembers its readers. A function in a template runs again when a signal that it read has
 * changed, and replaces only its own part of the page. Values reach the page as text or as attributes, never as markup,
 * so scraped text cannot become an element.
 */

/** @template T @typedef {{ value: T, peek(): T }} Signal */
/** @typedef {{ disposers: (() => void)[] }} Scope */
/** @typedef {{ run: () => void, sources: Set<Set<Effect>>, scope: Scope, ended: boolean }} Effect */

let reader = /** @type {Effect | null} */ (null);
let owner = /** @type {Scope | null} */ (null);
let due = /** @type {Set<Effect>} */ (new Set());

/** A value that can be read, written and followed. @template T @param {T} initial @returns {Signal<T>} */
export function signal(initial) {
  let current = initial;
  const readers = /** @type {Set<Effect>} */ (new Set());
  return {
    get value() {
      if (reader) {
        readers.add(reader);
        reader.sources.add(readers);
      }
      return current;
    },
    set value(next) {
      if (Object.is(next, current)) return;
      current = next;
      for (const each of readers) schedule(each);
    },
    peek: () => current,
  };
}

/** @param {Effect} changed */
function schedule(changed) {
  if (due.size === 0) queueMicrotask(flush);
  due.add(changed);
}

/** Run the effects whose signals have changed. Those of one turn of the event loop run together. */
export function flush() {
  const batch = due;
  due = new Set();
  for (const each of batch) if (!each.ended) each.run();
}

/** Run now, and again whenever a signal that was read has changed. Ends with the scope in which it was created. @param {() => void} body */
export function effect(body) {
  /** @type {Effect} */
  const self = { run: execute, sources: new Set(), scope: { disposers: [] }, ended: false };
  function forget() {
    for (const readers of self.sources) readers.delete(self);
    self.sources.clear();
    dispose(self.scope);
  }
  function execute() {
    forget();
    const [outerReader, outerOwner] = [reader, owner];
    [reader, owner] = [self, self.scope];
    try {
      body();
    } finally {
      [reader, owner] = [outerReader, outerOwner];
    }
  }
  onEnd(() => {
    self.ended = true;
    forget();
  });
  execute();
}

/** @param {Scope} scope */
const dispose = (scope) => scope.disposers.splice(0).forEach((each) => each());

/** Run `body` in a scope of its own. Returns its result and a function that ends everything created in it. @template T @param {() => T} body @returns {[T, () => void]} */
export function scoped(body) {
  const scope = /** @type {Scope} */ ({ disposers: [] });
  const [outerReader, outerOwner] = [reader, owner];
  [reader, owner] = [null, scope];
  try {
    return [body(), () => dispose(scope)];
  } finally {
    [reader, owner] = [outerReader, outerOwner];
  }
}

/** Call `body` when the present scope ends: close a stream, stop a timer. @param {() => void} body */
export const onEnd = (body) => void owner?.disposers.push(body);

/** @typedef {{ node: number, attribute?: string, parts?: (string | number)[], hole?: number }} Binding */
/** @type {WeakMap<TemplateStringsArray, { element: HTMLTemplateElement, bindings: Binding[] }>} */
const compiled = new WeakMap();
const MARK = /\u0001(\d+)\u0001/;

/** @param {TemplateStringsArray} strings @param {boolean} inSvg */
function compile(strings, inSvg) {
  const known = compiled.get(strings);
  if (known) return known;
  let source = strings[0] ?? "";
  for (let hole = 0; hole < strings.length - 1; hole++) {
    const inTag = source.lastIndexOf("<") > source.lastIndexOf(">");
    source += (inTag ? `\u0001${hole}\u0001` : `<!--\u0001${hole}\u0001-->`) + strings[hole + 1];
  }
  const element = document.createElement("template");
  source = source.replace(/^\s*\n\s*|\s*\n\s*$/g, ""); // line breaks around a template are no part of it, a space is
  element.innerHTML = inSvg ? `<svg>${source.trim()}</svg>` : source;
  if (inSvg) element.content.firstElementChild?.replaceWith(...(element.content.firstElementChild?.childNodes ?? []));
  const bindings = /** @type {Binding[]} */ ([]);
  const walker = document.createTreeWalker(element.content, NodeFilter.SHOW_ELEMENT | NodeFilter.SHOW_COMMENT);
  for (let node = 0; walker.nextNode(); node++) {
    const here = walker.currentNode;
    if (here instanceof Comment) {
      const found = MARK.exec(here.data);
      if (found) bindings.push({ node, hole: Number(found[1]) });
      continue;
    }
    for (const { name, value } of [.../** @type {Element} */ (here).attributes]) {
      if (!MARK.test(value)) continue;
      const parts = value.split(MARK).map((text, index) => (index % 2 ? Number(text) : text));
      bindings.push({ node, attribute: name, parts: parts.filter((part) => part !== "") });
      /** @type {Element} */ (here).removeAttribute(name);
    }
  }
  compiled.set(strings, { element, bindings });
  return { element, bindings };
}

/** @param {TemplateStringsArray} strings @param {unknown[]} values @param {boolean} inSvg */
function build(strings, values, inSvg) {
  const { element, bindings } = compile(strings, inSvg);
  const fragment = /** @type {DocumentFragment} */ (document.importNode(element.content, true));
  const walker = document.createTreeWalker(fragment, NodeFilter.SHOW_ELEMENT | NodeFilter.SHOW_COMMENT);
  const nodes = /** @type {Node[]} */ ([]);
  while (walker.nextNode()) nodes.push(walker.currentNode);
  for (const { node, attribute, parts, hole } of bindings) {
    const target = /** @type {Node} */ (nodes[node]);
    if (attribute !== undefined) bind(/** @type {HTMLElement} */ (target), attribute, parts ?? [], values);
    else mount(/** @type {Comment} */ (target), values[hole ?? 0]);
  }
  return fragment;
}

/** Markup with values: `html\`<p class=${kind}>${text}</p>\`` @param {TemplateStringsArray} strings @param {unknown[]} values */
export const html = (strings, ...values) => build(strings, values, false);
/** The same for the inside of an `<svg>`. @param {TemplateStringsArray} strings @param {unknown[]} values */
export const svg = (strings, ...values) => build(strings, values, true);

/** @param {HTMLElement} target @param {string} name @param {(string | number)[]} parts @param {unknown[]} values */
function bind(target, name, parts, values) {
  const only = parts.length === 1 && typeof parts[0] === "number" ? values[parts[0]] : undefined;
  if (name.startsWith("@")) return target.addEventListener(name.slice(1), /** @type {EventListener} */ (only));
  const read = () => {
    const texts = parts.map((part) => (typeof part === "number" ? resolve(values[part]) : part));
    return parts.length === 1 ? texts[0] : texts.map((text) => text ?? "").join("");
  };
  const isLive = parts.some((part) => typeof part === "number" && typeof values[part] === "function");
  if (isLive) effect(() => write(target, name, read()));
  else write(target, name, read());
}

/** @param {unknown} value */
const resolve = (value) => (typeof value === "function" ? value() : value);

/** @param {HTMLElement} target @param {string} name @param {any} value */
function write(target, name, value) {
  if (name.startsWith(".")) /** @type {any} */ (target)[name.slice(1)] = value;
  else if (name.startsWith("--")) target.style.setProperty(name, String(value));
  else if (name.startsWith("?")) target.toggleAttribute(name.slice(1), Boolean(value));
  else if (value === null || value === undefined || value === false) target.removeAttribute(name);
  else if ((name === "href" || name === "src") && !/^(https?:|\/|#|\?|blob:)/i.test(String(value))) target.removeAttribute(name);
  else target.setAttribute(name, value === true ? "" : String(value));
}

/** @param {Comment} marker @param {any} value */
function mount(marker, value) {
  if (value?.isList) value.mount(marker);
  else if (typeof value !== "function") marker.before(...nodesOf(value));
  else {
    const start = document.createComment("");
    marker.before(start);
    effect(() => {
      const next = nodesOf(value());
      while (start.nextSibling && start.nextSibling !== marker) start.nextSibling.remove();
      marker.before(...next);
    });
  }
}

/** @param {any} value @returns {(Node | string)[]} */
function nodesOf(value) {
  if (value === null || value === undefined || value === false || value === true) return [];
  if (Array.isArray(value)) return value.flatMap(nodesOf);
  if (value instanceof Node) return [value];
  if (value.isList) {
    const marker = document.createComment("");
    const holder = document.createDocumentFragment();
    holder.append(marker);
    value.mount(marker);
    return [holder];
  }
  return [document.createTextNode(String(value))];
}

/**
 * Elements for the items of a list, kept by key: an item that stays keeps its element, focus and scroll position.
 * `render` gets a signal of its item and returns one element.
 * @template T @param {() => readonly T[]} read @param {(item: T) => string | number} keyOf @param {(item: Signal<T>) => DocumentFragment} render
 */
export function list(read, keyOf, render) {
  /** @type {Map<string | number, { item: Signal<T>, element: Element, end: () => void }>} */
  let shown = new Map();
  return {
    isList: true,
    /** @param {Comment} marker */
    mount(marker) {
      effect(() => {
        const items = read();
        const next = new Map();
        for (const item of items) {
          const key = keyOf(item);
          let row = shown.get(key);
          if (row) row.item.value = item;
          else {
            const own = signal(item);
            const [fragment, end] = scoped(() => render(own));
            row = { item: own, element: /** @type {Element} */ (fragment.firstElementChild), end };
          }
          next.set(key, row);
        }
        for (const [key, row] of shown) if (!next.has(key)) (row.end(), row.element.remove());
        let place = /** @type {Node} */ (marker);
        for (const row of [...next.values()].reverse()) {
          if (place.previousSibling !== row.element) place.parentNode?.insertBefore(row.element, place);
          place = row.element;
        }
        shown = next;
      });
      onEnd(() => shown.forEach((row) => row.end()));
    },
  };
}
