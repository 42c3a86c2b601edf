"""Tasks that do nothing, pushed through a ledger: submit → lease → run → settle, with every feature on.

One lane; the jobs share it fairly. Each turn settles a group and leases the next, as the engine's do.
"""

import asyncio
import gc
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from pydantic import BaseModel

from forager.cli.process import SWITCH_INTERVAL
from forager.core.http import Fetch
from forager.core.ledger import Ledger, NewJob, Session, Settlement, Want
from forager.core.outcome import Done, Outcome
from forager.core.pipeline import Lane, Pipeline, step
from forager.core.record import Record
from forager.core.states import TaskState
from forager.core.task import Plan, Task
from forager.ledger.catalog import Catalog

GROUP = 500
LANE = Lane("noop", rate=None)


class Noop(Task):
    kind: ClassVar[str] = "noop"
    n: int

    def key(self) -> str:
        return str(self.n)

    def lane(self) -> str:
        return LANE.name


class NoopFound(Record):
    """What a task finds, where a task finds something."""

    kind: ClassVar[str] = "noop-found"
    table: ClassVar[str] = "noop_found"
    key_field: ClassVar[str] = "uid"
    uid: str
    title: str | None = None


class NoopJob(BaseModel):
    number: int
    tasks: int
    first: int = 0
    """Number of its first task: records of several jobs must not be the same."""


def plan(job: NoopJob) -> Iterator[Plan]:
    for n in range(job.first, job.first + job.tasks):
        yield Plan(Noop(n=n))


async def do_nothing(task: Noop, fetch: Fetch | None) -> Outcome:
    return Done()


PIPELINE = Pipeline(
    name="noop", params=NoopJob, plan=plan, steps=(step(Noop, do_nothing),), records=(NoopFound,), lanes=(LANE,)
)


@dataclass(frozen=True, slots=True)
class Timing:
    tasks: int
    submit: float
    work: float
    cpu: float
    """Seconds of this process, all threads; a database server's own are not in it."""

    @property
    def per_s(self) -> float:
        return self.tasks / (self.submit + self.work)

    @property
    def cpu_us(self) -> float:
        return self.cpu * 1e6 / self.tasks


def noop_catalog() -> Catalog:
    return Catalog([PIPELINE])


async def push(ledger: Ledger, *, jobs: int, tasks_each: int, callers: int = 1, records: bool = False) -> Timing:
    """Create the jobs, then do all their tasks in one session. `callers`: the number of calls under way at a time;
    `records`: each task finds one."""
    gc.collect()  # and the collector is spared and threads take turns as in the app
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)
    sys.setswitchinterval(SWITCH_INTERVAL)
    started, used = time.perf_counter(), time.process_time()
    numbers = iter(range(jobs))
    await asyncio.gather(*[_create(ledger, numbers, tasks_each, apart=records) for _ in range(callers)])
    submitted = time.perf_counter()
    await _work_off(ledger, jobs * tasks_each, callers, records=records)
    ended, used = time.perf_counter(), time.process_time() - used
    return Timing(jobs * tasks_each, submitted - started, ended - submitted, used)


async def _create(ledger: Ledger, numbers: Iterator[int], tasks_each: int, *, apart: bool) -> None:
    for number in numbers:
        job = NoopJob(number=number, tasks=tasks_each, first=number * tasks_each if apart else 0)
        await ledger.submit(NewJob(PIPELINE.name, job.model_dump(mode="json")), plan(job))


async def _work_off(ledger: Ledger, tasks: int, callers: int, *, records: bool) -> None:
    session = await ledger.begin("bench")
    (lane,) = await ledger.take_lanes(session, 10)
    done = await asyncio.gather(*[_turns(ledger, session, lane.id, records=records) for _ in range(callers)])
    await ledger.end(session)
    assert sum(done) == tasks, f"{sum(done)} of {tasks} tasks were done"
    assert not await ledger.has_work(), "jobs are left open"


async def _turns(ledger: Ledger, session: Session, lane: int, *, records: bool) -> int:
    """Settle a group and lease the next until there is none; returns how many tasks were done."""
    wants = [Want(lane, GROUP)]
    ended: list[Settlement] = []
    done = 0
    while True:
        batch = await ledger.settle_and_lease(session, ended, wants)
        assert not batch.fenced, "a claim was lost: the run is worth nothing"
        done += len(ended)
        if not batch.leases:
            return done
        ended = []
        for lease in batch.leases:
            assert isinstance(lease.task, Noop)
            await do_nothing(lease.task, None)
            n = lease.task.n
            found = [NoopFound(uid=str(n), title=f"number {n}")] if records else ()
            ended.append(Settlement(lease, TaskState.COMPLETED, records=found))
