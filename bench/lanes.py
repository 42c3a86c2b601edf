"""Cost of many lanes: lease and settle of 10,000 lanes with 10 due tasks each, against as many tasks in one lane.

One session owns all lanes and works them off in turns of 500 tasks: 50 lanes a turn, or the one. Both are measured in
the same round; only leasing and settling count, not the submission.
"""

import statistics
import time
from collections import defaultdict
from collections.abc import Iterator
from typing import ClassVar

import uvloop
from pydantic import BaseModel

from bench.support.machine import Machine
from bench.support.noop import GROUP
from bench.support.options import Options, StoreKind, parse
from bench.support.stores import Stores, open_ledger
from bench.support.verdict import Target, conclude, print_table
from forager.core.http import Fetch
from forager.core.ledger import Ledger, NewJob, Settlement, Want
from forager.core.outcome import Done, Outcome
from forager.core.pipeline import Pipeline, step
from forager.core.states import TaskState
from forager.core.task import Plan, Task
from forager.ledger.catalog import Catalog

LANES, DUE_EACH = 10_000, 10
JOBS = 100
TARGETS = (Target("cost_ratio", at_most=2.0), Target("postgres_cost_ratio", at_most=3.0))


class Visit(Task):
    kind: ClassVar[str] = "visit"
    n: int
    lanes: int

    def key(self) -> str:
        return str(self.n)

    def lane(self) -> str:
        return f"site-{self.n % self.lanes}"


class Visits(BaseModel):
    first: int
    tasks: int
    lanes: int


def plan(job: Visits) -> Iterator[Plan]:
    """Each lane has work of many jobs, as a site has."""
    for n in range(job.first, job.first + job.tasks):
        yield Plan(Visit(n=n, lanes=job.lanes))


async def do_nothing(task: Visit, fetch: Fetch | None) -> Outcome:
    return Done()


PIPELINE = Pipeline(name="visits", params=Visits, plan=plan, steps=(step(Visit, do_nothing),))


def main(options: Options) -> None:
    lanes = LANES // 10 if options.quick else LANES
    print(f"lanes: {lanes:,} with {DUE_EACH} due tasks each against one, {JOBS} jobs, {options.rounds} rounds")
    machine = Machine()
    spent: dict[tuple[StoreKind, int], list[float]] = defaultdict(list)
    with Stores(options.stores) as stores:
        for number in range(1, options.rounds + 1):
            machine.sample()
            for kind in stores.kinds:
                for count in (1, lanes):
                    seconds = measure(stores, kind, count, lanes * DUE_EACH)
                    spent[kind, count].append(seconds)
                    each = seconds * 1e6 / (lanes * DUE_EACH)
                    print(f"  round {number}: {kind:9} {count:>6,} lanes {each:7.1f} µs a task", flush=True)
        machine.sample()
    report(spent, lanes, machine)


def measure(stores: Stores, kind: StoreKind, lanes: int, tasks: int) -> float:
    store = stores.new(kind)
    stores.settle()

    async def run() -> float:
        async with open_ledger(store, Catalog([PIPELINE])) as ledger:
            for number in range(JOBS):
                job = Visits(first=number * tasks // JOBS, tasks=tasks // JOBS, lanes=lanes)
                await ledger.submit(NewJob(PIPELINE.name, job.model_dump(mode="json")), plan(job))
            return await work_off(ledger, lanes, tasks)

    try:
        return uvloop.run(run())
    finally:
        stores.drop(store)


async def work_off(ledger: Ledger, lanes: int, tasks: int) -> float:
    """Seconds for leasing and settling everything, a group at a time."""
    session = await ledger.begin("bench")
    owned = await ledger.take_lanes(session, lanes)
    assert len(owned) == lanes, f"{len(owned)} of {lanes} lanes were there"
    most = min(GROUP, tasks // lanes)
    wants = [Want(lane.id, most) for lane in owned]
    a_turn = GROUP // most
    ended: list[Settlement] = []
    done = at = 0
    started = time.perf_counter()
    while done < tasks:
        batch = await ledger.settle_and_lease(session, ended, wants[at : at + a_turn])
        at = (at + a_turn) % lanes
        done += len(ended)
        assert batch.leases or ended, f"{tasks - done} tasks are nowhere to be leased"
        ended = [Settlement(lease, TaskState.COMPLETED) for lease in batch.leases]
    seconds = time.perf_counter() - started
    await ledger.end(session)
    return seconds


def report(spent: dict[tuple[StoreKind, int], list[float]], lanes: int, machine: Machine) -> None:
    figures: dict[str, float] = {}
    rows = []
    for kind in dict.fromkeys(kind for kind, _ in spent):
        ratios = [many / one for many, one in zip(spent[kind, lanes], spent[kind, 1], strict=True)]
        key = "cost_ratio" if kind == "sqlite" else "postgres_cost_ratio"
        figures[key] = round(statistics.median(ratios), 2)
        rows.append((kind, f"{figures[key]:.2f}", f"{min(ratios):.2f}", f"{max(ratios):.2f}"))
    print_table(("many lanes / one", "median", "least", "most"), rows)
    conclude("lanes", figures, TARGETS, machine)


if __name__ == "__main__":
    main(parse(__doc__))
