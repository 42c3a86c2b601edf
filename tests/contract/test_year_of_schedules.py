"""A year of a nightly schedule on the real ledgers, in a moment: the clock goes from one firing to the next."""

import asyncio
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from uuid import UUID

import pytest

from forager.core.ledger import NewJob
from forager.core.schedules import Schedule
from forager.engine.schedule import Scheduler, next_firing
from tests.support.rig import HandClock, Rig
from tests.support.rig_pipelines import calls

DAYS = 366
NIGHTLY = Schedule("nightly", "rig", {"name": "night"}, cron="30 2 * * *")


def clock_of(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> HandClock:
    """The ledger's own clock if it has one; PostgreSQL has its own time, so that its answer is replaced here."""
    if rig.clock is not None:
        return rig.clock
    clock = HandClock()

    async def now() -> datetime:
        return clock.now()

    monkeypatch.setattr(rig.ledger, "now", now)
    return clock


async def test_a_year_of_nights_makes_one_job_each_although_sometimes_two_schedulers_watch(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = clock_of(rig, monkeypatch)
    asked: list[str] = []

    async def create(schedule: Schedule, key: str) -> UUID:
        asked.append(key)
        new = NewJob(schedule.pipeline, schedule.params, idempotency_key=key, schedule=schedule.name)
        return (await rig.ledger.submit(new, calls(1))).job

    started = clock.now()
    first = next_firing(NIGHTLY, round(started.timestamp() * 1000))
    await rig.schedules.put(replace(NIGHTLY, next_at=first))
    schedulers = [Scheduler(rig.schedules, create, rig.ledger.now, clock) for _ in range(2)]
    nights: list[datetime] = []
    while clock.now() < started + timedelta(days=DAYS):
        watching = schedulers if len(nights) % 7 == 1 else schedulers[:1]
        await asyncio.gather(*(each.fire_due() for each in watching))
        (schedule,) = await rig.schedules.all()
        assert schedule.next_at is not None
        nights.append(datetime.fromtimestamp(schedule.next_at / 1000, UTC))
        clock.pass_((nights[-1] - clock.now()).total_seconds())
    fired = nights[:-1]
    assert len(fired) == DAYS
    assert {(at.hour, at.minute, at.second) for at in fired} == {(2, 30, 0)}
    assert {b - a for a, b in pairwise(fired)} == {timedelta(days=1)}
    assert len(asked) > DAYS, "on some nights both must have tried"
    jobs = rig.tables.read("SELECT public_id FROM jobs")
    assert len(jobs) == len(set(asked)) == DAYS
    assert str(schedule.last_job) in {str(row["public_id"]) for row in jobs}
    assert schedule.last_error is None
