"""Fourteen days through the whole engine on SQLite, in seconds: every wait is one on the injected clock."""

import time
from collections import defaultdict
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import ClassVar

import pytest
from pydantic import BaseModel

from forager.core.change import Change
from forager.core.errors import Retry, Transient
from forager.core.http import Fetch, Request, Response
from forager.core.outcome import Done, Outcome, Snooze
from forager.core.pipeline import Hours, Lane, Pipeline, step
from forager.core.record import Record
from forager.core.schedules import Schedule
from forager.core.task import Plan, Task
from tests.support.simulation import SimulatedClock, simulation

START = datetime(2026, 1, 1, 0, 30, tzinfo=UTC)
DAYS = 14
HOURS = DAYS * 24
NOT_READY_FOR = 90 * 60.0
TIMEOUT = 30.0
RETRY = Retry(3, first=60.0)
MOST_CPU = 60.0
"""Seconds of the processor: a handful on a quiet machine. With polls of one second it would be many minutes."""


class Visit(Task):
    kind: ClassVar[str] = "visit"
    name: str
    where: str = "a.test"

    def key(self) -> str:
        return self.name

    def lane(self) -> str:
        return self.where


class Page(Record):
    kind: ClassVar[str] = "page"
    table: ClassVar[str] = "sim_pages"
    key_field: ClassVar[str] = "name"
    name: str
    visits: int = 0


class Hourly(BaseModel):
    name: str = "hourly"


class World:
    """The pages of the simulation: a page that comes at the third try, one that is not ready at first, one that hangs
    once."""

    def __init__(self) -> None:
        self.clock = SimulatedClock(START)
        self.runs: defaultdict[str, list[datetime]] = defaultdict(list)
        """Times at which a step had its page, by task."""
        self.sent: defaultdict[str, list[datetime]] = defaultdict(list)
        """Times at which a request left, by lane."""

    async def fetch(self, request: Request) -> Response:
        self.sent[request.url.split("/")[2]].append(self.clock.now())
        if request.on_leave is not None:
            request.on_leave()
        await self.clock.sleep(0.2)
        return Response(request.url, 200, {}, b"page", self.clock.now(), 200)

    async def visit(self, task: Visit, fetch: Fetch) -> Outcome:
        await fetch(Request(f"https://{task.where}/{task.name}"))
        self.runs[task.name].append(self.clock.now())
        times = len(self.runs[task.name])
        if task.name == "stumbles" and times % 3:
            raise Transient("not this time")
        if task.name == "later" and times % 2:
            return Snooze(NOT_READY_FOR, "it is not ready yet")
        if task.name == "hangs" and times % 2:
            await self.clock.sleep(10 * TIMEOUT)
        children = [Plan(Visit(name="child", where="b.test"))] if task.name == "parent" else []
        return Done(records=(Page(name=task.name, visits=times),), tasks=children, cost=0)

    def pipeline(self, *names: str) -> Pipeline:
        def plan(_: Hourly) -> list[Plan]:
            return [Plan(Visit(name=name, where="day.test" if name == "by-day" else "a.test")) for name in names]

        return Pipeline(
            name="hourly",
            params=Hourly,
            plan=plan,
            steps=(step(Visit, self.visit, timeout=TIMEOUT, retry=RETRY),),
            records=(Page,),
            lanes=(
                Lane("a.test", rate=1, per=5.0, site=True),
                Lane("b.test", rate=1, per=60.0, site=True),
                Lane("day.test", rate=10, hours=Hours(6, 22), site=True),
            ),
        )


class Log:
    """A sink that keeps the numbers of its changes."""

    name = "log"
    kinds = None

    def __init__(self) -> None:
        self.taken: list[int] = []

    async def write(self, batch: Sequence[Change]) -> bool:
        self.taken += [change.id for change in batch]
        return True


@pytest.fixture
def world() -> World:
    return World()


async def test_a_fortnight_of_hourly_jobs_with_retries_snoozes_hangs_and_hours_runs_in_seconds(
    tmp_path: Path, world: World
) -> None:
    began, log = time.process_time(), Log()
    pipeline = world.pipeline("well", "stumbles", "later", "hangs", "parent", "by-day")
    async with simulation(tmp_path, [pipeline], world.fetch, clock=world.clock, sinks=[log]) as sim:
        await sim.put_schedule(Schedule("hourly", "hourly", {}, every=3_600))
        await sim.run_for(days=DAYS)
        await sim.rig.schedules.pause("hourly", paused=True)
        await sim.run_for(days=1)
        assert time.process_time() - began < MOST_CPU
        last = sim.rig.last_change()
        states = sim.rig.tables.read("SELECT state, count(*) AS jobs FROM jobs GROUP BY state")
    assert sim.fired == [START + timedelta(hours=n + 1) for n in range(HOURS)]
    assert states == [{"state": "completed", "jobs": HOURS}]
    runs = {name: len(times) for name, times in world.runs.items()}
    assert runs == dict.fromkeys(("well", "parent", "child", "by-day"), HOURS) | {
        "stumbles": 3 * HOURS,
        "later": 2 * HOURS,
        "hangs": 2 * HOURS,
    }
    assert all(Hours(6, 22).open_at(at) for at in world.sent["day.test"])
    for lane, gap in (("a.test", 5), ("b.test", 60)):
        assert min(b - a for a, b in pairwise(world.sent[lane])) >= timedelta(seconds=gap)
    assert log.taken == list(range(1, last + 1))


async def test_waits_end_at_their_moment_and_not_at_the_next_look(tmp_path: Path, world: World) -> None:
    async with simulation(tmp_path, [world.pipeline()], world.fetch, clock=world.clock) as sim:
        await sim.rig.submit([Plan(Visit(name="later"))], "hourly")
        await sim.rig.submit([Plan(Visit(name="stumbles", where="b.test"))], "hourly")
        await sim.run_for(days=1)
    first, second = world.runs["later"]
    assert timedelta(0) <= second - first - timedelta(seconds=NOT_READY_FOR) < timedelta(seconds=6)
    waits = [(b - a).total_seconds() for a, b in pairwise(world.runs["stumbles"])]
    assert [wait - least < 0.1 * least + 7 for least, wait in zip((60, 120), waits, strict=True)] == [True, True]


async def test_what_a_dead_worker_held_is_done_again_when_its_lease_has_passed(tmp_path: Path, world: World) -> None:
    lease, every = 3_600.0, 300.0
    async with simulation(
        tmp_path, [world.pipeline()], world.fetch, clock=world.clock, lease=lease, every=every
    ) as sim:
        job = await sim.rig.submit([Plan(Visit(name="hangs"))], "hourly")
        await sim.run_for(seconds=10)
        assert sim.worker.in_flight == 1
        sim.kill_worker()
        sim.start_worker()
        await sim.run_for(days=1)
        assert sim.rig.job(job)["state"] == "completed"
    first, second = world.runs["hangs"]
    assert lease - 10 <= (second - first).total_seconds() <= lease + every + 15


async def test_tasks_with_a_due_time_run_at_it_in_every_lane(tmp_path: Path, world: World) -> None:
    async with simulation(tmp_path, [world.pipeline()], world.fetch, clock=world.clock) as sim:
        due = {name: START + timedelta(hours=hours) for name, hours in (("one", 30), ("two", 20), ("three", 250))}
        await sim.rig.submit([Plan(Visit(name=name), due=due[name]) for name in ("one", "three")], "hourly")
        await sim.rig.submit([Plan(Visit(name="well"))], "hourly")
        await sim.run_for(seconds=1)  # the lane has an owner now, which has only the first two
        await sim.rig.submit([Plan(Visit(name="two"), due=due["two"])], "hourly")
        await sim.run_for(days=DAYS)
    for name, moment in due.items():
        (ran,) = world.runs[name]
        assert timedelta(0) <= ran - moment < timedelta(seconds=6), name
