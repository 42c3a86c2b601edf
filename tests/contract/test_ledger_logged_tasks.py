"""Tasks in the change log: logged in the transaction that ends or requeues them, whichever way that happens."""

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from forager.core.change import Change
from forager.core.ids import task_uuid
from forager.core.ledger import Lease, NewJob
from forager.core.outcome import Skip
from forager.core.states import TaskState
from forager.core.task import Plan
from tests.support.rig import Rig, Worker
from tests.support.rig_pipelines import Call, LoudCall


async def _log(rig: Rig) -> Sequence[Change]:
    return await rig.ledger.changes(0, 1_000)


async def _told(rig: Rig) -> list[tuple[str, str, int]]:
    """(key of the task, operation, version) of every change of a task, in the order of the log."""
    return [(str((c.body or {})["key"]), c.op, c.version) for c in await _log(rig) if c.kind == "task"]


async def _leased(rig: Rig, worker: Worker, *plans: Plan, **limits: Any) -> tuple[UUID, dict[str, Lease]]:
    job = (await rig.submit(plans, **limits)).job
    return job, {lease.key: lease for lease in await worker.lease()}


def _loud(*names: str) -> list[Plan]:
    return [Plan(LoudCall(name=name)) for name in names]


async def test_a_failure_is_logged_completely_and_before_the_end_of_its_job__RV_4(rig: Rig, worker: Worker) -> None:
    job, leases = await _leased(rig, worker, *_loud("a"))
    lease = leases["a"]
    await worker.settle(lease, TaskState.FAILED, error="It was refused.", reason="forbidden", error_type="http")
    log = await _log(rig)
    assert [(c.kind, c.op) for c in log] == [("job", "created"), ("task", "failed"), ("job", "ended")]
    told = log[1]
    name = str(task_uuid(lease.job_id, lease.task_id))
    assert (told.key, told.job, told.version, told.scope) == (name, job, 1, "world")
    assert told.body == {
        "task_id": name,
        "kind": "loud-call",
        "key": "a",
        "state": "failed",
        "reason": "forbidden",
        "error_type": "http",
        "error": "It was refused.",
        "attempts": 1,
        "input": {"name": "a"},
    }


async def test_only_the_states_that_a_pipeline_logs_are_in_the_log(rig: Rig, worker: Worker) -> None:
    _, leases = await _leased(rig, worker, *_loud("a", "b"), Plan(Call(name="quiet")))
    await worker.settle(leases["b"], TaskState.WAITING, wait=0.0, error="again")
    await worker.settle(leases["quiet"], TaskState.FAILED, error="because")
    await worker.complete([leases["a"]])
    await worker.complete(await worker.lease())
    assert await _told(rig) == []


async def test_skipped_tasks_and_their_followers_are_logged(rig: Rig, worker: Worker) -> None:
    plans = [Plan(LoudCall(name="a")), Plan(LoudCall(name="b"), rank=1), Plan(LoudCall(name="c"), after="b")]
    _, leases = await _leased(rig, worker, *plans, batch_size=1)
    await worker.settle(leases["a"], skip=[Skip("b", "enough")])
    assert await _told(rig) == [("c", "skipped", 1), ("b", "skipped", 1)]


async def test_followers_of_a_failure_are_logged_before_it(rig: Rig, worker: Worker) -> None:
    _, leases = await _leased(rig, worker, Plan(LoudCall(name="a")), Plan(LoudCall(name="b"), after="a"))
    await worker.settle(leases["a"], TaskState.FAILED, error="because")
    assert await _told(rig) == [("b", "skipped", 1), ("a", "failed", 1)]


async def test_cancelled_tasks_are_logged_whether_queued_or_in_flight(rig: Rig, worker: Worker) -> None:
    job, leases = await _leased(rig, worker, *_loud(*"abc"), concurrency=2)
    await rig.ledger.cancel(job)
    await rig.ledger.sweep()
    first, second = leases.values()
    await worker.settle(first, TaskState.WAITING, wait=5.0)
    await rig.ledger.end(worker.session)
    told = await _told(rig)
    assert sorted(told) == [(name, "cancelled", 1) for name in "abc"]
    assert [name for name, _, _ in told][1:] == [first.key, second.key]


async def test_tasks_ended_by_a_budget_are_logged(rig: Rig, worker: Worker) -> None:
    _, leases = await _leased(rig, worker, *_loud(*"abc"), max_cost=1)
    await worker.settle(next(iter(leases.values())), cost=1)
    await worker.lease()
    while (await rig.ledger.sweep()).more:
        pass
    assert [(op, version) for _, op, version in await _told(rig)] == [("skipped", 1), ("skipped", 1)]


async def test_tasks_given_up_after_waiting_are_logged(rig: Rig, worker: Worker) -> None:
    _, leases = await _leased(rig, worker, *_loud("a"))
    await worker.settle(leases["a"], TaskState.WAITING, wait=5.0, burned=False, error="429", give_up_at=1)
    assert await _told(rig) == [("a", "failed", 1)]


async def test_a_task_that_killed_its_worker_three_times_is_logged(rig: Rig, worker: Worker) -> None:
    await _leased(rig, worker, *_loud("a"))
    for _ in range(4):
        assert await _told(rig) == []
        rig.pass_time(31)
        await rig.ledger.sweep()
        worker = await rig.worker()
        await worker.begin_suspects()
    assert await _told(rig) == [("a", "failed", 1)]


async def test_a_retry_is_logged_with_the_next_version_and_so_is_the_next_failure(rig: Rig, worker: Worker) -> None:
    plans = [Plan(LoudCall(name="a")), Plan(LoudCall(name="b"), after="a"), Plan(LoudCall(name="other"))]
    job, leases = await _leased(rig, worker, *plans)
    await worker.settle(leases["a"], TaskState.FAILED, error="because")
    await worker.complete([leases["other"]])
    assert await rig.ledger.retry(job) == 2
    (lease,) = await worker.lease()
    await worker.settle(lease, TaskState.FAILED, error="once more")
    dead = (await _log(rig))[-2]
    await rig.ledger.retry_tasks([UUID(dead.key)])
    first = [("b", "skipped", 1), ("a", "failed", 1), ("a", "queued", 2), ("b", "queued", 2)]
    assert await _told(rig) == [*first, ("b", "skipped", 3), ("a", "failed", 3), ("a", "queued", 4), ("b", "queued", 4)]


async def test_a_task_that_is_planned_again_is_logged_if_its_end_was(rig: Rig, worker: Worker) -> None:
    standing = NewJob("loud", {"name": "job"}, idempotency_key="standing")
    await rig.ledger.append(standing, _loud("a", "b"))
    leases = {lease.key: lease for lease in await worker.lease()}
    await worker.settle(leases["a"], TaskState.FAILED, error="because")
    await worker.complete([leases["b"]])
    await rig.ledger.append(standing, _loud("a", "b"), again=True)
    assert await _told(rig) == [("a", "failed", 1), ("a", "queued", 2)]


async def test_a_late_settlement_logs_nothing__PL_6(rig: Rig, worker: Worker) -> None:
    _, leases = await _leased(rig, worker, *_loud("a"))
    await worker.settle(leases["a"], TaskState.FAILED, error="because")
    assert (await worker.settle(leases["a"], TaskState.FAILED, error="late")).fenced
    assert await _told(rig) == [("a", "failed", 1)]
