"""Cost of retention for the engine: no-op tasks through a ledger while a large history is removed.

Each round fills one store and runs in it several times, in turn: alone, and with the pruner of the engine, with its own
pages and rests, which finds far more to remove than it can. The number of removed rows is reported.
"""

import asyncio
import statistics
from collections import defaultdict

import uvloop

from bench.support.fill import fill
from bench.support.machine import Machine
from bench.support.noop import Timing, noop_catalog, push
from bench.support.options import Options, StoreKind, parse
from bench.support.stores import Store, Stores, open_ledger
from bench.support.verdict import Target, conclude, print_table
from forager.core.clock import SystemClock
from forager.core.upkeep import Keep
from forager.engine.upkeep import prune_once
from forager.ledger.schema.core_tables import tasks

JOBS = 100
TASKS_EACH = 300
FINISHED = 400_000
RUNS = 4
KEEP = Keep(jobs=1e-3, changes=1e-3)
TARGETS = (
    Target("sqlite_slowdown", at_most=0.05, quiet_only=True),
    Target("postgres_slowdown", at_most=0.05, quiet_only=True),
    Target("sqlite_more_cpu", at_most=0.05),
    Target("postgres_more_cpu", at_most=0.05),
)


def main(options: Options) -> None:
    finished, each = (50_000, 100) if options.quick else (FINISHED, TASKS_EACH)
    print(f"retention: {JOBS} jobs of {each} no-op tasks while {finished:,} finished ones are removed")
    machine = Machine()
    slowdowns: dict[StoreKind, list[float]] = defaultdict(list)
    cpu: dict[StoreKind, list[float]] = defaultdict(list)
    with Stores(options.stores) as stores:
        for number in range(1, options.rounds + 1):
            for kind in stores.kinds:
                machine.sample()
                store = stores.new(kind)
                uvloop.run(fill(store, finished))
                for _ in range(RUNS):
                    alone, _ = uvloop.run(measure(store, each, pruning=False))
                    beside, removed = uvloop.run(measure(store, each, pruning=True))
                    slowdowns[kind].append(1 - beside.per_s / alone.per_s)
                    cpu[kind].append(beside.cpu_us / alone.cpu_us - 1)
                    told = f"{alone.per_s:9,.0f}/s alone {beside.per_s:9,.0f}/s beside"
                    used = f"{alone.cpu_us:.1f} and {beside.cpu_us:.1f} µs CPU a task"
                    print(f"  round {number}: {kind:9} {told}, {used}; {removed:,} tasks removed", flush=True)
                stores.drop(store)
        machine.sample()
    figures = {f"{kind}_slowdown": round(statistics.median(values), 3) for kind, values in slowdowns.items()}
    figures |= {f"{kind}_more_cpu": round(statistics.median(values), 3) for kind, values in cpu.items()}
    rows = [(k, f"{figures[f'{k}_slowdown']:.1%}", f"{figures[f'{k}_more_cpu']:.1%}") for k in slowdowns]
    print_table(("store", "slowdown", "more CPU"), rows)
    conclude("retention", figures, TARGETS, machine)


async def measure(store: Store, tasks_each: int, *, pruning: bool) -> tuple[Timing, int]:
    """Return the duration of the tasks, and the number of finished ones that were removed meanwhile."""
    async with open_ledger(store, noop_catalog()) as ledger:
        session = await ledger.begin("pruner")
        before = await _rows(ledger)
        pruner = asyncio.create_task(prune_once(ledger, KEEP, (), SystemClock(), lambda: session)) if pruning else None
        timing = await push(ledger, jobs=JOBS, tasks_each=tasks_each)
        if pruner is not None:
            assert not pruner.done(), "it ran out of work: fill the store with more"
            pruner.cancel()
            await asyncio.gather(pruner, return_exceptions=True)
        await ledger.end(session)
        return timing, before + JOBS * tasks_each - await _rows(ledger)


async def _rows(ledger: object) -> int:
    database = ledger.database  # type: ignore[attr-defined]
    return int((await database.fetch(f"SELECT count(*) AS n FROM {tasks.name}"))[0]["n"])


if __name__ == "__main__":
    main(parse(__doc__))
