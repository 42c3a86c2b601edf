"""One worker in a process of its own, on many busy lanes: `python -m bench.support.share_worker URL NAME`.

Its lanes have a rate of their own and no pause beside it. It writes a line with the number of tasks that it has ended,
four times a second, until it is told to stop.
"""

import asyncio
import contextlib
import signal
import sys
import time
from collections.abc import Iterator
from typing import ClassVar

import uvloop
from pydantic import BaseModel

from forager.core.clock import SystemClock
from forager.core.http import Fetch, Request, Response
from forager.core.outcome import Done, Outcome
from forager.core.pipeline import Lane, Pipeline, step
from forager.core.task import Plan, Task
from forager.engine.work import Worker
from forager.ledger.catalog import Catalog

RATE = 5
"""Tasks a second in each lane: busy, and slow enough that the machine is not what is measured."""
TAKES = 0.1
TELL_EVERY = 0.25
FAMILY = "busy:*"


class Busy(Task):
    kind: ClassVar[str] = "busy"
    n: int
    where: str

    def key(self) -> str:
        return f"{self.where}/{self.n}"

    def lane(self) -> str:
        return self.where


class BusyJob(BaseModel):
    lanes: int
    tasks: int


def plan(job: BusyJob) -> Iterator[Plan]:
    for n in range(job.tasks):
        for lane in range(job.lanes):
            yield Plan(Busy(n=n, where=f"busy:{lane}"))


async def stay_busy(task: Busy, fetch: Fetch) -> Outcome:
    await fetch(Request("http://upstream.invalid/"))
    return Done()


async def answer(request: Request) -> Response:
    """An upstream that takes its time."""
    if request.on_leave is not None:
        request.on_leave()
    await asyncio.sleep(TAKES)
    return Response(request.url, 200, {}, b"", SystemClock().now(), round(TAKES * 1000))


PIPELINE = Pipeline("busy", BusyJob, plan, (step(Busy, stay_busy),), lanes=(Lane(FAMILY, rate=RATE),))


async def work(url: str, name: str) -> None:
    from forager.ledger.postgres import PostgresLedger

    ledger = await PostgresLedger.open(url, Catalog([PIPELINE]))
    worker = Worker(ledger, [PIPELINE], answer, SystemClock(), name=name)
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
