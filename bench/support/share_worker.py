"""One worker in a process of its own, on many busy lanes: `python -m bench.support.share_worker URL NAME`.

Its lanes have a rate and no pause. Until it is stopped, it prints the number of tasks that it has ended, four times a
second.
"""

import asyncio
import sys
from collections.abc import Iterator
from typing import ClassVar

import uvloop
from pydantic import BaseModel

from bench.support.worker_main import work
from forager.core.clock import SystemClock
from forager.core.http import Fetch, Request, Response
from forager.core.outcome import Done, Outcome
from forager.core.pipeline import Lane, Pipeline, step
from forager.core.task import Plan, Task

RATE = 5
"""Tasks a second in each lane: busy, and slow enough that the machine is not what is measured."""
TAKES = 0.1
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


if __name__ == "__main__":
    uvloop.run(work(PIPELINE, answer, sys.argv[1], sys.argv[2]))
