"""On SQLite waiting for work needs no polling: `work_arrived` also returns when a sleeping lane wakes up."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from forager.core.ledger import GivenLane
from forager.core.states import TaskState
from tests.support.rig import Rig, embedded_rig
from tests.support.rig_pipelines import calls
from tests.support.stepped_clock import settle

LONG = 1_000_000.0


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[Rig]:
    async with embedded_rig(tmp_path) as made:
        yield made


async def listening(rig: Rig) -> "asyncio.Task[None]":
    """All earlier events were received; everything from now on is new."""
    while True:
        waiting = asyncio.create_task(rig.ledger.work_arrived(LONG))
        await rig.ledger.sweep()
        await settle()
        if not waiting.done():
            return waiting


async def sleeping(rig: Rig, where: str, wait: float) -> None:
    """Create a lane with one task that waits for `wait` seconds, and give the lane back."""
    await rig.submit(calls(1, where=where, prefix=where))
    worker = await rig.worker()
    (lease,) = await worker.lease(lane=where)
    await worker.settle(lease, TaskState.WAITING, wait=wait)
    await rig.ledger.give_lanes(worker.session, {worker.lanes[where]: GivenLane()})
    await rig.ledger.end(worker.session)


async def taken(rig: Rig) -> list[str]:
    """The lanes that can be taken now; their task is ended, so that they stay idle."""
    worker = await rig.worker()
    await worker.drain()
    await rig.ledger.give_lanes(worker.session, {lane: GivenLane() for lane in worker.lanes.values()})
    await rig.ledger.end(worker.session)
    return list(worker.lanes)


def pass_time(rig: Rig, seconds: float) -> None:
    assert rig.clock is not None
    rig.clock.pass_(seconds)


async def test_the_wake_up_time_of_a_sleeping_lane_is_notified(rig: Rig) -> None:
    await sleeping(rig, "api", 3_600)
    waiting = await listening(rig)
    pass_time(rig, 3_599)
    await asyncio.sleep(0)
    assert not waiting.done()
    pass_time(rig, 1.001)
    await asyncio.wait_for(waiting, 60)
    assert await taken(rig) == ["api"]


async def test_of_two_sleeping_lanes_the_one_that_wakes_first_is_notified_first(rig: Rig) -> None:
    await sleeping(rig, "api", 3_600)
    waiting = await listening(rig)
    await sleeping(rig, "site", 60)
    await asyncio.wait_for(waiting, 60)  # the job
    waiting = await listening(rig)
    pass_time(rig, 61)
    await asyncio.wait_for(waiting, 60)
    assert await taken(rig) == ["site"]
    waiting = await listening(rig)
    pass_time(rig, 3_600)
    await asyncio.wait_for(waiting, 60)
    assert await taken(rig) == ["api"]


async def test_the_lanes_of_an_ended_session_are_notified(rig: Rig) -> None:
    await rig.submit(calls(1))
    worker = await rig.worker()
    waiting = await listening(rig)
    await rig.ledger.end(worker.session)
    await asyncio.wait_for(waiting, 60)
