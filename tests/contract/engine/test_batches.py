"""Work in batches of one job: the same engine in phases, for runners that show each of them."""

import asyncio
from typing import Any
from uuid import UUID

import pytest

from forager.core.errors import StoreUnavailable
from forager.core.ledger import LeaseBatch, Want
from forager.core.pipeline import Lane
from forager.core.states import TaskState
from forager.engine.work.batch import BatchWork
from tests.contract.engine.conftest import OpenRig
from tests.support.acts import acts, many
from tests.support.engine import PATIENCE, EngineRig, until

LANE = "acts"


async def test_a_batch_leases_some_tasks_of_one_job_and_settles_them_together__PL_16(open_rig: OpenRig) -> None:
    rig = await open_rig(acts())
    other = await rig.submit(many(10))
    job = await rig.submit(many(10, prefix="mine"))
    worker = rig.worker()
    batches = worker.batches()
    async with batches.running():
        leases = await batches.lease(rig.job(job)["id"], [LANE], 4)
        assert {lease.job_id for lease in leases} == {rig.job(job)["id"]}
        assert len(await batches.attempt()) == len(leases) == 4
        assert rig.job(job)["completed"] == 0, "nothing is stored before it is settled"
        assert {each.state for each in await batches.settle()} == {TaskState.COMPLETED}
        assert (rig.job(job)["completed"], rig.job(job)["queued"], rig.job(job)["running"]) == (4, 6, 0)
        left = await batches.lease(rig.job(job)["id"], [LANE], 4)
        assert len(left) == 4
    assert (rig.job(job)["queued"], rig.job(job)["running"]) == (6, 0), "what was not attempted is given back"
    assert {row["attempt"] for row in rig.tasks(job).values() if row["state"] == TaskState.READY} == {0}
    assert rig.job(other)["queued"] == 10
    assert not rig.tables.read("SELECT 1 AS one FROM lanes WHERE owner IS NOT NULL")


async def test_batches_respect_the_limits_of_the_job_and_the_lane(open_rig: OpenRig) -> None:
    rig = await open_rig(acts(Lane(LANE, rate=2)))
    job = await rig.submit(many(50), batch_size=20)
    batches = rig.worker().batches()
    async with batches.running():
        leases = await batches.lease(rig.job(job)["id"], [LANE], 50)
    assert 2 <= len(leases) <= 6, "no more than can start soon"


async def test_a_batch_larger_than_the_concurrency_keeps_that_many_tasks_in_flight__PL_18(open_rig: OpenRig) -> None:
    """`concurrency` is no batch size: the next task of the batch starts when one ends, not when all have ended."""
    rig = await open_rig(acts(timeout=PATIENCE))
    job = await rig.submit([*many(1, prefix="a-slow", seconds=2.0), *many(9, prefix="b-quick")], concurrency=2)
    batches = rig.worker().batches()
    async with batches.running():
        assert len(await batches.lease(rig.job(job)["id"], [LANE], 8)) == 2, "no more in flight than the job allows"
        attempting = asyncio.create_task(batches.attempt())
        await until(lambda: rig.job(job)["completed"] >= 6)
        assert rig.tasks(job)["a-slow00000"]["state"] == TaskState.RUNNING, "nothing waited for the slow one"
        assert rig.job(job)["running"] <= 2
        async with asyncio.timeout(PATIENCE):
            assert len(await attempting) == 8
        assert len(await batches.settle()) == 8
    assert (rig.job(job)["completed"], rig.job(job)["queued"]) == (8, 2), "and no more than the batch"


async def test_while_another_session_owns_the_lane_a_batch_is_empty(open_rig: OpenRig) -> None:
    rig = await open_rig(acts())
    job = await rig.submit(many(5))
    owner = await rig.ledger.begin("owner")
    assert await rig.ledger.take_lanes(owner, 10)
    batches = rig.worker().batches()
    async with batches.running():
        assert not await batches.lease(rig.job(job)["id"], [LANE], 5)
        assert not await batches.attempt()
        await rig.ledger.end(owner)
        await _finish(rig, batches, job, size=5)


async def test_a_batch_of_a_lost_session_has_no_effect_and_the_next_one_does_the_work__PL_6(open_rig: OpenRig) -> None:
    rig = await open_rig(acts(), lease=30.0)
    job = await rig.submit(many(6))
    batches = rig.worker().batches()
    async with batches.running():
        assert len(await batches.lease(rig.job(job)["id"], [LANE], 6)) == 6
        await batches.attempt()
        await _end_sessions(rig)
        assert not await batches.settle(), "every claim was lost"
        assert rig.job(job)["completed"] == 0
    batches = rig.worker(name="next").batches()
    async with batches.running():
        await _finish(rig, batches, job, size=6)
    (told,) = rig.tables.read("SELECT count(*) AS n FROM changes WHERE kind = 'deed'")
    assert told["n"] == 6


async def test_a_batch_waits_for_a_store_that_does_not_answer_and_keeps_no_lost_lease(open_rig: OpenRig) -> None:
    rig = await open_rig(acts())
    job = await rig.submit(many(40))
    lost = _lose_every_third_answer(rig)
    batches = rig.worker().batches()
    async with batches.running():
        await _finish(rig, batches, job, size=10)
    assert lost[0] >= 2
    assert {row["attempt"] for row in rig.tasks(job).values()} == {1}, "a lease whose answer was lost burns nothing"


async def test_a_heartbeat_that_fails_stops_the_batches_and_everything_is_given_back(open_rig: OpenRig) -> None:
    rig = await open_rig(acts(), lease=3.0)
    job = await rig.submit(many(4))
    beaten = asyncio.Event()

    async def defective(*_: Any) -> None:
        beaten.set()
        raise LookupError("a defect of the heartbeat")

    rig.ledger.beat = defective
    batches = rig.worker().batches()
    running = batches.running()
    await running.__aenter__()
    assert len(await batches.lease(rig.job(job)["id"], [LANE], 4)) == 4
    async with asyncio.timeout(PATIENCE):
        await beaten.wait()
    await batches.attempt()
    with pytest.raises(LookupError, match="a defect"):
        await batches.settle()
    with pytest.raises(LookupError, match="a defect"):
        await running.__aexit__(None, None, None)
    assert rig.job(job)["completed"] == 4, "the session was still alive"
    assert not rig.tables.read("SELECT 1 AS one FROM sessions")
    assert not rig.tables.read("SELECT 1 AS one FROM lanes WHERE owner IS NOT NULL")


async def test_tasks_of_a_dead_worker_are_done_in_batches_too__R4(open_rig: OpenRig) -> None:
    rig = await open_rig(acts())
    job = await rig.submit(many(4))
    dead = await rig.ledger.begin("dead")
    lanes = await rig.ledger.take_lanes(dead, 10)
    assert (await rig.ledger.settle_and_lease(dead, [], [Want(lane.id, 10) for lane in lanes])).leases
    await _end_sessions(rig)
    batches = rig.worker().batches()
    async with batches.running():
        await _finish(rig, batches, job, size=10)


async def _finish(rig: EngineRig, batches: BatchWork, job: UUID, *, size: int) -> None:
    async with asyncio.timeout(PATIENCE):
        while rig.job(job)["state"] != "completed":
            await batches.lease(rig.job(job)["id"], [LANE], size)
            await batches.attempt()
            await batches.settle()
            await asyncio.sleep(0)


def _lose_every_third_answer(rig: EngineRig) -> list[int]:
    """Every third transaction is committed, and its answer is lost."""
    calls, lost, real = [0], [0], rig.ledger.settle_and_lease

    async def unreliable(*arguments: Any) -> LeaseBatch:
        answer: LeaseBatch = await real(*arguments)
        calls[0] += 1
        if calls[0] % 3 == 0:
            lost[0] += 1
            raise StoreUnavailable("The answer was lost.")
        return answer

    rig.ledger.settle_and_lease = unreliable
    return lost


async def _end_sessions(rig: EngineRig) -> None:
    """As if every lease had passed: the sweep finds the sessions dead."""
    await rig.ledger.database.write("UPDATE sessions SET lease_until = 0")
    await rig.ledger.sweep()
