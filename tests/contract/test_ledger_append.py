"""Standing jobs: what is added to them is added once, and they continue when they had ended."""

import asyncio

import pytest

from forager.core.errors import Conflict
from forager.core.ledger import NewJob, Submitted
from forager.core.states import TaskState
from tests.support.rig import Rig, Worker
from tests.support.rig_pipelines import calls

DAY = 24 * 3600.0


async def append(rig: Rig, *names: str, key: str = "standing") -> Submitted:
    plans = [plan for name in names for plan in calls(1, prefix=name)]
    added = await rig.ledger.append(NewJob("rig", {"name": key}, idempotency_key=key, standing=True), plans)
    rig.check()
    return added


async def test_the_first_addition_makes_the_job_and_later_ones_add_to_it(rig: Rig, worker: Worker) -> None:
    first = await append(rig, "a")
    second = await append(rig, "b", "c")
    assert (first.created, first.total) == (True, 1)
    assert (second.created, second.total, second.job) == (False, 2, first.job)
    assert sorted(await worker.drain()) == ["a0", "b0", "c0"]
    assert rig.job(first.job)["state"] == "completed"


async def test_what_was_added_before_is_not_added_again_in_whatever_state(rig: Rig, worker: Worker) -> None:
    job = (await append(rig, "done", "dead")).job
    by_key = {lease.key: lease for lease in await worker.lease()}
    await worker.complete([by_key["done0"]])
    await worker.settle(by_key["dead0"], TaskState.FAILED, error="no")
    before = rig.everything()
    assert (await append(rig, "done", "dead")).total == 0
    assert rig.everything() == before
    assert rig.states(job) == {"dead0": "failed", "done0": "completed"}


async def test_an_ended_standing_job_continues_and_logs_that(rig: Rig, worker: Worker) -> None:
    job = (await append(rig, "a")).job
    await worker.drain()
    await append(rig, "b")
    assert rig.job(job)["state"] == "running"
    assert await worker.drain() == ["b0"]
    said = [change.op for change in await rig.ledger.changes(0, 100, job=job)]
    assert said == ["created", "ended", "extended", "ended"]
    assert rig.job(job)["total"] == 2


async def test_a_paused_standing_job_takes_more_and_stays_paused(rig: Rig, worker: Worker) -> None:
    job = (await append(rig, "a")).job
    await rig.ledger.pause(job, "gone")
    await append(rig, "b")
    assert await worker.lease() == []
    assert (rig.job(job)["state"], rig.job(job)["reason"]) == ("paused", "gone")
    await rig.ledger.resume(job)
    assert sorted(await worker.drain()) == ["a0", "b0"]


async def test_after_a_cancel_a_standing_job_takes_new_tasks_only(rig: Rig, worker: Worker) -> None:
    job = (await append(rig, "a")).job
    (running,) = await worker.lease()
    await rig.ledger.cancel(job)
    with pytest.raises(Conflict, match="being cancelled"):
        await append(rig, "b")
    assert list(rig.states(job)) == ["a0"]
    await worker.complete([running])
    await append(rig, "b")
    assert await worker.drain() == ["b0"]
    assert rig.job(job)["state"] == "completed"


async def test_the_key_of_a_standing_job_is_remembered_for_ever(rig: Rig, worker: Worker) -> None:
    job = (await append(rig, "a")).job
    await worker.drain()
    rig.pass_time(400 * DAY)
    await rig.ledger.sweep()
    again = await append(rig, "a")
    assert (again.job, again.total) == (job, 0)


async def test_many_who_add_together_make_one_job_and_each_task_once(rig: Rig, worker: Worker) -> None:
    added = await asyncio.gather(*(append(rig, "x", "y", f"own{n}-") for n in range(6)))
    assert len({each.job for each in added}) == 1
    assert sum(each.total for each in added) == 8
    assert len(await worker.drain()) == 8


async def test_changes_can_be_read_by_kind_and_up_to_a_number(rig: Rig, worker: Worker) -> None:
    await append(rig, "a")
    await worker.drain()
    await append(rig, "b")
    last = rig.last_change()
    assert last == len(await rig.ledger.changes(0, 100))
    assert [c.op for c in await rig.ledger.changes(0, 100, kinds={"job"}, until=last - 1)] == ["created", "ended"]
    assert await rig.ledger.changes(0, 100, kinds={"thing"}) == []


async def test_ready_work_is_what_runs_or_could_run_now(rig: Rig, worker: Worker) -> None:
    job = (await append(rig, "a")).job
    assert await rig.ledger.has_work(["rig"], ready=True)
    assert not await rig.ledger.has_work(["other"], ready=True)
    (lease,) = await worker.lease()
    assert await rig.ledger.has_work(["rig"], ready=True)
    await worker.settle(lease, TaskState.WAITING, wait=60.0)
    assert not await rig.ledger.has_work(["rig"], ready=True)
    assert await rig.ledger.has_work()
    assert not await rig.ledger.has_work(but=["rig"])
    await append(rig, "b")
    assert await rig.ledger.has_work(["rig"], ready=True)
    await rig.ledger.pause(job)
    assert not await rig.ledger.has_work(["rig"], ready=True)
