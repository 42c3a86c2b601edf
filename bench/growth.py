"""Cost of history: the same no-op tasks through a ledger with 0, 100,000 and 1,000,000 finished tasks in it.

The tables are not analysed after the fill: PostgreSQL plans with the statistics of an empty store, which is where a
queue with a partial index collapses. The filled stores are vacuumed while they are idle, as autovacuum would within a
minute: it then notes that the queue is empty, which must not change a plan either.
"""

import statistics
import time
from collections import defaultdict

import uvloop

from bench.support.fill import fill
from bench.support.machine import Machine
from bench.support.noop import noop_catalog, push
from bench.support.options import Options, StoreKind, parse
from bench.support.stores import Store, Stores, open_ledger, vacuum
from bench.support.verdict import Target, conclude, print_table

JOBS = 100
TASKS_EACH = 300
LEVELS = (0, 100_000, 1_000_000)
QUICK_LEVELS = (0, 10_000, 100_000)
NEVER_ANALYSE = {"autovacuum_analyze_threshold": "2000000000"}
TARGETS = (Target("sqlite_loss", at_most=0.20), Target("postgres_loss", at_most=0.20))

Rates = dict[tuple[StoreKind, int], list[float]]


def main(options: Options) -> None:
    levels = QUICK_LEVELS if options.quick else LEVELS
    said = ", ".join(f"{level:,}" for level in levels)
    print(f"growth: {JOBS} jobs of {TASKS_EACH} no-op tasks with {said} finished before, {options.rounds} rounds")
    machine = Machine()
    rates: Rates = defaultdict(list)
    with Stores(options.stores, NEVER_ANALYSE) as stores:
        filled = {(kind, level): prepared(stores, kind, level) for kind in stores.kinds for level in levels if level}
        for number in range(1, options.rounds + 1):
            machine.sample()
            for kind in stores.kinds:
                for level in levels:
                    rate = measure(stores, kind, filled.get((kind, level)))
                    rates[kind, level].append(rate)
                    print(f"  round {number}: {kind:9} {level:>9,} finished {rate:9,.0f}/s", flush=True)
        machine.sample()
    report(rates, levels, machine)


def prepared(stores: Stores, kind: StoreKind, level: int) -> Store:
    started = time.perf_counter()
    store = stores.new(kind)
    uvloop.run(fill(store, level))
    print(f"  filled {kind} with {level:,} finished tasks in {time.perf_counter() - started:.1f} s", flush=True)
    return store


def measure(stores: Stores, kind: StoreKind, filled: Store | None) -> float:
    """On the filled store, or on a new one."""
    store = filled or stores.new(kind)

    async def run() -> float:
        async with open_ledger(store, noop_catalog()) as ledger:
            return (await push(ledger, jobs=JOBS, tasks_each=TASKS_EACH)).per_s

    if filled:
        uvloop.run(vacuum(filled))
    stores.settle()
    try:
        return uvloop.run(run())
    finally:
        if not filled:
            stores.drop(store)


def report(rates: Rates, levels: tuple[int, ...], machine: Machine) -> None:
    rows, figures = [], {}
    for kind in dict.fromkeys(kind for kind, _ in rates):
        median = [statistics.median(rates[kind, level]) for level in levels]
        # Compared inside each round, so that a slow minute of the machine is in both figures.
        losses = [1 - big / empty for empty, big in zip(rates[kind, 0], rates[kind, levels[-1]], strict=True)]
        figures[f"{kind}_loss"] = round(statistics.median(losses), 3)
        rows.append((kind, *(f"{rate:,.0f}" for rate in median), f"{figures[f'{kind}_loss']:.1%}"))
    print_table(("tasks/s", *(f"{level:,}" for level in levels), "lost"), rows)
    conclude("growth", figures, TARGETS, machine)


if __name__ == "__main__":
    main(parse(__doc__))
