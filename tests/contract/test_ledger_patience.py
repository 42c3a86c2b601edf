"""Waits that burn no attempt do not go on for ever; what is no fault of anybody counts for next to nothing."""

import pytest

from forager.core.ledger import Away, OwnedLane, Settlement
from forager.core.states import TaskState
from forager.ledger.rules.scheduling import SHARE
from tests.support.rig import Rig, Worker
from tests.support.rig_pipelines import calls, chain

HOUR = 3_600.0
DAY = 24 * HOUR


async def wait_in_vain(rig: Rig, worker: Worker, wait: float, patience: float | None, **more: object) -> str:
    """Lease the first task, put it back, and let its wait pass. Returns its state."""
    (lease,) = await worker.lease(1)
    said = {
        "wait": wait,
        "burned": False,
        "patience": patience,
        "error": "shop.test limited the rate of calls (429).",
        **more,
    }
    await worker.settle(lease, TaskState.WAITING, **said)
    rig.pass_time(wait + 0.01)
    rows = rig.tables.read(f"SELECT state FROM {rig.tables.tasks} t WHERE id = {lease.task_id}")
    return TaskState(rows[0]["state"]).name.lower()


async def test_a_task_that_waits_too_long_without_an_attempt_is_a_dead_letter_with_the_reason(
    rig: Rig, worker: Worker
) -> None:
    job = (await rig.submit(calls(1))).job
    states = [await wait_in_vain(rig, worker, 6 * HOUR, DAY) for _ in range(5)]
    assert states == ["waiting"] * 4 + ["failed"]
    task = rig.tasks(job)["t0"]
    assert task["error"].startswith("shop.test limited the rate of calls (429). Given up after 24 hours of waiting;")
    assert "forager jobs retry" in task["error"]
    row = rig.job(job)
    assert (row["state"], row["failed"], row["retries"]) == ("failed", 1, 0)


async def test_short_waits_are_counted_with_the_time_until_the_next_try(rig: Rig, worker: Worker) -> None:
    """A site with many tasks and a slow rate: each waits a second, and an hour for its turn."""
    job = (await rig.submit(calls(1))).job
    tries = 0
    while await wait_in_vain(rig, worker, 1.0, DAY) == "waiting":
        rig.pass_time(HOUR)
        tries += 1
        assert tries < 100
    assert tries == SHARE
    assert rig.states(job) == {"t0": "failed"}


async def test_what_lies_between_two_tries_is_no_reason_to_give_up(rig: Rig, worker: Worker) -> None:
    """A paused job, a spent cap, a stopped process: months may pass, and the task is tried as often as any other."""
    job = (await rig.submit(calls(1))).job
    for _ in range(SHARE):
        assert await wait_in_vain(rig, worker, 1.0, DAY) == "waiting"
        await rig.ledger.pause(job)
        rig.pass_time(30 * DAY)
        await rig.ledger.resume(job)
    assert await wait_in_vain(rig, worker, 1.0, DAY) == "failed"


async def test_waits_that_are_no_fault_never_end_a_task(rig: Rig, worker: Worker) -> None:
    job = (await rig.submit(calls(1))).job
    for _ in range(20):
        assert await wait_in_vain(rig, worker, 10 * DAY, None) == "waiting"
    assert rig.tasks(job)["t0"]["attempt"] == 0
    await worker.complete(await worker.lease())
    assert rig.job(job)["state"] == "completed"


async def test_a_retried_dead_letter_has_all_its_patience_again(rig: Rig, worker: Worker) -> None:
    job = (await rig.submit(calls(1))).job
    while await wait_in_vain(rig, worker, 20 * HOUR, DAY) == "waiting":
        pass
    assert await rig.ledger.retry(job) == 1
    assert [await wait_in_vain(rig, worker, 20 * HOUR, DAY) for _ in range(3)] == ["waiting", "waiting", "failed"]


async def test_the_followers_of_a_task_that_was_given_up_are_skipped(rig: Rig, worker: Worker) -> None:
    job = (await rig.submit(chain("first", "second", "third"))).job
    while await wait_in_vain(rig, worker, DAY, DAY) == "waiting":
        pass
    assert rig.states(job) == {"first": "failed", "second": "skipped", "third": "skipped"}


async def test_a_wait_that_would_end_after_its_moment_is_not_begun(rig: Rig, worker: Worker) -> None:
    job = (await rig.submit(calls(1))).job
    end = round(((await rig.ledger.now()).timestamp() + 90) * 1000)
    assert await wait_in_vain(rig, worker, 60, 1.0, give_up_at=end) == "waiting", "its own moment holds, not patience"
    if rig.clock is None:
        end -= 60_000  # time passes there by moving everything into the past
    assert await wait_in_vain(rig, worker, 60, 1.0, give_up_at=end) == "failed"
    assert "Given up" in rig.tasks(job)["t0"]["error"]


async def test_the_last_wait_of_a_cancelled_job_is_cancelled_and_no_dead_letter(rig: Rig, worker: Worker) -> None:
    job = (await rig.submit(calls(1))).job
    assert await wait_in_vain(rig, worker, DAY, DAY) == "waiting"
    (lease,) = await worker.lease(1)
    await rig.ledger.cancel(job)
    await worker.settle(lease, TaskState.WAITING, wait=5, burned=False, patience=DAY, error="no.")
    assert rig.states(job) == {"t0": "cancelled"}
    row = rig.job(job)
    assert (row["state"], row["failed"], row["cancelled"]) == ("cancelled", 0, 1)


async def test_one_wait_in_vain_among_many_that_end_leaves_them_alone(rig: Rig, worker: Worker) -> None:
    job = (await rig.submit(calls(4))).job
    await wait_in_vain(rig, worker, DAY, DAY)
    leases = {lease.key: lease for lease in await worker.lease()}
    group = [Settlement(lease, TaskState.COMPLETED) for key, lease in leases.items() if key in ("t1", "t2")]
    group += [
        Settlement(leases[key], TaskState.WAITING, wait=5, burned=False, patience=DAY, error="no.")
        for key in ("t0", "t3")
    ]
    assert not (await worker.cycle(group)).fenced
    assert rig.states(job) == {"t0": "failed", "t1": "completed", "t2": "completed", "t3": "waiting"}
    assert [s.state for s in group[2:]] == [TaskState.FAILED, TaskState.WAITING], "the one that settled gets it"


async def test_a_late_settlement_that_waits_in_vain_leaves_no_trace(rig: Rig, worker: Worker) -> None:
    await rig.submit(calls(1))
    (lease,) = await worker.lease()
    rig.pass_time(31)
    await rig.ledger.sweep()
    before = rig.everything()
    batch = await worker.settle(lease, TaskState.WAITING, wait=5, burned=False, patience=DAY)
    assert list(batch.fenced) == [lease.task_id]
    assert rig.everything() == before


@pytest.mark.parametrize("paused", [True, False])
async def test_a_refused_lane_request_returns_the_reason(rig: Rig, worker: Worker, paused: bool) -> None:
    other = await rig.worker("other")
    assert isinstance(await rig.ledger.take_lane(other.session, "site"), OwnedLane)
    if paused:
        await rig.ledger.pause_lane("site", paused=True)
    away = await rig.ledger.take_lane(worker.session, "site")
    assert away is (Away.PAUSED if paused else Away.ELSEWHERE)
