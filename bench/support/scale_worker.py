"""One worker in a process of its own: `python -m bench.support.scale_worker URL NAME CAPACITY`.

What is measured is the lane of a task: a slow upstream with a few requests at a time, records as fast as they can be
written, or a steady rate. Its line, four times a second, is the number of tasks that it has ended.
"""

import asyncio
import contextlib
import signal
import sys
import time
from collections.abc import Iterator
from typing import ClassVar
from urllib.parse import urlsplit

import uvloop
from pydantic import BaseModel

from forager.core.clock import SystemClock
from forager.core.http import Fetch, Request, Response
from forager.core.outcome import Done, Outcome
from forager.core.pipeline import Lane, Pipeline, step
from forager.core.record import Record
from forager.core.task import Plan, Task
from forager.engine.work import Worker
from forager.ledger.catalog import Catalog

TELL_EVERY = 0.25
SLOW, WRITING, PACED = "slow", "writing", "paced"
LANES = (
    Lane(f"{SLOW}:*", rate=None, concurrency=4),
    Lane(f"{WRITING}:*", rate=None, concurrency=50),
    Lane(f"{PACED}:*", rate=5),
)


class Piece(Task):
    kind: ClassVar[str] = "piece"
    n: int
    where: str
    takes_ms: int = 0
    records: int = 0

    def key(self) -> str:
        return f"{self.where}/{self.n}"

    def lane(self) -> str:
        return self.where


class Found(Record):
    kind: ClassVar[str] = "scale-found"
    table: ClassVar[str] = "scale_found"
    key_field: ClassVar[str] = "uid"
    uid: str
    title: str | None = None


class ScaleJob(BaseModel):
    family: str
    lanes: int
    tasks: int
    """In each lane."""
    takes_ms: int = 0
    records: int = 0
    """Of each task."""


def plan(job: ScaleJob) -> Iterator[Plan]:
    for n in range(job.tasks):
        for lane in range(job.lanes):
            where = f"{job.family}:{lane}"
            yield Plan(Piece(n=n, where=where, takes_ms=job.takes_ms, records=job.records))


async def look(task: Piece, fetch: Fetch) -> Outcome:
    await fetch(Request(f"http://upstream.invalid/{task.takes_ms}"))
    return Done(records=[Found(uid=f"{task.key()}/{n}", title=f"number {n}") for n in range(task.records)])


async def answer(request: Request) -> Response:
    """An upstream that takes as long as the path says, in milliseconds."""
    if request.on_leave is not None:
        request.on_leave()
    takes = int(urlsplit(request.url).path[1:])
    await asyncio.sleep(takes / 1000)
    return Response(request.url, 200, {}, b"", SystemClock().now(), takes)


PIPELINE = Pipeline("scale", ScaleJob, plan, (step(Piece, look),), records=(Found,), lanes=LANES)


async def work(url: str, name: str, capacity: str) -> None:
    from forager.ledger.postgres import PostgresLedger

    ledger = await PostgresLedger.open(url, Catalog([PIPELINE]))
    worker = Worker(ledger, [PIPELINE], answer, SystemClock(), name=name, capacity=int(capacity))
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    running = asyncio.create_task(worker.run())
    while not stop.is_set() and not running.done():
        print(time.time(), worker.stats.ended["completed"], flush=True)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(stop.wait(), TELL_EVERY)
    await worker.drain(1.0)
    await running
    await ledger.close()


if __name__ == "__main__":
    uvloop.run(work(*sys.argv[1:]))
