"""Why tasks did not end well is kept in words: written with every end, found by filters, gone after a retry."""

import pytest

from forager.core.ledger import Settlement
from forager.core.outcome import Skip
from forager.core.states import TaskState
from forager.ledger.reports import LedgerReports, Why
from tests.support.rig import Rig, Worker
from tests.support.rig_pipelines import calls, chain

TIMED_OUT = {"error": "It did not end within 60 s.", "reason": "timed_out", "error_type": "network"}


def why(rig: Rig, job: object, key: str) -> tuple[object, ...]:
    row = rig.tasks(job)[key]  # type: ignore[arg-type]
    return row["error"], row["reason"], row["error_type"]


@pytest.fixture
def reports(rig: Rig) -> LedgerReports:
    return LedgerReports(rig.ledger.database, rig.catalog)


async def test_a_failure_keeps_its_reason_and_type_and_a_retry_clears_them(rig: Rig, worker: Worker) -> None:
    job = (await rig.submit(calls(1))).job
    (lease,) = await worker.lease()
    await worker.settle(lease, TaskState.FAILED, **TIMED_OUT)
    assert why(rig, job, "t0") == tuple(TIMED_OUT.values())
    await rig.ledger.retry(job)
    assert why(rig, job, "t0") == (None, None, None)


async def test_a_task_that_waits_for_a_retry_shows_the_reason(rig: Rig, worker: Worker) -> None:
    job = (await rig.submit(calls(1))).job
    (lease,) = await worker.lease()
    await worker.settle(lease, TaskState.WAITING, wait=5.0, **TIMED_OUT)
    assert why(rig, job, "t0") == tuple(TIMED_OUT.values())
    rig.pass_time(5.1)
    (lease,) = await worker.lease()
    await worker.settle(lease)
    assert why(rig, job, "t0") == (None, None, None)


async def test_what_is_given_up_keeps_the_reason_of_its_waits(rig: Rig, worker: Worker) -> None:
    job = (await rig.submit(calls(2))).job
    limited = {"burned": False, "patience": 0.0, "error": "Slow down.", "reason": "rate_limited", "error_type": "http"}
    snoozed = {"burned": False, "patience": 0.0, "error": "Not there yet."}
    one, other = await worker.lease()
    waits = [(one, limited), (other, snoozed)]
    await worker.cycle([Settlement(lease, TaskState.WAITING, wait=1.0, **how) for lease, how in waits])  # type: ignore[arg-type]
    rows = rig.tasks(job)
    assert [(rows[key]["reason"], rows[key]["error_type"]) for key in ("t0", "t1")] == [
        ("rate_limited", "http"),
        ("gave_up", "internal"),
    ]


async def test_a_skip_has_a_word_and_a_sentence_and_so_have_its_followers(rig: Rig, worker: Worker) -> None:
    job = (await rig.submit([*chain("p1", "p2", "p3"), *calls(1)])).job
    leases = {lease.key: lease for lease in await worker.lease()}
    skips = [Skip("p2", "early_exit", "early_exit_page1_lt10")]
    await worker.settle(leases["p1"], skip=skips)
    assert why(rig, job, "p2") == why(rig, job, "p3") == ("early_exit_page1_lt10", "early_exit", None)
    await worker.settle(leases["t0"], TaskState.SKIPPED, error="not_wanted", reason="not_wanted")
    assert why(rig, job, "t0") == ("not_wanted", "not_wanted", None)


async def test_followers_of_a_failure_have_that_reason_and_are_found_by_it(rig: Rig, worker: Worker) -> None:
    job = (await rig.submit(chain("p1", "p2", "p3"))).job
    (lease,) = await worker.lease()
    await worker.settle(lease, TaskState.FAILED, **TIMED_OUT)
    assert why(rig, job, "p3") == ("after_failed", "after_failed", None)
    assert await rig.ledger.retry(job) == 3
    assert why(rig, job, "p3") == (None, None, None)


async def test_the_ends_that_the_ledger_makes_itself_have_their_words(rig: Rig, worker: Worker) -> None:
    cancelled = (await rig.submit(calls(2))).job
    (running,) = await worker.lease(1)
    await rig.ledger.cancel(cancelled)
    await worker.settle(running, TaskState.WAITING, wait=1.0, **TIMED_OUT)
    await rig.ledger.sweep()
    assert {why(rig, cancelled, key) for key in ("t0", "t1")} == {("cancelled", "cancelled", None)}

    poor = (await rig.submit(calls(2), max_cost=0)).job
    await worker.lease()
    await rig.ledger.sweep()
    assert why(rig, poor, "t0") == ("budget", "budget", None)


async def test_a_task_that_kills_its_worker_is_crashed(rig: Rig) -> None:
    job = (await rig.submit(calls(1))).job
    for _ in range(4):
        worker = await rig.worker()
        assert await worker.lease() or await worker.begin_suspects()
        rig.pass_time(60.0)
        await rig.ledger.sweep()
    assert why(rig, job, "t0")[1:] == ("crashed", "internal")


async def test_dead_letters_and_tasks_are_found_by_reason_and_type(
    rig: Rig, worker: Worker, reports: LedgerReports
) -> None:
    job = (await rig.submit(calls(4))).job
    ends = [("timed_out", "network"), ("timed_out", "network"), ("not_found", "http"), (None, "internal")]
    leases = await worker.lease()
    await worker.cycle(
        [
            Settlement(lease, TaskState.FAILED, error="No.", reason=reason, error_type=kind)
            for lease, (reason, kind) in zip(leases, ends, strict=True)
        ]
    )
    for asked, keys in {
        Why(): {"t0", "t1", "t2", "t3"},
        Why(reason="timed_out"): {"t0", "t1"},
        Why(error_type="http"): {"t2"},
        Why("timed_out", "http"): set(),
    }.items():
        assert {letter.key for letter in (await reports.dead(why=asked)).items} == keys
        assert {task.key for task in (await reports.tasks(job, why=asked)).items} == keys
    (letter,) = (await reports.dead(why=Why("not_found"))).items
    assert (letter.error, letter.reason, letter.error_type) == ("No.", "not_found", "http")
