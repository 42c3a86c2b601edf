"""A worker of a region in a process of its own: `python -m tests.support.region_process URL REGION`.

It runs the engine's worker with the other loops of any Forager. Each task writes a record with the region
that did it. It ends with SIGTERM.
"""

import asyncio
import signal
import sys
from collections.abc import Iterator
from typing import ClassVar

from pydantic import BaseModel

from forager.core.clock import SystemClock
from forager.core.http import Fetch, Request, Response
from forager.core.outcome import Done, Outcome
from forager.core.pipeline import Lane, Pipeline, step
from forager.core.record import Record
from forager.core.regions import served_queues
from forager.core.task import Plan, Task
from forager.engine.lanes.fetch import Resources
from forager.engine.upkeep import sweep_forever, sweep_interval
from forager.engine.work.worker import Worker, WorkerOptions
from forager.ledger.catalog import DEFAULT_QUEUE, Catalog
from forager.ledger.postgres import PostgresLedger
from forager.ledger.tables.regions import Regions

LEASE = 3.0


class Visit(Task):
    kind: ClassVar[str] = "visit"
    n: int
    site: str

    def key(self) -> str:
        return f"{self.site}/{self.n}"

    def lane(self) -> str:
        return self.site


class Visited(Record):
    kind: ClassVar[str] = "visited"
    table: ClassVar[str] = "visited"
    key_field: ClassVar[str] = "uid"
    uid: str
    site: str
    region: str


class Visits(BaseModel):
    sites: list[str]
    first: int
    tasks: int
    """On each site."""


def plan(job: Visits) -> Iterator[Plan]:
    for n in range(job.first, job.first + job.tasks):
        for site in job.sites:
            yield Plan(Visit(n=n, site=site))


def pipeline(region: str) -> Pipeline:
    async def visit(task: Visit, fetch: Fetch) -> Outcome:
        await fetch(Request(f"http://{task.site}/{task.n}"))
        return Done(records=[Visited(uid=task.key(), site=task.site, region=region)])

    every_site = Lane("*", rate=None, concurrency=2)
    return Pipeline("regions", Visits, plan, (step(Visit, visit),), records=(Visited,), lanes=(every_site,))


async def answer(request: Request) -> Response:
    """A site that takes a moment."""
    if request.on_leave is not None:
        request.on_leave()
    await asyncio.sleep(0.05)
    return Response(request.url, 200, {}, b"", SystemClock().now(), 50)


async def main(url: str, region: str) -> None:
    clock, pipelines = SystemClock(), [pipeline(region)]
    ledger = await PostgresLedger.open(url, Catalog(pipelines), lease_seconds=LEASE)
    worker = Worker(ledger, pipelines, Resources(answer), clock, options=WorkerOptions(region, 20))
    worker.serve(served_queues((), [DEFAULT_QUEUE], region))
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    regions = Regions(ledger.database, ledger.now_ms)
    beside = [
        asyncio.create_task(regions.follow_forever(clock)),
        asyncio.create_task(sweep_forever(ledger, clock, sweep_interval(LEASE))),
    ]
    running = asyncio.create_task(worker.run())
    sys.stdout.write("started\n")
    sys.stdout.flush()
    stopped = asyncio.create_task(stop.wait())
    await asyncio.wait([running, stopped], return_when=asyncio.FIRST_COMPLETED)
    for task in beside:
        task.cancel()
    await worker.drain(1.0)
    await running
    await ledger.close()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2]))
