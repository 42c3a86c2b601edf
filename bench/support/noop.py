"""Tasks that do nothing, pushed through a ledger: submit → lease → run → settle, with every feature on.

One lane; the jobs share it fairly. The loop settles a group and leases the next in one turn, as the engine does.
"""

import gc
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from pydantic import BaseModel

from forager.core.http import Fetch
from forager.core.ledger import Ledger, NewJob, Settlement, Want
from forager.core.outcome import Done, Outcome
from forager.core.pipeline import Lane, Pipeline, step
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


class NoopJob(BaseModel):
    number: int
    tasks: int


def plan(job: NoopJob) -> Iterator[Plan]:
    for n in range(job.tasks):
        yield Plan(Noop(n=n))


async def do_nothing(task: Noop, fetch: Fetch | None) -> Outcome:
    return Done()


PIPELINE = Pipeline(name="noop", params=NoopJob, plan=plan, steps=(step(Noop, do_nothing),), lanes=(LANE,))


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


async def push(ledger: Ledger, *, jobs: int, tasks_each: int) -> Timing:
    """Create the jobs, then do all their tasks in one session."""
    gc.collect()  # and the collector is spared, as the app spares it
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)
    started, used = time.perf_counter(), time.process_time()
    for number in range(jobs):
        job = NoopJob(number=number, tasks=tasks_each)
        await ledger.submit(NewJob(PIPELINE.name, job.model_dump(mode="json")), plan(job))
    submitted = time.perf_counter()
    await work_off(ledger, jobs * tasks_each)
    ended, used = time.perf_counter(), time.process_time() - used
    return Timing(jobs * tasks_each, submitted - started, ended - submitted, used)


async def work_off(ledger: Ledger, tasks: int) -> None:
    session = await ledger.begin("bench")
    (lane,) = await ledger.take_lanes(session, 10)
    wants = [Want(lane.id, GROUP)]
    ended: list[Settlement] = []
    done = 0
    while done < tasks:
        turn = await ledger.turn(session, ended, wants)
        assert not turn.fenced, "a claim was lost: the run is worth nothing"
        done += len(ended)
        assert turn.leases or ended, f"{tasks - done} tasks are nowhere to be leased"
        ended = []
        for lease in turn.leases:
            assert isinstance(lease.task, Noop)
            await do_nothing(lease.task, None)
            ended.append(Settlement(lease, TaskState.COMPLETED))
    await ledger.end(session)
    assert not await ledger.has_open_work(), "jobs are left open"
