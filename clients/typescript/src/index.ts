// A thin client of Forager's API: `new Forager(url, key)` has a method for every operation, and these.
import { Operations } from "./operations.ts";
import { Transport } from "./transport.ts";
import type { ChangeItem, JobReport } from "./types.ts";

export { ForagerError, Transport } from "./transport.ts";
export type { ListOf } from "./transport.ts";
export { verifyWebhook } from "./webhooks.ts";
export type * from "./types.ts";

const ENDED = new Set(["completed", "partially_completed", "failed", "cancelled", "paused"]);
const sleep = (ms: number): Promise<void> => new Promise((done) => setTimeout(done, ms));

export class Forager extends Operations {
  constructor(url: string, key: string, fetchWith: typeof fetch = fetch) {
    super(new Transport(url, key, fetchWith));
  }

  /** Wait until a job has ended or is paused, and return its report. */
  async waitForJob(job: string, timeoutMs = Infinity): Promise<JobReport> {
    const giveUp = Date.now() + timeoutMs;
    for (let pause = 100; ; pause = Math.min(pause * 1.5, 2000)) {
      const report = await this.showJob(job);
      if (ENDED.has(report.state)) return report;
      if (Date.now() + pause > giveUp) throw new Error(`Job ${job} is still ${report.state}; it continues.`);
      await sleep(pause);
    }
  }

  /** Yield changes after a number, in order. Keep `change.id` to go on from there; `forever` waits for new ones. */
  async *followChanges(after = 0, kinds?: string, forever = true): AsyncGenerator<ChangeItem> {
    for (;;) {
      const query = { after, kinds, limit: 500, wait: forever ? 25 : undefined };
      const { data, meta } = await this.transport.request("GET", "/api/v1/changes", { query });
      for (const change of data as ChangeItem[]) yield change;
      after = meta.next_after as number;
      if (!forever && after >= (meta.last as number)) return;
    }
  }

  /** Yield the rows of any list, page by page: `forager.rows("/api/v1/records/place")`. */
  async *rows<Row = Record<string, unknown>>(path: string, query: object = {}): AsyncGenerator<Row> {
    let cursor: string | undefined;
    do {
      const page = await this.transport.page<Row>("GET", path, { query: { limit: 500, ...query, cursor } });
      yield* page.items;
      cursor = page.nextCursor ?? undefined;
    } while (cursor !== undefined);
  }
}
