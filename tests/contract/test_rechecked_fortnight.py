"""A fortnight of a recheck through the whole engine on SQLite and simulated time: every page is read at its moment."""

from collections import defaultdict
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import ClassVar

import pytest
from pydantic import BaseModel

from forager.core.errors import Permanent
from forager.core.http import Fetch, Request, Response
from forager.core.outcome import Done, Gone, Outcome
from forager.core.pipeline import Aftermath, Lane, Pipeline, TaskEnd, step
from forager.core.recheck import recheck
from forager.core.record import CLEAR, Clear, Index, Record
from forager.core.states import TaskState
from forager.core.task import Plan, Task
from tests.support.simulation import SimulatedClock, simulation

START = datetime(2026, 1, 1, 0, 30, tzinfo=UTC)
DAYS = 14
EVERY = {"hourly": timedelta(hours=1), "daily": timedelta(days=1), "stumbles": timedelta(hours=6)}
AFTER_FAILURE = timedelta(hours=2)


class Read(Task):
    kind: ClassVar[str] = "read"
    name: str

    def key(self) -> str:
        return self.name

    def lane(self) -> str:
        return "a.test"


class Page(Record):
    kind: ClassVar[str] = "rechecked-page"
    table: ClassVar[str] = "sim_rechecked_pages"
    key_field: ClassVar[str] = "name"
    quiet: ClassVar[frozenset[str]] = frozenset({"next_at"})
    indexes: ClassVar[tuple[Index, ...]] = (Index(("next_at",), where="next_at IS NOT NULL"),)
    name: str
    reads: int | None = None
    next_at: datetime | Clear | None = None


class Site(BaseModel):
    pages: tuple[str, ...] = ()


def ended(task: Read, end: TaskEnd) -> Aftermath | None:
    if end.state is TaskState.COMPLETED:
        return None
    return Aftermath(updates=[Page(name=task.name, next_at=end.at + AFTER_FAILURE)])


class World:
    """Pages that are read again and again: one fails at every second read, one is gone at its third."""

    def __init__(self) -> None:
        self.clock = SimulatedClock(START)
        self.reads: defaultdict[str, list[datetime]] = defaultdict(list)

    async def fetch(self, request: Request) -> Response:
        if request.on_leave is not None:
            request.on_leave()
        await self.clock.sleep(0.2)
        return Response(request.url, 200, {}, b"page", self.clock.now(), 200)

    async def read(self, task: Read, fetch: Fetch) -> Outcome:
        answer = await fetch(Request(f"https://a.test/{task.name}"))
        reads = self.reads[task.name]
        reads.append(answer.at)
        if task.name == "stumbles" and len(reads) % 2 == 0:
            raise Permanent("the page shows no price today")
        if task.name == "vanishes" and len(reads) == 3:
            return Done(gone=[Gone(Page(name=task.name, next_at=CLEAR), "not_found")], cost=0)
        again = answer.at + EVERY.get(task.name, timedelta(hours=1))
        return Done(records=[Page(name=task.name, reads=len(reads), next_at=again)], cost=0)

    @property
    def pipeline(self) -> Pipeline:
        return Pipeline(
            name="site",
            params=Site,
            plan=lambda site: [Plan(Read(name=name)) for name in site.pages],
            steps=(step(Read, self.read, on_end=ended),),
            records=(Page,),
            rechecks=(recheck(Page, due="next_at", task=lambda page: Read(name=page.name)),),
            lanes=(Lane("a.test", rate=1, per=1.0, site=True),),
        )


@pytest.fixture
def world() -> World:
    return World()


async def test_every_page_is_read_at_its_moment_for_a_fortnight_also_after_failures(
    tmp_path: Path, world: World
) -> None:
    names = [*EVERY, "vanishes"]
    async with simulation(tmp_path, [world.pipeline], world.fetch, clock=world.clock) as sim:
        await sim.rig.submit([Plan(Read(name=name)) for name in names], "site")
        await sim.run_for(days=DAYS)
        jobs = sim.rig.tables.read("SELECT total, completed, failed FROM jobs ORDER BY id")
    gaps = {name: [b - a for a, b in pairwise(world.reads[name])] for name in names}
    waits = {name: [EVERY.get(name, timedelta(hours=1))] * len(gaps[name]) for name in names}
    waits["stumbles"] = [AFTER_FAILURE if n % 2 else EVERY["stumbles"] for n in range(len(gaps["stumbles"]))]
    for name in names:
        for wait, gap in zip(waits[name], gaps[name], strict=True):
            assert timedelta(0) <= gap - wait < timedelta(seconds=10), name
    assert [len(world.reads[name]) for name in names] == [DAYS * 24, DAYS, 2 * DAYS * 24 // 8, 3]
    assert jobs == [
        {"total": 4, "completed": 4, "failed": 0},
        {"total": 4, "completed": 3, "failed": 1},
    ], "one standing job, with one task for each page, however often it is read"


async def test_after_an_outage_everything_that_came_due_is_read_once(tmp_path: Path, world: World) -> None:
    async with simulation(tmp_path, [world.pipeline], world.fetch, clock=world.clock) as sim:
        await sim.rig.submit([Plan(Read(name="hourly")), Plan(Read(name="daily"))], "site")
        await sim.run_for(seconds=60)
    await world.clock.advance(5 * 86_400)
    before = {name: len(reads) for name, reads in world.reads.items()}
    async with simulation(tmp_path, [world.pipeline], world.fetch, clock=world.clock) as sim:
        await sim.run_for(seconds=60)
    assert {name: len(reads) - before[name] for name, reads in world.reads.items()} == {"hourly": 1, "daily": 1}
