"""Schedules on the ledger: kept, paused, fired by one process only."""

import asyncio
from dataclasses import replace
from uuid import uuid4

import pytest

from forager.core.errors import NotFound
from forager.core.schedules import Schedule
from tests.support.rig import Rig

NIGHTLY = Schedule("nightly", "rig", {"name": "n", "deep": {"a": [1, None]}}, cron="0 3 * * *", next_at=1_000)


async def test_a_schedule_is_kept_as_it_was_given(rig: Rig) -> None:
    often = Schedule("often", "rig", {}, every=90.5, paused=True, next_at=5)
    abroad = Schedule("abroad", "rig", {}, cron="0 6 * * *", timezone="America/New_York", next_at=7)
    for each in (NIGHTLY, often, abroad):
        assert await rig.schedules.put(each)
    assert list(await rig.schedules.all()) == [abroad, NIGHTLY, often]


async def test_a_schedule_of_the_same_name_stays_if_it_must_not_be_replaced(rig: Rig) -> None:
    assert await rig.schedules.put(NIGHTLY, replace=False)
    assert not await rig.schedules.put(replace(NIGHTLY, cron="0 4 * * *"), replace=False)
    assert list(await rig.schedules.all()) == [NIGHTLY]


async def test_a_schedule_of_the_same_name_is_replaced(rig: Rig) -> None:
    await rig.schedules.put(NIGHTLY)
    changed = replace(NIGHTLY, cron=None, every=60.0, next_at=7, params={"name": "m"})
    await rig.schedules.put(changed)
    assert list(await rig.schedules.all()) == [changed]


async def test_a_schedule_can_be_removed(rig: Rig) -> None:
    await rig.schedules.put(NIGHTLY)
    await rig.schedules.remove("nightly")
    assert list(await rig.schedules.all()) == []
    with pytest.raises(NotFound, match="nightly"):
        await rig.schedules.remove("nightly")


async def test_a_paused_schedule_resumes_at_the_given_time(rig: Rig) -> None:
    await rig.schedules.put(NIGHTLY)
    await rig.schedules.pause("nightly", paused=True)
    (paused,) = await rig.schedules.all()
    assert (paused.paused, paused.next_at) == (True, 1_000)
    await rig.schedules.pause("nightly", paused=False, next_at=9_000)
    (resumed,) = await rig.schedules.all()
    assert (resumed.paused, resumed.next_at) == (False, 9_000)
    with pytest.raises(NotFound, match="nobody"):
        await rig.schedules.pause("nobody", paused=True)


async def test_of_many_that_fire_a_schedule_one_is_first(rig: Rig) -> None:
    await rig.schedules.put(NIGHTLY)
    job = uuid4()
    fired = await asyncio.gather(
        *(
            rig.schedules.fired("nightly", at=1_000, next_at=2_000, job=job, error=None, expected=1_000)
            for _ in range(10)
        )
    )
    assert sorted(fired) == [False] * 9 + [True]
    (row,) = await rig.schedules.all()
    assert (row.last_at, row.next_at, row.last_job, row.last_error) == (1_000, 2_000, job, None)


async def test_a_failed_schedule_shows_the_reason_and_keeps_its_last_job(rig: Rig) -> None:
    await rig.schedules.put(NIGHTLY)
    job = uuid4()
    await rig.schedules.fired("nightly", at=1, next_at=2, job=job, error=None, expected=1_000)
    assert await rig.schedules.fired("nightly", at=2, next_at=None, job=None, error="no such state", expected=2)
    (row,) = await rig.schedules.all()
    assert (row.last_job, row.last_error, row.next_at) == (job, "no such state", None)


async def test_a_schedule_without_a_next_moment_can_be_fired_by_hand(rig: Rig) -> None:
    await rig.schedules.put(replace(NIGHTLY, next_at=None))
    assert await rig.schedules.fired("nightly", at=5, next_at=None, job=uuid4(), error=None, expected=None)
