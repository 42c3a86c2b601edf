"""`run_awa.py URL COUNT [records]`: no-op jobs through awa, enqueue → run → completed. Prints one JSON line.

Tuned as its documentation advises: its queue storage (the default), jobs enqueued by COPY in lists, one queue with a
large pool of workers, connections for four times the queues plus twenty, and two claimers ("benchmark 2 or 4 before
raising it further"; four were slower on two cores). With `records`, each handler stores one row in a table of the
application, in its own commit, through a pool of connections of its own: awa's handlers have no transaction of the job.
"""

# mypy: ignore-errors
# (what it imports is installed in an environment of its own, not here)

import asyncio
import json
import logging
import sys
import time
from dataclasses import dataclass

import asyncpg
import uvloop
from awa import AsyncClient

ENQUEUED_TOGETHER = 1_000  # as our own jobs: 1,000 tasks each
WORKERS = 200
CLAIMERS = 2
CONNECTIONS = 24
STORING = 20
TABLE = "CREATE TABLE found (uid text PRIMARY KEY, title text)"
STORE = "INSERT INTO found (uid, title) VALUES ($1, $2) ON CONFLICT (uid) DO UPDATE SET title = excluded.title"


@dataclass
class Noop:
    n: int


async def main(url: str, count: int, what: str = "") -> None:
    client = AsyncClient(url, max_connections=CONNECTIONS)
    await client.migrate()
    await client.install_queue_storage()
    pool = await asyncpg.create_pool(url, min_size=STORING, max_size=STORING) if what == "records" else None
    if pool is not None:
        await pool.execute(TABLE)
    ran, done = 0, asyncio.Event()

    @client.task(Noop, queue="noop")
    async def noop(job) -> None:
        nonlocal ran
        if pool is not None:
            await pool.execute(STORE, str(job.args.n), f"number {job.args.n}")
        ran += 1
        if ran == count:
            done.set()

    started = time.perf_counter()
    for first in range(0, count, ENQUEUED_TOGETHER):
        jobs = [Noop(n) for n in range(first, min(first + ENQUEUED_TOGETHER, count))]
        await client.enqueue_many_copy(jobs, queue="noop")
    submitted = time.perf_counter()
    await client.start([{"name": "noop", "max_workers": WORKERS, "claimers": CLAIMERS}])
    await done.wait()
    ended = time.perf_counter()
    await client.shutdown(10_000)  # completions of the last batch are written within milliseconds
    assert ran == count, f"{ran} of {count} jobs ran"
    await client.close()
    print(json.dumps({"submit": submitted - started, "work": ended - submitted}), flush=True)


if __name__ == "__main__":
    logging.disable(logging.CRITICAL)
    uvloop.run(main(sys.argv[1], int(sys.argv[2]), *sys.argv[3:]))
