"""A second worker joins: its share of 64 busy lanes on PostgreSQL, one and a half quanta later.

Both workers are processes of their own, as `forager worker` is. The first has had its lanes for a moment only, so that
it must keep them for most of a quantum before it may let go of them: the slow case. The share is that of the lanes, or
that of the tasks ended in the following seconds, whichever is less; 1.0 is its fair share, half of all.
"""

import asyncio
import statistics
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import asyncpg
import uvloop

from bench.support.machine import Machine
from bench.support.options import Options, parse
from bench.support.share_worker import PIPELINE, RATE, BusyJob, plan
from bench.support.stores import Store, Stores, open_ledger
from bench.support.verdict import Target, conclude, print_table
from bench.support.worker_process import worker
from forager.core.ledger import NewJob
from forager.engine.waits import QUANTUM
from forager.ledger.catalog import Catalog

LANES = 64
JOINED_FOR = 1.5 * QUANTUM
COUNTED_FOR = 6.0
TASKS = round(RATE * (JOINED_FOR + COUNTED_FOR + 4 * QUANTUM))
"""In each lane: more than can be done while it is measured."""
MOST = 0.8
WORKER = "bench.support.share_worker"
TARGETS = (Target("second_worker_share", at_least=0.8),)


@dataclass(frozen=True)
class Joined:
    lanes: float
    """The second worker's share of the lanes; 1.0 is its fair one …"""
    tasks: float
    """… and of the tasks that were ended …"""
    seconds: float
    """… and when it had most of its lanes, after it had joined."""

    @property
    def share(self) -> float:
        return min(self.lanes, self.tasks)


def main(options: Options) -> None:
    print(
        f"share: {LANES} lanes of {RATE} tasks/s each without pause, a second worker joins, {JOINED_FOR:g} s,"
        f" {options.rounds} rounds"
    )
    machine = Machine()
    rounds: list[Joined] = []
    with Stores(("postgres",)) as stores:
        for number in range(1, options.rounds + 1):
            machine.sample()
            store = stores.new("postgres")
            try:
                assert store.url is not None
                joined = uvloop.run(measure(store.url, store, stores))
            finally:
                stores.drop(store)
            rounds.append(joined)
            print(
                f"  round {number}: {joined.lanes:.2f} of its lanes, {joined.tasks:.2f} of its tasks,"
                f" {joined.seconds:.1f} s until it had most",
                flush=True,
            )
        machine.sample()
    figures = {
        "second_worker_share": round(statistics.median(each.share for each in rounds), 3),
        "lanes_share": round(statistics.median(each.lanes for each in rounds), 3),
        "tasks_share": round(statistics.median(each.tasks for each in rounds), 3),
        "seconds_to_share": round(statistics.median(each.seconds for each in rounds), 1),
    }
    print_table(("figure", "median"), [(key, f"{value:g}") for key, value in figures.items()])
    conclude("share", figures, TARGETS, machine)


async def measure(url: str, store: Store, stores: Stores) -> Joined:
    await submit(store)
    stores.settle()
    db = await asyncpg.connect(url)
    try:
        with worker(WORKER, url, "first") as first:
            await until(lambda: held(db, "first"), LANES)
            with worker(WORKER, url, "second") as second:
                while not second.told:
                    await asyncio.sleep(0.05)
                joined = time.time()
                seconds = await until(lambda: held(db, "second"), LANES / 2 * MOST, patience=JOINED_FOR)
                await asyncio.sleep(joined + JOINED_FOR - time.time())
                lanes = await held(db, "second") / (LANES / 2)
                start = time.time()
                await asyncio.sleep(COUNTED_FOR)
                done = [each.ended_between(start, time.time()) for each in (first, second)]
    finally:
        await db.close()
    return Joined(lanes, 2 * done[1] / max(1, sum(done)), seconds)


async def submit(store: Store) -> None:
    async with open_ledger(store, Catalog([PIPELINE])) as ledger:
        job = BusyJob(lanes=LANES, tasks=TASKS)
        await ledger.submit(NewJob(PIPELINE.name, job.model_dump()), plan(job))


async def held(db: asyncpg.Connection, name: str) -> int:
    """Return the number of lanes of the session with this name."""
    count: int = await db.fetchval(
        "SELECT count(*) FROM lanes l JOIN sessions s ON s.id = l.owner WHERE s.name = $1", name
    )
    return count


async def until(count: Callable[[], Awaitable[int]], least: float, patience: float = 60.0) -> float:
    """Return the seconds until the session has this number of lanes; the whole wait if it never has."""
    began = time.monotonic()
    while (passed := time.monotonic() - began) < patience and await count() < least:
        await asyncio.sleep(0.1)
    return passed


if __name__ == "__main__":
    main(parse(__doc__))
