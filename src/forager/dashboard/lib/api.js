// @ts-check
/** Requests to the API. A rejected request raises `ApiError` with the API's own sentence, and the fields it names. */

import { signal } from "./view.js";

/** @typedef {{ name: string, role: string, csrf: string, features: Page[], version: string }} Session */
/** @typedef {{ name: string, title: string, module: string | null, pipeline: boolean }} Page */

/** The signed-in session; null while signed out, undefined before the first answer. */
export const session = signal(/** @type {Session | null | undefined} */ (undefined));

/** Whether the signed-in key may start and steer; a viewer may only read. */
export const mayWrite = () => session.value?.role !== "viewer";
/** Whether the signed-in key may change keys, proxies and sinks. */
export const isAdmin = () => session.value?.role === "admin";

export class ApiError extends Error {
  /** @param {number} status @param {string | null} message @param {{ code?: string, fields?: { field: string, message: string }[] }} [meta] */
  constructor(status, message, meta = {}) {
    super(message || `The request failed with status ${status}.`);
    this.status = status;
    this.code = meta.code ?? "unknown";
    /** Messages by the name of the parameter. @type {Record<string, string>} */
    this.fields = Object.fromEntries((meta.fields ?? []).map((each) => [each.field, each.message]));
  }
}

/** @param {string} path @param {Record<string, unknown>} [query] */
export function address(path, query = {}) {
  const search = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    for (const each of Array.isArray(value) ? value : [value]) {
      if (each !== undefined && each !== null && each !== "") search.append(name, String(each));
    }
  }
  const text = search.toString();
  return text ? `${path}?${text}` : path;
}

/**
 * @param {string} method @param {string} path
 * @param {{ query?: Record<string, unknown>, body?: unknown, signal?: AbortSignal }} [options]
 * @returns {Promise<any>} the whole answer: `data`, and `meta` where there is one
 */
export async function request(method, path, { query, body, signal: abort } = {}) {
  /** @type {Record<string, string>} */
  const headers = { Accept: "application/json" };
  if (body !== undefined) headers["Content-Type"] = "application/json";
  if (method !== "GET") headers["X-CSRF-Token"] = session.peek()?.csrf ?? "";
  let response;
  try {
    response = await fetch(address(path, query), { method, headers, body: body === undefined ? null : JSON.stringify(body), signal: abort ?? null });
  } catch (error) {
    if (abort?.aborted) throw error;
    throw new ApiError(0, "Forager does not answer. Is it still running?", { code: "unreachable" });
  }
  const text = await response.text();
  let answer;
  try {
    answer = text ? JSON.parse(text) : {};
  } catch {
    answer = { error: text.slice(0, 300) };
  }
  if (response.status === 401) session.value = null;
  if (!response.ok) throw new ApiError(response.status, answer.error, answer.meta);
  return answer;
}

/** @param {string} path @param {Record<string, unknown>} [query] @param {AbortSignal} [abort] */
export const get = (path, query, abort) => request("GET", path, abort ? { query: query ?? {}, signal: abort } : { query: query ?? {} });
/** @param {string} path @param {unknown} [body] @param {Record<string, unknown>} [query] */
export const post = (path, body, query) => request("POST", path, { body: body ?? {}, query: query ?? {} });
/** @param {string} path @param {unknown} body */
export const put = (path, body) => request("PUT", path, { body });
/** @param {string} path @param {unknown} body */
export const patch = (path, body) => request("PATCH", path, { body });
/** @param {string} path */
export const remove = (path) => request("DELETE", path);
