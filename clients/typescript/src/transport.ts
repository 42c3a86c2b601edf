// Sends requests, reads the envelope, and sends again what is safe to repeat.

export interface ListOf<Item> {
  items: Item[];
  nextCursor: string | null;
}

export interface Asked {
  query?: object;
  body?: unknown;
  idempotencyKey?: string;
  /** The route takes an idempotency key, so one is made if none is given. */
  hasKey?: boolean;
}

export interface Answer {
  data: unknown;
  meta: Record<string, unknown>;
}

export class ForagerError extends Error {
  readonly status: number;
  readonly code: string;
  readonly meta: Record<string, unknown>;

  constructor(message: string, status: number, code: string, meta: Record<string, unknown> = {}) {
    super(message);
    this.name = "ForagerError";
    this.status = status;
    this.code = code;
    this.meta = meta;
  }
}

const SAFE = new Set(["GET", "PUT", "DELETE"]);
const PATIENCE_MS = 30_000;

export class Transport {
  private readonly url: string;
  private readonly key: string;
  private readonly fetchWith: typeof fetch;

  constructor(url: string, key: string, fetchWith: typeof fetch = fetch) {
    this.url = url.replace(/\/+$/, "");
    this.key = key;
    this.fetchWith = fetchWith;
  }

  async request(method: string, path: string, asked: Asked = {}): Promise<Answer> {
    const got = await this.answered(method, path, asked);
    const envelope = JSON.parse((await got.text()) || "{}");
    return { data: envelope.data ?? null, meta: envelope.meta ?? {} };
  }

  async data<Data>(method: string, path: string, asked: Asked = {}): Promise<Data> {
    return (await this.request(method, path, asked)).data as Data;
  }

  async page<Item>(method: string, path: string, asked: Asked = {}): Promise<ListOf<Item>> {
    const { data, meta } = await this.request(method, path, asked);
    return { items: data as Item[], nextCursor: (meta.next_cursor as string | null) ?? null };
  }

  async file(method: string, path: string, asked: Asked = {}): Promise<Uint8Array> {
    return new Uint8Array(await (await this.answered(method, path, asked)).arrayBuffer());
  }

  private async answered(method: string, path: string, asked: Asked): Promise<Response> {
    const query = new URLSearchParams();
    for (const [name, value] of Object.entries(asked.query ?? {})) {
      if (value !== undefined && value !== null) query.set(name, String(value));
    }
    const target = `${this.url}${path}${query.size ? `?${query}` : ""}`;
    const headers: Record<string, string> = { "X-Service-Key": this.key, Accept: "application/json" };
    if (asked.hasKey || asked.idempotencyKey) headers["Idempotency-Key"] = asked.idempotencyKey ?? crypto.randomUUID();
    if (asked.body !== undefined) headers["Content-Type"] = "application/json";
    const body = asked.body === undefined ? undefined : JSON.stringify(asked.body);
    const safe = SAFE.has(method) || "Idempotency-Key" in headers;
    const giveUp = Date.now() + PATIENCE_MS;
    for (let pause = 200; ; pause = Math.min(pause * 2, 5000)) {
      let wait = pause;
      let failure: ForagerError;
      try {
        const got = await this.fetchWith(target, { method, headers, body, redirect: "manual" });
        if (got.ok) return got;
        failure = await failureOf(got);
        const after = got.headers.get("retry-after");
        if (after !== null && /^\d+$/.test(after)) wait = Number(after) * 1000;
        if (![429, 503].includes(got.status) || failure.meta.reason) throw failure;
      } catch (error) {
        if (error instanceof ForagerError) failure = error;
        else failure = new ForagerError(`Forager at ${this.url} does not answer (${error}).`, 0, "no_answer");
        if (failure.status !== 0 && (![429, 503].includes(failure.status) || failure.meta.reason)) throw failure;
      }
      if (!safe || Date.now() + wait > giveUp) throw failure;
      await new Promise((done) => setTimeout(done, wait));
    }
  }
}

async function failureOf(got: Response): Promise<ForagerError> {
  const text = await got.text();
  try {
    const { error, meta } = JSON.parse(text);
    return new ForagerError(String(error), got.status, String(meta?.code ?? "unknown"), meta ?? {});
  } catch {
    return new ForagerError(`An answer that is not from Forager: ${text.slice(0, 200)}`, got.status, "foreign_answer");
  }
}
