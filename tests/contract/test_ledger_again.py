"""Tasks of a standing job that are requeued: their history stays, their plan is new."""

import asyncio
from datetime import timedelta
from uuid import UUID

import pytest

from forager.core.errors import Conflict
from forager.core.ledger import NewJob, Settlement, Submitted
from forager.core.states import TaskState
from forager.core.task import Plan
from tests.support.rig import Rig, Worker
from tests.support.rig_pipelines import Call, Thing, calls, chain

HOUR = 3_600.0
KEY = "standing"


async def append(rig: Rig, *plans: Plan, again: bool = True) -> Submitted:
    job = NewJob("rig", {"name": KEY}, idempotency_key=KEY, standing=True)
    added = await rig.ledger.append(job, plans, again=again)
    rig.check()
    return added


async def ended(rig: Rig, worker: Worker, *plans: Plan, state: TaskState = TaskState.COMPLETED) -> UUID:
    """A standing job with these tasks, each of which has ended like this."""
    job = (await append(rig, *plans)).job
    while leases := await worker.lease():
        error = None if state is TaskState.COMPLETED else "no"
        await worker.cycle([Settlement(lease, state, cost=lease.price, error=error) for lease in leases])
    return job


@pytest.mark.parametrize("state", [TaskState.COMPLETED, TaskState.FAILED, TaskState.SKIPPED])
async def test_an_ended_task_is_queued_again_and_keeps_its_cost(rig: Rig, worker: Worker, state: TaskState) -> None:
    job = await ended(rig, worker, *calls(2), state=state)
    again = await append(rig, *calls(1))
    assert (again.job, again.total, again.created) == (job, 1, False)
    row, task = rig.job(job), rig.tasks(job)["t0"]
    assert (row["state"], row["total"], row["queued"], row["finished_at"]) == ("running", 2, 1, None)
    assert row[state.name.lower()] == 1
    assert (task["cost"], task["attempt"], task["error"], task["ended_at"]) == (1, 0, None, None)
    (lease,) = await worker.lease()
    assert (lease.key, lease.attempt) == ("t0", 1)
    await worker.complete([lease])
    assert rig.tasks(job)["t0"]["cost"] == 2
    assert (rig.job(job)["completed"], rig.job(job)["spent"]) == (2 if state is TaskState.COMPLETED else 1, 3)
    assert [c.op for c in await rig.ledger.changes(0, 100, kinds=["job"])] == ["created", "ended", "extended", "ended"]


async def test_without_again_what_has_ended_stays(rig: Rig, worker: Worker) -> None:
    job = await ended(rig, worker, *calls(1))
    assert (await append(rig, *calls(1), again=False)).total == 0
    assert rig.states(job) == {"t0": "completed"}


async def test_what_is_open_stays_as_it_is(rig: Rig, worker: Worker) -> None:
    job = (await append(rig, *calls(3))).job
    (running,) = await worker.lease(1)
    (waiting,) = await worker.lease(1)
    await worker.settle(waiting, TaskState.WAITING, wait=60.0, error="later")
    before = rig.everything()
    assert (await append(rig, *calls(3))).total == 0
    assert rig.everything() == before
    assert not (await worker.settle(running)).fenced
    assert rig.states(job) == {"t0": "completed", "t1": "waiting", "t2": "ready"}


async def test_it_runs_by_its_new_plan(rig: Rig, worker: Worker) -> None:
    job = await ended(rig, worker, Plan(Call(name="t", where="api"), rank=1, retries=1))
    due = await rig.ledger.now() + timedelta(seconds=HOUR)
    await append(rig, Plan(Call(name="t", where="api"), rank=7, retries=4, due=due))
    assert rig.states(job) == {"t": "waiting"}
    assert await worker.lease() == []
    rig.pass_time(HOUR + 1)
    (lease,) = await worker.lease()
    assert (lease.retries, rig.tasks(job)["t"]["rank"]) == (4, 7)


async def test_new_ones_and_old_ones_in_one_call_are_counted_together(rig: Rig, worker: Worker) -> None:
    job = await ended(rig, worker, *calls(2))
    assert (await append(rig, *calls(4))).total == 4
    row = rig.job(job)
    assert (row["total"], row["queued"], row["completed"]) == (4, 4, 0)
    assert sorted(await worker.drain()) == ["t0", "t1", "t2", "t3"]


async def test_a_chain_is_held_again_in_its_order(rig: Rig, worker: Worker) -> None:
    job = await ended(rig, worker, *chain("p1", "p2"))
    await append(rig, *chain("p1", "p2", "p3"))
    assert rig.states(job) == {"p1": "ready", "p2": "held", "p3": "held"}
    assert await worker.drain() == ["p1", "p2", "p3"]


async def test_a_follower_of_a_completed_task_runs_at_once_and_of_a_failed_one_is_skipped(
    rig: Rig, worker: Worker
) -> None:
    job = await ended(rig, worker, *chain("p1", "p2"))
    await append(rig, Plan(Call(name="p2"), after="p1"))
    assert await worker.drain() == ["p2"]
    await append(rig, *calls(1))
    (lease,) = await worker.lease()
    await worker.settle(lease, TaskState.FAILED, error="no")
    await append(rig, Plan(Call(name="p2"), after="t0"))
    assert rig.states(job)["p2"] == "skipped"
    assert rig.job(job)["state"] == "partially_completed"


async def test_a_dead_letter_that_is_queued_again_is_no_longer_one(rig: Rig, worker: Worker) -> None:
    await ended(rig, worker, *calls(1), state=TaskState.FAILED)
    assert len(rig.tables.read("SELECT id FROM dead_letters")) == 1
    await append(rig, *calls(1))
    assert rig.tables.read("SELECT id FROM dead_letters") == []


async def test_a_paused_job_stays_paused_and_a_cancelled_one_continues(rig: Rig, worker: Worker) -> None:
    job = await ended(rig, worker, *calls(1))
    await append(rig, *calls(1))
    await rig.ledger.pause(job)
    await append(rig, *calls(2))
    assert await worker.lease() == []
    await rig.ledger.cancel(job)
    assert rig.job(job)["state"] == "cancelled"
    assert (await append(rig, *calls(2))).total == 2
    assert sorted(await worker.drain()) == ["t0", "t1"]


async def test_nothing_is_added_while_the_job_is_being_cancelled(rig: Rig, worker: Worker) -> None:
    job = await ended(rig, worker, *calls(1))
    await append(rig, *calls(2))
    (lease, _) = await worker.lease()
    await rig.ledger.cancel(job)
    before = rig.everything()
    with pytest.raises(Conflict):
        await append(rig, *calls(3))
    assert rig.everything() == before
    await worker.settle(lease)


async def test_many_who_queue_the_same_again_queue_it_once(rig: Rig, worker: Worker) -> None:
    await ended(rig, worker, *calls(5))
    added = await asyncio.gather(*(append(rig, *calls(5)) for _ in range(6)))
    assert sum(each.total for each in added) == 5
    assert len(await worker.drain()) == 5


async def test_what_it_found_before_stays_and_is_found_again(rig: Rig, worker: Worker) -> None:
    await append(rig, *calls(1))
    for size in (1, 2):
        (lease,) = await worker.lease()
        await worker.settle(lease, records=[Thing(uid="a", size=size)])
        await append(rig, *calls(1))
    row = rig.rows(Thing)["a"]
    assert (row["size"], row["version"], row["times_seen"]) == (2, 2, 2)
