"""Lock order on PostgreSQL (trap 10), one pair of transactions at a time: the second half of each deadlock that was
found is held back until the first one waits."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import asyncpg
import pytest

from forager.core.ledger import NewJob, Settlement
from forager.core.states import Reason, TaskState
from forager.core.task import Plan
from tests.contract.test_postgres_locks import deadlocks
from tests.support.rig import Rig, Worker, postgres_rig
from tests.support.rig_pipelines import Call, calls, chain

LOW, HIGH = "low", "near"
"""Two lanes, in the order of their numbers."""
JOB = NewJob("rig", {"name": "job"})
STANDING = NewJob("rig", {"name": "standing"}, idempotency_key=" standing")
WAITING = """
SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'
"""


@asynccontextmanager
async def opened(url: str, count: int = 1) -> AsyncIterator[tuple[list[Rig], Any]]:
    """Yield processes of one store and a plain connection, and check that the server has ended no deadlock."""
    rigs = [await postgres_rig(url, create=n == 0) for n in range(count)]
    other = await asyncpg.connect(url)
    yield rigs, other
    rigs[0].check()
    await other.close()
    for rig in rigs:
        await rig.ledger.close()
        rig.tables.close()
    assert await deadlocks(url) == 0


async def until_waiting(db: Any, count: int = 1) -> None:
    """Wait until so many transactions wait for a lock."""
    async with asyncio.timeout(60):
        while await db.fetchval(WAITING) < count:
            await asyncio.sleep(0.01)


def call(name: str, where: str) -> Plan:
    return Plan(Call(name=name, where=where))


async def lane(db: Any, name: str) -> int:
    return int(await db.fetchval("SELECT id FROM lanes WHERE name = $1", name))


async def failed_in_the_high_lane(rig: Rig, worker: Worker, job: NewJob, reason: Reason | None = None) -> Any:
    """A job with a ready task in the low lane and a dead letter in the high one, which has no flow any more."""
    submitted = await rig.ledger.append(job, [call("a", LOW), call("b", HIGH)])
    (lease,) = await worker.lease(lane=HIGH)
    await worker.settle(lease, TaskState.FAILED, error="no luck", reason=reason)
    await worker.cycle(most=1, lane=HIGH)  # finds nothing, and removes the flow
    return submitted.job


async def retry(rig: Rig, worker: Worker) -> Awaitable[Any]:
    job = await failed_in_the_high_lane(rig, worker, STANDING)
    return rig.ledger.retry(job)


async def append(rig: Rig, worker: Worker) -> Awaitable[Any]:
    await failed_in_the_high_lane(rig, worker, STANDING)
    return rig.ledger.append(STANDING, [call("b", HIGH)], again=True)


async def resume(rig: Rig, worker: Worker) -> Awaitable[Any]:
    job = await failed_in_the_high_lane(rig, worker, STANDING, Reason.UNREACHABLE)
    await rig.ledger.pause(job, "no network")
    return rig.ledger.resume(job)


@pytest.mark.parametrize("verb", [retry, append, resume])
async def test_what_queues_tasks_again_locks_flows_in_the_order_of_a_settlement_trap_10(
    postgres_url: str, verb: Callable[[Rig, Worker], Awaitable[Awaitable[Any]]]
) -> None:
    async with opened(postgres_url) as ((rig,), settling):
        await rig.ledger.append(NewJob("rig", {"name": "first"}, idempotency_key=" first"), [call("x", LOW)])
        worker = await rig.worker()
        again = await verb(rig, worker)
        lanes = [await lane(settling, name) for name in (LOW, HIGH)]
        assert lanes == sorted(lanes)
        (number,) = await settling.fetchrow("SELECT id FROM jobs WHERE params->>'name' = 'standing'")
        async with settling.transaction():
            add = (
                "INSERT INTO flows (lane_id, job_id, turn, paused) VALUES ($1, $2, 0, false)"
                " ON CONFLICT (lane_id, job_id) DO UPDATE SET turn = 0"
            )
            await settling.execute(add, lanes[0], number)
            waiting = asyncio.ensure_future(again)
            await until_waiting(settling)
            await settling.execute(add, lanes[1], number)
        async with asyncio.timeout(60):
            await waiting


async def test_two_that_wait_for_a_lane_that_falls_asleep_do_not_wait_for_each_other_trap_10(
    postgres_url: str,
) -> None:
    async with opened(postgres_url, 2) as (rigs, giving):
        await rigs[0].ledger.submit(JOB, calls(1, where=LOW))
        worker = await rigs[0].worker()
        await worker.drain()
        for rig in rigs:  # each knows the number of the lane
            await rig.ledger.submit(JOB, calls(1, where=LOW))
        await worker.drain()
        async with giving.transaction():
            await giving.execute("SELECT 1 FROM lanes WHERE name = $1 FOR UPDATE", LOW)
            submitting = [asyncio.create_task(rig.ledger.submit(JOB, calls(1, where=LOW))) for rig in rigs]
            await until_waiting(giving, 2)
            await giving.execute("UPDATE lanes SET owner = NULL, wake_at = NULL WHERE name = $1", LOW)
        async with asyncio.timeout(60):
            await asyncio.gather(*submitting)
        assert await giving.fetchval("SELECT wake_at IS NOT NULL FROM lanes WHERE name = $1", LOW)
        assert len(await worker.drain()) == 2


async def test_a_turn_that_promotes_tasks_locks_flows_before_the_lanes_that_it_wakes_trap_10(
    postgres_url: str,
) -> None:
    async with opened(postgres_url) as ((rig,), retrying):
        await rig.ledger.submit(JOB, [call("a", LOW), call("b", LOW)])
        worker = await rig.worker()
        first, second = await worker.lease()
        await worker.settle(first, TaskState.WAITING, wait=0.001, error="not now")
        await rig.ledger.submit(JOB, [call("z", HIGH)])
        await worker.cycle([], most=0)
        await retrying.execute("UPDATE queue SET due = 0 WHERE state = 1")
        await retrying.execute("UPDATE lanes SET wake_at = NULL WHERE name = $1", HIGH)
        numbers = [await lane(retrying, name) for name in (LOW, HIGH)]
        async with retrying.transaction():
            await retrying.execute(
                "INSERT INTO flows (lane_id, job_id, turn, paused) VALUES ($1, $2, 0, false)"
                " ON CONFLICT (lane_id, job_id) DO UPDATE SET turn = 0",
                numbers[0],
                first.job_id,
            )
            child = Settlement(second, TaskState.COMPLETED, tasks=[call("c", HIGH)])
            turn = asyncio.create_task(worker.cycle([child], most=1, lane=LOW))
            await until_waiting(retrying)
            await retrying.execute("SELECT 1 FROM lanes WHERE id = $1 FOR NO KEY UPDATE", numbers[1])
        async with asyncio.timeout(60):
            assert [lease.key for lease in (await turn).leases] == ["a"]


@pytest.mark.parametrize("end", [TaskState.COMPLETED, TaskState.FAILED])
async def test_a_task_whose_follower_is_being_cancelled_waits_for_its_row_of_the_queue_alone_trap_10(
    postgres_url: str, end: TaskState
) -> None:
    async with opened(postgres_url) as ((rig,), draining):
        await rig.ledger.submit(JOB, chain("a", "b"))
        worker = await rig.worker()
        (first,) = await worker.lease()
        follower = await draining.fetchval("SELECT id FROM tasks WHERE state = 2")
        async with draining.transaction():
            await draining.execute("SELECT 1 FROM queue WHERE task_id = $1 FOR UPDATE", follower)
            settling = asyncio.create_task(rig.ledger.settle_and_lease(worker.session, [Settlement(first, end)], []))
            await until_waiting(draining)
            await draining.execute("UPDATE tasks SET error = NULL WHERE id = $1", follower)
        async with asyncio.timeout(60):
            await settling
        assert [lease.key for lease in await worker.lease()] == (["b"] if end is TaskState.COMPLETED else [])
