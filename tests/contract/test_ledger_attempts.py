"""The log of attempts: failed ones of every kind, and every one of the kinds that want it."""

from collections.abc import Sequence
from typing import Any

import pytest

from forager.core.errors import NotFound
from forager.core.ids import task_uuid
from forager.core.ledger import Lease, Settlement, Tried
from forager.core.states import TaskState
from forager.core.task import Plan
from forager.ledger.reports import AttemptReport, LedgerReports
from tests.support.rig import Rig, Worker
from tests.support.rig_pipelines import Call, DearCall, calls

FAILURE: dict[str, Any] = {"error": "No connection.", "reason": "proxy_failed", "error_type": "network"}


@pytest.fixture
def reports(rig: Rig) -> LedgerReports:
    return LedgerReports(rig.ledger.database, rig.catalog)


def tried(at: int = 1_700_000_000_000, *, always: bool = False, trace: str | None = None) -> Tried:
    return Tried(trace, at, 84, always)


async def of(reports: LedgerReports, lease: Lease) -> Sequence[AttemptReport]:
    return (await reports.attempts(task_uuid(lease.job_id, lease.task_id))).items


async def test_each_failed_attempt_has_a_row_and_the_one_that_ends_well_has_none(
    rig: Rig, worker: Worker, reports: LedgerReports
) -> None:
    await rig.submit(calls(1))
    for _ in range(2):
        (lease,) = await worker.lease()
        await worker.settle(lease, TaskState.WAITING, wait=1.0, tried=tried(trace="steps.py, line 7"), **FAILURE)
        rig.pass_time(1.1)
    (lease,) = await worker.lease()
    await worker.settle(lease)
    first, second = await of(reports, lease)
    assert (first.attempt, second.attempt) == (1, 2)
    assert (first.status, first.reason, first.error_type, first.message) == (
        "failed",
        "proxy_failed",
        "network",
        "No connection.",
    )
    assert (first.duration_ms, first.traceback, first.started_at.timestamp()) == (84, "steps.py, line 7", 1_700_000_000)


@pytest.mark.parametrize(
    ("state", "more", "status"),
    [
        (TaskState.COMPLETED, {}, "completed"),
        (TaskState.FAILED, FAILURE, "failed"),
        (TaskState.WAITING, {"wait": 1.0, **FAILURE}, "failed"),
        (TaskState.WAITING, {"wait": 1.0, "burned": False, "error": "later"}, "snoozed"),
        (TaskState.READY, {"burned": False}, "given_back"),
        (TaskState.SKIPPED, {"reason": "not_wanted", "error": "not_wanted"}, "skipped"),
    ],
)
async def test_a_kind_may_keep_every_attempt_however_it_ends(
    rig: Rig, worker: Worker, reports: LedgerReports, state: TaskState, more: dict[str, Any], status: str
) -> None:
    await rig.submit([Plan(DearCall(name="d")), Plan(Call(name="c"))])
    leases = {lease.key: lease for lease in await worker.lease()}
    await worker.cycle([Settlement(leases["d"], state, tried=tried(always=True), **more)])
    assert [each.status for each in await of(reports, leases["d"])] == [status]
    await worker.cycle([Settlement(leases["c"], state, tried=tried(), **more)])
    assert [each.status for each in await of(reports, leases["c"])] == (["failed"] if status == "failed" else [])


async def test_a_wait_that_is_given_up_is_a_failed_attempt(rig: Rig, worker: Worker, reports: LedgerReports) -> None:
    await rig.submit(calls(1))
    (lease,) = await worker.lease()
    await worker.settle(
        lease,
        TaskState.WAITING,
        wait=1.0,
        burned=False,
        patience=0.0,
        tried=tried(),
        error="Slow.",
        reason="rate_limited",
    )
    (attempt,) = await of(reports, lease)
    assert (attempt.status, attempt.reason) == ("failed", "rate_limited")
    assert "Given up" in (attempt.message or "")


async def test_what_does_not_pass_the_fence_leaves_no_attempt(rig: Rig, worker: Worker, reports: LedgerReports) -> None:
    await rig.submit(calls(1))
    (lease,) = await worker.lease()
    await worker.settle(lease, TaskState.FAILED, tried=tried(), **FAILURE)
    assert (await worker.settle(lease, TaskState.FAILED, tried=tried(), **FAILURE)).fenced
    assert len(await of(reports, lease)) == 1


async def test_an_attempt_that_died_with_its_worker_is_lost(rig: Rig, reports: LedgerReports) -> None:
    await rig.submit([Plan(DearCall(name="d")), Plan(Call(name="c"))])
    worker = await rig.worker()
    leases = {lease.key: lease for lease in await worker.lease()}
    rig.pass_time(60.0)
    await rig.ledger.sweep()
    (lost,) = await of(reports, leases["d"])
    assert (lost.attempt, lost.status, lost.reason) == (1, "lost", "crashed")
    assert lost.duration_ms >= (60_000 if rig.clock else 0)
    assert await of(reports, leases["c"]) == []


async def test_a_task_that_kills_its_worker_is_kept_when_it_is_given_up(rig: Rig, reports: LedgerReports) -> None:
    job = (await rig.submit(calls(1))).job
    for _ in range(4):
        worker = await rig.worker()
        (lease,) = await worker.lease() or await worker.begin_suspects()
        rig.pass_time(60.0)
        await rig.ledger.sweep()
    assert rig.states(job) == {"t0": "failed"}
    (lost,) = await of(reports, lease)
    assert (lost.status, lost.reason, lost.error_type) == ("lost", "crashed", "internal")


async def test_a_retry_and_another_round_keep_the_attempts_before(
    rig: Rig, worker: Worker, reports: LedgerReports
) -> None:
    job = (await rig.submit(calls(1))).job
    for _ in range(2):
        (lease,) = await worker.lease()
        await worker.settle(lease, TaskState.FAILED, tried=tried(), **FAILURE)
        await rig.ledger.retry(job)
    assert [each.attempt for each in await of(reports, lease)] == [1, 1]


async def test_attempts_are_listed_in_pages_and_only_of_tasks_there_are(
    rig: Rig, worker: Worker, reports: LedgerReports
) -> None:
    job = (await rig.submit(calls(2))).job
    for number in range(5):
        leases = await worker.lease()
        ends = [Settlement(each, TaskState.WAITING, wait=1.0, tried=tried(number), **FAILURE) for each in leases]
        await worker.cycle(ends)
        rig.pass_time(1.1)
    task = rig.task_id(job, "t0")
    page = await reports.attempts(task, limit=3)
    rest = await reports.attempts(task, limit=3, cursor=page.next_cursor)
    moments = [round(each.started_at.timestamp() * 1000) for each in (*page.items, *rest.items)]
    assert (moments, rest.next_cursor) == ([0, 1, 2, 3, 4], None)
    with pytest.raises(NotFound):
        await reports.attempts(task_uuid(1, 999_999))


async def test_text_that_a_database_cannot_hold_is_kept_without_it(
    rig: Rig, worker: Worker, reports: LedgerReports
) -> None:
    await rig.submit(calls(1))
    (lease,) = await worker.lease()
    await worker.settle(lease, TaskState.FAILED, tried=tried(trace="line\x00 7"), error="no\x00", error_type="internal")
    (attempt,) = await of(reports, lease)
    assert "7" in (attempt.traceback or "")
    assert "no" in (attempt.message or "")
