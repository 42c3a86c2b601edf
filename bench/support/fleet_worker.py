"""Many workers in one process: `python -m bench.support.fleet_worker URL FIRST COUNT CAPACITY`.

Each is a worker as users run it, with a session, connections and heartbeats of its own; only its upstream is a wait. It
prints `ready` when all sessions live, waits for a line with a number of seconds, counts for that time, and prints one
JSON object: tasks ended, CPU time, and how long each call of the ledger took.
"""

import asyncio
import functools
import sys
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterator
from typing import Any, ClassVar

import orjson
import uvloop
from pydantic import BaseModel

from bench.support.scale_worker import Found, answer
from forager.core.clock import SystemClock
from forager.core.http import Fetch, Request
from forager.core.outcome import Done, Outcome
from forager.core.pipeline import Lane, Pipeline, step
from forager.core.task import Plan, Task
from forager.engine.lanes.fetch import Resources
from forager.engine.work.worker import Worker, WorkerOptions
from forager.ledger.catalog import Catalog
from forager.ledger.postgres import PostgresLedger

CALLS = ("settle_and_lease", "take_lanes", "give_lanes", "beat")
"""The calls of the ledger whose times are kept."""
RECORDS_EVERY = 10
"""One task in ten finds a record, as a crawl finds a product on some of its pages."""


class Visit(Task):
    kind: ClassVar[str] = "visit"
    n: int
    site: int
    takes_ms: int

    def key(self) -> str:
        return f"{self.site}/{self.n}"

    def lane(self) -> str:
        return f"site:{self.site}"


class FleetJob(BaseModel):
    first: int
    """Number of its first site."""
    sites: int
    each: int
    """Tasks of one site."""
    takes_ms: int


def plan(job: FleetJob) -> Iterator[Plan]:
    for n in range(job.each):
        for site in range(job.first, job.first + job.sites):
            yield Plan(Visit(n=n, site=site, takes_ms=job.takes_ms))


async def visit(task: Visit, fetch: Fetch) -> Outcome:
    await fetch(Request(f"http://upstream.invalid/{task.takes_ms}"))
    found = [Found(uid=task.key(), title=f"number {task.n}")] if task.n % RECORDS_EVERY == 0 else []
    return Done(records=found)


PIPELINE = Pipeline(
    "fleet",
    FleetJob,
    plan,
    (step(Visit, visit),),
    records=(Found,),
    lanes=(Lane("site:*", rate=None, concurrency=4),),
)


class Times:
    """Seconds that the calls of the ledgers took, by name, while `on`."""

    def __init__(self) -> None:
        self.on = False
        self.taken: defaultdict[str, list[float]] = defaultdict(list)

    def watch(self, ledger: PostgresLedger) -> None:
        """Time the calls of this ledger. They are methods of the instance from now on."""
        for name in CALLS:
            setattr(ledger, name, self._timed(name, getattr(ledger, name)))

    def _timed(self, name: str, call: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
        @functools.wraps(call)
        async def timed(*args: Any, **kwargs: Any) -> Any:
            started = time.perf_counter()
            try:
                return await call(*args, **kwargs)
            finally:
                if self.on:
                    self.taken[name].append(time.perf_counter() - started)

        return timed


async def main(url: str, first: int, count: int, capacity: int) -> None:
    times = Times()
    catalog = Catalog([PIPELINE])
    ledgers = [await PostgresLedger.open(url, catalog) for _ in range(count)]
    workers = []
    for number, ledger in enumerate(ledgers, first):
        times.watch(ledger)
        options = WorkerOptions(f"worker-{number}", capacity)
        workers.append(Worker(ledger, [PIPELINE], Resources(answer), SystemClock(), options=options))
    running = [asyncio.create_task(worker.run()) for worker in workers]
    while not all(worker.alive for worker in workers):
        await asyncio.sleep(0.05)
    print("ready", flush=True)
    seconds = float(await asyncio.to_thread(sys.stdin.readline))
    ended, used, began = _ended(workers), time.process_time(), time.perf_counter()
    times.on = True
    await asyncio.sleep(seconds)
    times.on = False
    figures = {
        "seconds": time.perf_counter() - began,
        "ended": _ended(workers) - ended,
        "cpu": time.process_time() - used,
        "alive": sum(worker.alive for worker in workers),
        "times": times.taken,
    }
    print(orjson.dumps(figures).decode(), flush=True)
    await asyncio.gather(*[worker.drain(1.0) for worker in workers])
    await asyncio.gather(*running)
    await asyncio.gather(*[ledger.close() for ledger in ledgers])


def _ended(workers: list[Worker]) -> int:
    return sum(worker.stats.ended["completed"] for worker in workers)


if __name__ == "__main__":
    uvloop.run(main(sys.argv[1], *(int(argument) for argument in sys.argv[2:])))
