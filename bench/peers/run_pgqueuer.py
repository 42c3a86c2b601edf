"""`run_pgqueuer.py URL COUNT [BATCH]`: no-op jobs through pgqueuer, enqueue → run → done. Prints one JSON line.

Tuned as its performance guide advises: durable tables, its own autovacuum settings, jobs enqueued in lists, a direct
asyncpg connection for the worker, and the batch of 25 that the guide shows (the default is 10). The guide advises
larger batches for short jobs and names no size. On two cores, batches of 250, 500 and 1,000 came within 7 % of one
another and 2,000 was slower, so 500 is its fastest, and is measured as well.
"""

# mypy: ignore-errors
# (what it imports is installed in an environment of its own, not here)

import json
import logging
import sys
import time

import asyncpg
import uvloop
from pgqueuer import PgQueuer
from pgqueuer.db import AsyncpgDriver
from pgqueuer.models import Job
from pgqueuer.queries import Queries
from pgqueuer.types import QueueExecutionMode

BATCH = 25
ENQUEUED_TOGETHER = 1_000  # as our own jobs: 1,000 tasks each


async def main(url: str, count: int, batch: int = BATCH) -> None:
    producer = Queries(AsyncpgDriver(await asyncpg.connect(url)))
    await producer.install()
    await producer.optimize_autovacuum()
    worker = PgQueuer(AsyncpgDriver(await asyncpg.connect(url)))
    ran = 0

    @worker.entrypoint("noop")
    async def noop(job: Job) -> None:
        nonlocal ran
        ran += 1

    started = time.perf_counter()
    for first in range(0, count, ENQUEUED_TOGETHER):
        numbers = range(first, min(first + ENQUEUED_TOGETHER, count))
        bodies: list[bytes | None] = [b'{"n":%d}' % n for n in numbers]
        await producer.enqueue(["noop"] * len(numbers), bodies, [0] * len(numbers))
    submitted = time.perf_counter()
    await worker.run(batch_size=batch, mode=QueueExecutionMode.drain)
    ended = time.perf_counter()
    left = sum(row.count for row in await producer.queue_size())
    assert (ran, left) == (count, 0), f"{ran} of {count} jobs ran, {left} are left"
    print(json.dumps({"submit": submitted - started, "work": ended - submitted}), flush=True)


if __name__ == "__main__":
    logging.disable(logging.CRITICAL)
    uvloop.run(main(sys.argv[1], int(sys.argv[2]), *(int(argument) for argument in sys.argv[3:])))
