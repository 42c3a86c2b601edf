"""Schedules under a fake clock; a year of them on the real ledgers is in `tests/contract/test_year_of_schedules.py`."""

import asyncio
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any
from uuid import UUID, uuid4

import pytest

from forager.core.errors import Busy, ForagerError, Rejected, StoreError, StoreUnavailable
from forager.core.schedules import Schedule
from forager.engine.schedule import MONTH, Scheduler, firings, next_firing
from tests.support.clock import FakeClock


def ms(moment: datetime) -> int:
    return round(moment.timestamp() * 1000)


class OneSchedule:
    """The verbs that a scheduler uses, over one row; the ledgers' own are in the contract suite."""

    def __init__(self, schedule: Schedule, clock: FakeClock) -> None:
        self.row = schedule
        self._clock = clock

    async def now(self) -> datetime:
        return self._clock.now()

    async def all(self) -> list[Schedule]:
        return [self.row]

    async def fired(
        self, name: str, *, at: int, next_at: int | None, job: UUID | None, error: str | None, expected: int | None
    ) -> bool:
        if self.row.next_at != expected:
            return False
        self.row = replace(self.row, last_at=at, next_at=next_at, last_job=job, last_error=error)
        return True


async def run_for(schedule: Schedule, clock: FakeClock, seconds: float) -> list[datetime]:
    """Run a scheduler for this time. Returns the times at which it created jobs."""
    created: list[datetime] = []

    async def create(_: Schedule, key: str) -> UUID:
        created.append(clock.now())
        return uuid4()

    kept = OneSchedule(schedule, clock)
    scheduler = Scheduler(kept, create, kept.now, clock)  # type: ignore[arg-type]
    end = clock.monotonic() + seconds
    while clock.monotonic() < end:
        await clock.sleep(min(await scheduler.fire_due(), end - clock.monotonic()))
    return created


async def test_what_was_missed_is_made_up_for_once() -> None:
    clock = FakeClock()
    hourly = Schedule("hourly", "places", {}, every=3_600, next_at=ms(clock.now()))
    clock.advance(10 * 3_600 + 60)
    created = await run_for(hourly, clock, 3_600)
    assert len(created) == 2, "once at once for the ten that were missed, once at the next full hour"
    assert created[1].minute == 0


async def test_a_paused_schedule_does_not_fire() -> None:
    clock = FakeClock()
    paused = Schedule("p", "places", {}, every=60, next_at=ms(clock.now()), paused=True)
    assert await run_for(paused, clock, 600) == []


@pytest.mark.parametrize("meanwhile", [False, True], ids=["alone", "its own time came meanwhile"])
async def test_a_firing_by_hand_is_noted_and_moves_none_of_its_own_times(meanwhile: bool) -> None:
    clock, made = FakeClock(), uuid4()
    due = ms(clock.now()) + 60_000
    kept = OneSchedule(Schedule("hourly", "places", {}, every=3_600, next_at=due), clock)

    async def create(_: Schedule, key: str) -> UUID:
        if meanwhile:
            kept.row = replace(kept.row, next_at=due + 3_600_000)
        return made

    assert await Scheduler(kept, create, kept.now, clock).fire_now(kept.row) == made  # type: ignore[arg-type]

    noted = (kept.row.next_at, kept.row.last_at, kept.row.last_job)
    assert noted == ((due + 3_600_000, None, None) if meanwhile else (due, ms(clock.now()), made))


async def test_a_firing_by_hand_that_cannot_be_noted_is_no_error() -> None:
    """The job exists: a caller who gets an error would create another."""
    clock, made = FakeClock(), uuid4()

    class Away(OneSchedule):
        async def fired(self, name: str, **_: Any) -> bool:
            raise StoreUnavailable("away")

    async def create(_: Schedule, key: str) -> UUID:
        return made

    kept = Away(Schedule("hourly", "places", {}, every=3_600, next_at=ms(clock.now())), clock)
    assert await Scheduler(kept, create, kept.now, clock).fire_now(kept.row) == made  # type: ignore[arg-type]


class Two:
    """Two schedules that are due; whatever is to happen to the first happens when its job is created."""

    def __init__(self, trouble: list[Exception]) -> None:
        self.clock = FakeClock()
        due = ms(self.clock.now())
        self.bad, self.good = (
            OneSchedule(Schedule(name, "places", {}, every=60, next_at=due), self.clock) for name in ("bad", "good")
        )
        self.keys: list[str] = []
        self._trouble = trouble
        self.scheduler = Scheduler(self, self._create, self.now, self.clock)  # type: ignore[arg-type]

    async def now(self) -> datetime:
        return self.clock.now()

    async def all(self) -> list[Schedule]:
        return [self.bad.row, self.good.row]

    async def fired(self, name: str, **what: Any) -> bool:
        return await (self.bad if name == "bad" else self.good).fired(name, **what)

    async def _create(self, schedule: Schedule, key: str) -> UUID:
        if schedule.name == "bad" and self._trouble:
            raise self._trouble.pop()
        self.keys.append(key)
        return uuid4()


async def test_a_failing_schedule_is_reported_and_stops_no_other() -> None:
    two = Two([ValueError("what nobody expected")])
    await two.scheduler.fire_due()
    assert two.bad.row.last_error == "ValueError: what nobody expected"
    assert two.bad.row.next_at == two.good.row.next_at == ms(two.clock.now()) + 60_000
    assert two.good.row.last_job is not None


@pytest.mark.parametrize("trouble", [Busy("The queue is full."), StoreError("Others were in the way.")])
async def test_what_may_pass_does_not_cost_a_schedule_its_firing(trouble: ForagerError) -> None:
    two = Two([trouble])
    due = two.bad.row.next_at
    assert await two.scheduler.fire_due() == 30.0
    assert (two.bad.row.next_at, two.bad.row.last_error) == (due, trouble.message)
    assert two.good.row.last_job is not None, "and no other waits for it"
    two.clock.advance(30)
    await two.scheduler.fire_due()
    assert two.keys == [f"schedule/good/{due}", f"schedule/bad/{due}"]
    assert two.bad.row.last_error is None


async def test_a_store_that_is_away_leaves_every_schedule_as_it_is() -> None:
    two = Two([StoreUnavailable("away")])
    before = await two.all()
    with pytest.raises(StoreUnavailable):
        await two.scheduler.fire_due()
    assert await two.all() == before


async def test_a_scheduler_continues_whatever_happens_to_it() -> None:
    """Nobody looks at it while it runs: what it does not survive would stop every schedule in silence."""
    two = Two([])
    real, failed = two.all, 0

    async def schedules() -> list[Schedule]:
        nonlocal failed
        failed += 1
        if failed == 1:
            raise RuntimeError("what nobody expected")
        return await real()

    two.all = schedules  # type: ignore[method-assign]
    running = asyncio.create_task(two.scheduler.run())
    async with asyncio.timeout(60):
        while not two.keys:
            await asyncio.sleep(0)
    running.cancel()
    assert len(two.keys) == 2


@pytest.mark.parametrize(
    ("schedule", "field"),
    [
        (Schedule("x", "places", {}, cron="61 * * * *"), "cron"),
        (Schedule("x", "places", {}, cron="nonsense"), "cron"),
        (Schedule("x", "places", {}, every=0.5), "every"),
        (Schedule("x", "places", {}), "every"),
    ],
)
def test_a_schedule_that_cannot_fire_is_refused_with_its_field(schedule: Schedule, field: str) -> None:
    with pytest.raises(Rejected) as refused:
        next_firing(schedule, 0)
    assert refused.value.fields[0].field == field


def test_an_interval_keeps_its_beat_however_late_it_was_looked_at() -> None:
    every = Schedule("x", "places", {}, every=60, next_at=120_000)
    assert next_firing(every, 125_000) == 180_000
    assert next_firing(every, 120_000 + 59_999) == 180_000
    assert next_firing(every, 500_000) == 540_000


def test_a_cron_expression_keeps_its_hour_where_clocks_change() -> None:
    at_six = Schedule("x", "places", {}, cron="0 6 * * *", timezone="America/New_York")
    moments = [datetime(2026, 3, 7, tzinfo=UTC)]  # clocks go forward on the 8th
    for _ in range(3):
        moments.append(datetime.fromtimestamp(next_firing(at_six, ms(moments[-1])) / 1000, UTC))
    assert [(each.day, each.hour) for each in moments[1:]] == [(7, 11), (8, 10), (9, 10)]


@pytest.mark.parametrize(
    ("schedule", "expected"),
    [
        (Schedule("x", "p", {}, every=5), 525_600),
        (Schedule("x", "p", {}, every=21_600), 121.67),
        (Schedule("x", "p", {}, cron="0 6 * * *"), 30),
        (Schedule("x", "p", {}, cron="0 6 * * *", timezone="Asia/Tokyo"), 31),
        (Schedule("x", "p", {}, cron="0 6 * * 1"), 5),
        (Schedule("x", "p", {}, cron="0 * * * *"), 730),
        (Schedule("x", "p", {}, cron="* * * * *"), 43_800),
        (Schedule("x", "p", {}, cron="0 0 29 2 *"), 0),
    ],
)
def test_the_firings_of_a_month_are_counted(schedule: Schedule, expected: float) -> None:
    assert firings(schedule, ms(datetime(2026, 3, 1, 12, tzinfo=UTC)), MONTH) == pytest.approx(expected, rel=0.01)
