"""Schedules under a fake clock; a year of them on the real ledgers is in `tests/contract/test_year_of_schedules.py`."""

from dataclasses import replace
from datetime import datetime
from typing import Any
from uuid import UUID, uuid4

import pytest

from forager.core.errors import Rejected
from forager.core.ledger import Schedule
from forager.engine.schedule import Scheduler, next_firing
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

    async def schedules(self) -> list[Schedule]:
        return [self.row]

    async def fired(
        self, name: str, *, at: int, next_at: int | None, job: UUID | None, error: str | None, expected: int | None
    ) -> bool:
        if self.row.next_at != expected:
            return False
        self.row = replace(self.row, last_at=at, next_at=next_at, last_job=job, last_error=error)
        return True


async def run_for(schedule: Schedule, clock: FakeClock, seconds: float) -> list[datetime]:
    """Let a scheduler live for so long; when it created jobs."""
    created: list[datetime] = []

    async def create(_: Schedule, key: str) -> UUID:
        created.append(clock.now())
        return uuid4()

    scheduler = Scheduler(OneSchedule(schedule, clock), create, clock)  # type: ignore[arg-type]
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


async def test_a_schedule_that_breaks_says_so_and_stops_no_other() -> None:
    clock = FakeClock()
    bad, good = (
        OneSchedule(Schedule(name, "places", {}, every=60, next_at=ms(clock.now())), clock) for name in ("bad", "good")
    )

    class Both:
        now = bad.now

        async def schedules(self) -> list[Schedule]:
            return [bad.row, good.row]

        async def fired(self, name: str, **what: Any) -> bool:
            return await (bad if name == "bad" else good).fired(name, **what)

    async def create(schedule: Schedule, key: str) -> UUID:
        if schedule.name == "bad":
            raise ValueError("what nobody expected")
        return uuid4()

    await Scheduler(Both(), create, clock).fire_due()  # type: ignore[arg-type]
    assert bad.row.last_error == "ValueError: what nobody expected"
    assert bad.row.next_at == good.row.next_at == ms(clock.now()) + 60_000
    assert good.row.last_job is not None


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
