"""One worker in a process of its own: `python -m bench.support.scale_worker URL NAME CAPACITY`.

The lane of a task decides what is measured: a slow upstream with a few requests at a time, records as fast as they can
be written, or a steady rate. Four times a second it prints the number of tasks that it has ended.
"""

import asyncio
import sys
from collections.abc import Iterator
from typing import ClassVar
from urllib.parse import urlsplit

import uvloop
from pydantic import BaseModel

from bench.support.worker_main import work
from forager.core.clock import SystemClock
from forager.core.http import Fetch, Request, Response
from forager.core.outcome import Done, Outcome
from forager.core.pipeline import Lane, Pipeline, step
from forager.core.record import Record
from forager.core.task import Plan, Task

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
    """Records of each task."""


def plan(job: ScaleJob) -> Iterator[Plan]:
    for n in range(job.tasks):
        for lane in range(job.lanes):
            where = f"{job.family}:{lane}"
            yield Plan(Piece(n=n, where=where, takes_ms=job.takes_ms, records=job.records))


async def look(task: Piece, fetch: Fetch) -> Outcome:
    await fetch(Request(f"http://upstream.invalid/{task.takes_ms}"))
    return Done(records=[Found(uid=f"{task.key()}/{n}", title=f"number {n}") for n in range(task.records)])


async def answer(request: Request) -> Response:
    """An upstream whose latency is in the path, in milliseconds."""
    if request.on_leave is not None:
        request.on_leave()
    takes = int(urlsplit(request.url).path[1:])
    await asyncio.sleep(takes / 1000)
    return Response(request.url, 200, {}, b"", SystemClock().now(), takes)


PIPELINE = Pipeline("scale", ScaleJob, plan, (step(Piece, look),), records=(Found,), lanes=LANES)


if __name__ == "__main__":
    uvloop.run(work(PIPELINE, answer, sys.argv[1], sys.argv[2], int(sys.argv[3])))
