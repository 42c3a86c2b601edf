"""Operations on jobs and dead letters: pause, resume, cancel, retry, discard."""

from collections import Counter
from uuid import UUID

import pytest

from forager.core.errors import Conflict, NotFound
from forager.core.ledger import GivenLane, Settlement
from forager.core.outcome import Skip
from forager.core.states import TaskState
from forager.core.task import Plan
from tests.support.rig import Rig, Worker, end_in_pages_of
from tests.support.rig_pipelines import Call, calls, chain


async def _fail(worker: Worker, *keys: str) -> None:
    """Lease what there is; fail these, complete the others."""
    for lease in await worker.lease():
        state = TaskState.FAILED if lease.key in keys else TaskState.COMPLETED
        await worker.settle(lease, state, error="x" if lease.key in keys else None)


async def test_a_paused_job_lets_its_running_tasks_end(rig: Rig, worker: Worker) -> None:
    job = (await rig.submit(calls(3))).job
    one, two = await worker.lease(2)
    await rig.ledger.pause(job, "lunch")
    row = rig.job(job)
    assert (row["state"], row["reason"], row["running"]) == ("paused", "lunch", 2)
    await worker.settle(one)
    await worker.settle(two, TaskState.READY)
    assert await worker.lease() == []
    await rig.ledger.resume(job)
    assert rig.job(job)["reason"] is None
    assert sorted(await worker.drain()) == ["t1", "t2"]
    assert rig.job(job)["state"] == "completed"


@pytest.mark.parametrize("running", [0, 1])
async def test_why_a_job_was_paused_is_forgotten_when_it_is_cancelled(rig: Rig, worker: Worker, running: int) -> None:
    job = (await rig.submit(calls(2))).job
    leases = await worker.lease(running) if running else ()
    await rig.ledger.pause(job, "lunch")
    await rig.ledger.cancel(job)
    assert rig.job(job)["reason"] is None
    for lease in leases:
        await worker.settle(lease)
    row = rig.job(job)
    assert (row["state"], row["reason"]) == ("cancelled", None)


async def test_why_a_job_was_paused_is_forgotten_when_it_ends(rig: Rig, worker: Worker) -> None:
    job = (await rig.submit(calls(1))).job
    (lease,) = await worker.lease()
    await rig.ledger.pause(job, "lunch")
    await worker.settle(lease)
    row = rig.job(job)
    assert (row["state"], row["reason"]) == ("completed", None)


async def test_pause_and_resume_are_idempotent(rig: Rig) -> None:
    job = (await rig.submit(calls(1))).job
    await rig.ledger.resume(job)
    await rig.ledger.pause(job)
    await rig.ledger.pause(job)
    await rig.ledger.resume(job)
    await rig.ledger.resume(job)
    assert rig.job(job)["state"] == "queued"
    assert [c.op for c in await rig.ledger.changes(0, 10, job=job)] == ["created", "paused", "resumed"]


async def test_a_finished_job_can_be_neither_paused_nor_resumed_nor_cancelled(rig: Rig, worker: Worker) -> None:
    job = (await rig.submit(calls(1))).job
    await worker.drain()
    for verb in (rig.ledger.pause, rig.ledger.resume, rig.ledger.cancel):
        with pytest.raises(Conflict, match="completed"):
            await verb(job)


async def test_resume_of_a_cancelled_job_does_not_advise_a_retry_that_is_refused(rig: Rig) -> None:
    job = (await rig.submit(calls(1))).job
    await rig.ledger.cancel(job)
    for verb in (rig.ledger.resume, rig.ledger.retry):
        with pytest.raises(Conflict, match="Create it again instead"):
            await verb(job)


async def test_what_waited_while_its_job_was_paused_continues_after(rig: Rig, worker: Worker) -> None:
    job = (await rig.submit(calls(1))).job
    (lease,) = await worker.lease()
    await worker.settle(lease, TaskState.WAITING, wait=5)
    await rig.ledger.pause(job)
    rig.pass_time(6)
    assert await worker.lease() == []
    await rig.ledger.resume(job)
    assert len(await worker.lease()) == 1


async def test_a_lane_given_back_while_its_job_is_paused_is_woken_by_resume(rig: Rig, worker: Worker) -> None:
    job = (await rig.submit(calls(1))).job
    await worker.take_lanes()
    await rig.ledger.pause(job)
    await worker.cycle(most=5)
    await rig.ledger.give_lanes(worker.session, {worker.lanes.pop("api"): GivenLane()})
    await rig.ledger.resume(job)
    assert await worker.take_lanes() == ["api"]


async def test_cancel_ends_queued_tasks_and_lets_running_ones_finish(rig: Rig, worker: Worker) -> None:
    job = (await rig.submit([*calls(4), *chain("p1", "p2")])).job
    one, two, three = await worker.lease(3)
    await worker.settle(three, TaskState.WAITING, wait=100)
    await rig.ledger.cancel(job)
    rig.check()
    row = rig.job(job)
    assert (row["cancelled"], row["running"], row["finished_at"]) == (4, 2, None)
    assert await worker.lease() == []
    await worker.settle(one, cost=1)
    await worker.settle(two, TaskState.WAITING, wait=5)
    assert Counter(rig.states(job).values()) == {"completed": 1, "cancelled": 5}
    assert rig.job(job)["state"] == "cancelled"
    await rig.ledger.cancel(job)


async def test_children_of_a_cancelled_job_are_cancelled_too(rig: Rig, worker: Worker) -> None:
    job = (await rig.submit(calls(2))).job
    one, two = await worker.lease()
    await rig.ledger.cancel(job)
    await worker.settle(one, tasks=[*calls(3, prefix="c"), Plan(Call(name="f"), after="t1")])
    assert await worker.lease() == []
    await worker.settle(two)
    row = rig.job(job)
    assert (row["state"], row["completed"], row["cancelled"]) == ("cancelled", 2, 4)


async def test_a_halt_in_a_cancelled_job_does_not_pause_it(rig: Rig, worker: Worker) -> None:
    job = (await rig.submit(calls(2))).job
    one, two = await worker.lease()
    await rig.ledger.cancel(job)
    await worker.settle(one, TaskState.READY, burned=False, halt="key refused")
    assert rig.job(job)["state"] != "paused"
    await worker.settle(two)
    assert rig.job(job)["state"] == "cancelled"


async def test_a_job_that_is_being_cancelled_can_be_neither_paused_nor_resumed_nor_retried(
    rig: Rig, worker: Worker
) -> None:
    job = (await rig.submit(calls(3))).job
    one, two = await worker.lease(2)
    await worker.settle(one, TaskState.FAILED, error="x")
    await rig.ledger.cancel(job)
    for verb in (rig.ledger.pause, rig.ledger.resume, rig.ledger.retry):
        with pytest.raises(Conflict, match="cancelled"):
            await verb(job)
    with pytest.raises(Conflict, match="cancelled"):
        await rig.ledger.retry_tasks([rig.task_id(job, "t0")])
    await worker.settle(two)
    assert rig.job(job)["state"] == "cancelled"


async def test_a_paused_job_can_be_cancelled(rig: Rig) -> None:
    job = (await rig.submit(calls(3))).job
    await rig.ledger.pause(job)
    await rig.ledger.cancel(job)
    rig.check()
    assert rig.job(job)["state"] == "cancelled"


async def test_a_big_job_is_cancelled_in_pages_and_never_leased_meanwhile(rig: Rig, worker: Worker) -> None:
    job = (await rig.submit(calls(12_000))).job
    other = (await rig.submit(calls(1))).job
    (running,) = [x for x in await worker.lease(2) if x.job_id == rig.job(job)["id"]]
    await rig.ledger.cancel(job)
    rig.check()
    assert rig.job(job)["queued"] > 0, "the first page must not be all"
    assert await worker.lease() == []
    while (await rig.ledger.sweep()).more:
        rig.check()
    assert (rig.job(job)["queued"], rig.job(job)["cancelled"]) == (0, 11_999)
    await worker.settle(running)
    assert rig.job(job)["state"] == "cancelled"
    assert rig.job(other)["state"] == "running"


async def test_retry_queues_the_failed_and_holds_their_followers_trap_5__PL_12(rig: Rig, worker: Worker) -> None:
    job = (await rig.submit([*chain("p1", "p2", "p3"), *calls(2)])).job
    await _fail(worker, "p1", "t1")
    assert rig.job(job)["state"] == "partially_completed"
    assert await rig.ledger.retry(job) == 4
    rig.check()
    assert rig.states(job) == {"p1": "ready", "p2": "held", "p3": "held", "t0": "completed", "t1": "ready"}
    row = rig.job(job)
    assert (row["state"], row["finished_at"]) == ("running", None)
    assert sorted(await worker.drain()) == ["p1", "p2", "p3", "t1"]
    assert rig.job(job)["state"] == "completed"


async def test_a_retried_task_starts_from_its_first_attempt_and_keeps_its_costs__PL_12(
    rig: Rig, worker: Worker
) -> None:
    job = (await rig.submit(calls(1))).job
    (lease,) = await worker.lease()
    await worker.settle(lease, TaskState.FAILED, error="x", cost=1)
    await rig.ledger.retry(job)
    (again,) = await worker.lease()
    assert again.attempt == 1
    await worker.settle(again, cost=1)
    assert rig.job(job)["spent"] == 2
    assert rig.tasks(job)["t0"]["error"] is None


async def test_followers_of_a_dropped_task_are_not_retried(rig: Rig, worker: Worker) -> None:
    """Nobody would release them: what they come after does not run again."""
    job = (await rig.submit([*chain("d1", "d2"), *calls(1)])).job
    leases = {lease.key: lease for lease in await worker.lease()}
    await worker.settle(leases["d1"], TaskState.SKIPPED, error="robots")
    await worker.settle(leases["t0"], TaskState.FAILED, error="x")
    assert await rig.ledger.retry(job) == 1
    assert rig.states(job) == {"d1": "skipped", "d2": "skipped", "t0": "ready"}
    await worker.drain()
    assert rig.job(job)["state"] == "completed"


async def test_what_an_early_exit_skipped_stays_skipped__PL_12(rig: Rig, worker: Worker) -> None:
    job = (await rig.submit([*chain("p1", "p2"), *calls(1)])).job
    leases = {lease.key: lease for lease in await worker.lease()}
    await worker.settle(leases["p1"], skip=[Skip("p2", "early_exit_page1_lt10")])
    await worker.settle(leases["t0"], TaskState.FAILED, error="x")
    assert await rig.ledger.retry(job) == 1
    assert rig.states(job)["p2"] == "skipped"


async def test_a_job_without_failures_has_nothing_to_retry(rig: Rig, worker: Worker) -> None:
    job = (await rig.submit(calls(1))).job
    await worker.drain()
    assert await rig.ledger.retry(job) == 0
    assert rig.job(job)["state"] == "completed"


async def test_one_dead_letter_can_be_retried_alone(rig: Rig, worker: Worker) -> None:
    job = (await rig.submit([*chain("p1", "p2"), *chain("q1", "q2")])).job
    await _fail(worker, "p1", "q1")
    assert await rig.ledger.retry_tasks([rig.task_id(job, "p1")]) == 2
    rig.check()
    assert rig.states(job) == {"p1": "ready", "p2": "held", "q1": "failed", "q2": "skipped"}
    await worker.drain()
    assert rig.job(job)["state"] == "partially_completed"


async def test_many_failures_over_many_lanes_are_all_offered_again(rig: Rig, worker: Worker) -> None:
    job = (await rig.submit([p for i in range(12) for p in calls(60, where=f"lane{i}", prefix=f"l{i}-")])).job
    while leases := await worker.lease():
        await worker.cycle([Settlement(lease, TaskState.FAILED, error="x") for lease in leases])
    await rig.ledger.give_lanes(worker.session, {n: GivenLane() for n in worker.lanes.values()})
    worker.lanes.clear()
    assert await rig.ledger.retry(job) == 720
    rig.check()
    assert len(await worker.drain()) == 720


async def test_only_a_dead_letter_can_be_retried_or_discarded(rig: Rig, worker: Worker) -> None:
    job = (await rig.submit(calls(1))).job
    for task in (rig.task_id(job, "t0"), UUID(int=7)):
        with pytest.raises(NotFound, match="dead letter"):
            await rig.ledger.retry_tasks([task])
        with pytest.raises(NotFound, match="dead letter"):
            await rig.ledger.discard(task)


async def test_a_discarded_dead_letter_is_hidden_and_still_counted(rig: Rig, worker: Worker) -> None:
    job = (await rig.submit(calls(1))).job
    await _fail(worker, "t0")
    await rig.ledger.discard(rig.task_id(job, "t0"))
    assert rig.tasks(job)["t0"]["hidden"]
    assert rig.job(job)["failed"] == 1
    await rig.ledger.retry(job)
    assert not rig.tasks(job)["t0"]["hidden"]


async def test_open_work_is_what_can_still_continue(rig: Rig, worker: Worker) -> None:
    assert not await rig.ledger.has_work()
    job = (await rig.submit(calls(1))).job
    assert await rig.ledger.has_work()
    await rig.ledger.pause(job)
    assert not await rig.ledger.has_work()
    await rig.ledger.resume(job)
    await worker.drain()
    assert not await rig.ledger.has_work()


@pytest.fixture
def small_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    end_in_pages_of(4, monkeypatch)


@pytest.mark.parametrize("by", ["turns", "sweeps"])
@pytest.mark.parametrize("sizes", [(8, 8, 8), (4, 9, 12), (3, 5, 1)])
async def test_jobs_that_are_cancelled_together_end_page_by_page_and_delay_no_other_job(
    rig: Rig, worker: Worker, small_pages: None, sizes: tuple[int, ...], by: str
) -> None:
    jobs = [(await rig.submit(calls(size))).job for size in sizes]
    other = (await rig.submit(calls(40, where="site"))).job
    await worker.take_lanes()
    leases = await worker.lease(40, lane="site")
    for job in jobs:
        await rig.ledger.cancel(job)
    for lease in leases:
        await (worker.cycle([Settlement(lease, TaskState.COMPLETED)]) if by == "turns" else rig.ledger.sweep())
    while (await rig.ledger.sweep()).more:
        pass
    assert [rig.job(job)["cancelled"] for job in jobs] == list(sizes)
    assert {rig.job(job)["state"] for job in jobs} == {"cancelled"}
    if by == "turns":
        assert rig.job(other)["completed"] == 40


async def test_what_is_retried_while_its_job_is_being_ended_is_ended_too(
    rig: Rig, worker: Worker, small_pages: None
) -> None:
    job = (await rig.submit(calls(20), max_cost=3)).job
    first, second, third = sorted(await worker.lease(3), key=lambda lease: lease.key)
    await worker.cycle(
        [
            Settlement(first, TaskState.FAILED, cost=1, error="x"),
            *(Settlement(lease, TaskState.COMPLETED, cost=1) for lease in (second, third)),
        ]
    )
    await worker.lease(1)  # nothing can be paid any more, and a first page is ended
    assert await rig.ledger.retry_tasks([rig.task_id(job, first.key)]) == 1
    for _ in range(10):
        await worker.cycle()
        await rig.ledger.sweep()
    row = rig.job(job)
    assert (row["state"], row["queued"], row["completed"], row["skipped"]) == ("completed", 0, 2, 18)
