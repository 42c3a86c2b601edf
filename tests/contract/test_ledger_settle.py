"""Settling: one transaction behind one fence. The auditor compares counters with counts after every step."""

from datetime import timedelta

import pytest

from forager.core.errors import Evidence
from forager.core.ledger import GivenLane, Settlement
from forager.core.outcome import Skip
from forager.core.states import TaskState
from forager.core.task import Plan
from tests.support.rig import Rig, Worker
from tests.support.rig_pipelines import Call, Seen, Thing, calls, chain

WEEK = 7 * 24 * 3600


async def test_a_completed_task_has_its_cost_and_facts(rig: Rig, worker: Worker) -> None:
    job = (await rig.submit(calls(1))).job
    (lease,) = await worker.lease()
    facts = {"api_status": 200, "api_ms": 812, "results_count": 0}
    await worker.settle(lease, cost=2, guessed=1, facts=facts)
    task, row = rig.tasks(job)["t0"], rig.job(job)
    assert (task["cost"], task["guessed"]) == (2, 1)
    assert rig.facts(task) == facts
    assert (row["spent"], row["guessed"], row["reserved"], row["state"]) == (2, 1, 0, "completed")


async def test_late_settlement_of_a_lost_claim_is_refused_without_a_trace__PL_6(rig: Rig, worker: Worker) -> None:
    job = (await rig.submit(calls(1), max_cost=10)).job
    (lease,) = await worker.lease()
    rig.pass_time(31)
    await rig.ledger.sweep()
    before = rig.everything()
    late = Settlement(
        lease,
        TaskState.COMPLETED,
        cost=7,
        records=[Thing(uid="x"), Seen(uid="x")],
        tasks=calls(3, prefix="child"),
        skip=[Skip("t0", "no")],
        evidence=Evidence(b"page"),
        halt="stop",
    )
    batch = await worker.cycle([late])
    assert list(batch.fenced) == [lease.task_id]
    assert rig.everything() == before
    assert rig.states(job) == {"t0": "suspect"}


async def test_a_claim_that_was_taken_over_is_lost_even_while_the_task_runs__PL_6(rig: Rig, worker: Worker) -> None:
    job = (await rig.submit(calls(1))).job
    (old,) = await worker.lease()
    rig.pass_time(31)
    await rig.ledger.sweep()
    second = await rig.worker("second")
    (new,) = await rig.ledger.lease_suspects(second.session)
    assert new.claim != old.claim
    assert list((await worker.settle(old, TaskState.FAILED, error="late")).fenced) == [old.task_id]
    assert not (await second.settle(new, records=[Thing(uid="x")])).fenced
    assert rig.states(job) == {"t0": "completed"}


async def test_the_same_settlement_twice_counts_once(rig: Rig, worker: Worker) -> None:
    job = (await rig.submit(calls(2))).job
    one, two = await worker.lease()
    done = Settlement(one, TaskState.COMPLETED, cost=1, records=[Seen(uid="x")])
    assert list((await worker.cycle([done, done])).fenced) == [one.task_id]
    assert list((await worker.cycle([done])).fenced) == [one.task_id]
    await worker.settle(two)
    assert (rig.job(job)["completed"], rig.job(job)["spent"]) == (2, 1)
    assert rig.rows(Seen)["x"]["times_seen"] == 1


async def test_every_end_has_its_counter_and_the_job_its_word(rig: Rig, worker: Worker) -> None:
    job = (await rig.submit(calls(3))).job
    one, two, three = await worker.lease()
    await worker.settle(one, TaskState.COMPLETED)
    await worker.settle(two, TaskState.FAILED, error="no such page")
    assert rig.job(job)["state"] == "running"
    await worker.settle(three, TaskState.SKIPPED, error="robots")
    row = rig.job(job)
    assert (row["completed"], row["failed"], row["skipped"]) == (1, 1, 1)
    assert row["state"] == "partially_completed"
    assert rig.tasks(job)["t1"]["error"] == "no such page"


async def test_a_job_in_which_nothing_succeeded_has_failed(rig: Rig, worker: Worker) -> None:
    job = (await rig.submit(calls(2))).job
    for lease in await worker.lease():
        await worker.settle(lease, TaskState.FAILED, error="x")
    assert rig.job(job)["state"] == "failed"


async def test_a_job_whose_first_pages_all_failed_has_failed_although_the_others_were_skipped(
    rig: Rig, worker: Worker
) -> None:
    job = (await rig.submit([*chain("p1", "p2"), *chain("q1", "q2")])).job
    for lease in await worker.lease():
        await worker.settle(lease, TaskState.FAILED, error="no answer")
    row = rig.job(job)
    assert (row["completed"], row["failed"], row["skipped"]) == (0, 2, 2)
    assert row["state"] == "failed"


async def test_a_job_with_one_success_and_skipped_followers_of_a_failure_is_partially_completed(
    rig: Rig, worker: Worker
) -> None:
    job = (await rig.submit([*chain("p1", "p2"), *calls(1)])).job
    for lease in await worker.lease():
        await worker.settle(lease, TaskState.FAILED if lease.key == "p1" else TaskState.COMPLETED)
    assert rig.job(job)["state"] == "partially_completed"


async def test_a_job_whose_budget_did_not_pay_for_its_first_task_has_failed(rig: Rig, worker: Worker) -> None:
    job = (await rig.submit(calls(3), max_cost=0)).job
    assert await worker.lease() == []
    for _ in range(20):
        await worker.cycle(most=10)
        if rig.job(job)["finished_at"]:
            break
    row = rig.job(job)
    assert (row["state"], row["completed"], row["failed"], row["skipped"]) == ("failed", 0, 0, 3)


@pytest.mark.parametrize(("reason", "state"), [("robots", "failed"), ("not_wanted", "completed")])
async def test_a_job_to_which_robots_txt_permitted_nothing_has_failed(
    rig: Rig, worker: Worker, reason: str, state: str
) -> None:
    job = (await rig.submit(calls(3))).job
    for lease in await worker.lease():
        await worker.settle(lease, TaskState.SKIPPED, error="no", reason=reason)
    row = rig.job(job)
    assert (row["state"], row["completed"], row["failed"], row["skipped"]) == (state, 0, 0, 3)


async def test_a_retry_waits_and_counts_its_attempt__PL_9(rig: Rig, worker: Worker) -> None:
    job = (await rig.submit(calls(1))).job
    (lease,) = await worker.lease()
    await worker.settle(lease, TaskState.WAITING, wait=5, error="status 500", cost=1)
    assert rig.states(job) == {"t0": "waiting"}
    assert await worker.lease() == []
    rig.pass_time(6)
    (again,) = await worker.lease()
    assert again.attempt == 2
    assert again.claim != lease.claim
    await worker.settle(again, cost=1)
    row = rig.job(job)
    assert (row["retries"], row["spent"], row["state"]) == (1, 2, "completed")


async def test_a_snooze_burns_no_attempt__PL_9(rig: Rig, worker: Worker) -> None:
    job = (await rig.submit(calls(1))).job
    (lease,) = await worker.lease()
    await worker.settle(lease, TaskState.WAITING, wait=5, burned=False, error="429")
    rig.pass_time(6)
    (again,) = await worker.lease()
    assert again.attempt == 1
    assert rig.job(job)["retries"] == 0


async def test_a_wait_of_no_length_is_ready_at_once(rig: Rig, worker: Worker) -> None:
    job = (await rig.submit(calls(1))).job
    (lease,) = await worker.lease()
    await worker.settle(lease, TaskState.WAITING, wait=0)
    assert rig.states(job) == {"t0": "ready"}
    assert len(await worker.lease()) == 1


async def test_a_halt_pauses_the_job_and_puts_the_task_back_unburned__PL_9(rig: Rig, worker: Worker) -> None:
    job = (await rig.submit(calls(4))).job
    one, two = await worker.lease(2)
    await worker.settle(one, TaskState.READY, burned=False, halt="the key was refused")
    row = rig.job(job)
    assert (row["state"], row["reason"], row["queued"], row["running"]) == ("paused", "the key was refused", 3, 1)
    await worker.settle(two)
    assert await worker.lease() == []
    assert [c.op for c in await rig.ledger.changes(0, 10, job=job)] == ["created", "paused"]
    await rig.ledger.resume(job)
    leases = await worker.lease()
    assert {lease.attempt for lease in leases} == {1}
    assert {lease.key for lease in leases} == {"t0", "t2", "t3"}


async def test_children_join_the_job_once_each(rig: Rig, worker: Worker) -> None:
    job = (await rig.submit(calls(2))).job
    one, two = await worker.lease()
    await worker.settle(one, tasks=[*calls(2, prefix="c"), *calls(1)])
    await worker.settle(two, tasks=calls(3, prefix="c"))
    assert rig.job(job)["total"] == 5
    assert sorted(await worker.drain()) == ["c0", "c1", "c2"]
    assert rig.job(job)["state"] == "completed"


async def test_children_in_a_lane_without_an_owner_wake_it(rig: Rig, worker: Worker) -> None:
    job = (await rig.submit(calls(1))).job
    (lease,) = await worker.lease()
    await worker.settle(lease, tasks=calls(2, where="elsewhere", prefix="c"))
    assert await worker.take_lanes() == ["elsewhere"]
    assert len(await worker.lease()) == 2
    assert rig.job(job)["running"] == 2


async def test_a_child_can_come_after_its_parent_or_a_sibling(rig: Rig, worker: Worker) -> None:
    job = (await rig.submit(calls(1))).job
    (lease,) = await worker.lease()
    children = [Plan(Call(name="a"), after="t0"), Plan(Call(name="b"), after="a")]
    await worker.settle(lease, tasks=children)
    assert rig.states(job) == {"a": "ready", "b": "held", "t0": "completed"}
    assert await worker.drain() == ["a", "b"]


async def test_a_child_can_come_after_a_task_that_is_running(rig: Rig, worker: Worker) -> None:
    """Its lease was given before it had a follower."""
    job = (await rig.submit(calls(2))).job
    one, two = await worker.lease()
    await worker.settle(one, tasks=[Plan(Call(name="late"), after="t1")])
    assert rig.states(job)["late"] == "held"
    await worker.settle(two)
    assert rig.states(job)["late"] == "ready"


async def test_a_child_after_a_task_that_failed_is_skipped_with_its_own_followers(rig: Rig, worker: Worker) -> None:
    job = (await rig.submit(calls(2))).job
    one, two = await worker.lease()
    await worker.settle(one, TaskState.FAILED, error="x")
    children = [Plan(Call(name="a"), after="t0"), Plan(Call(name="b"), after="a")]
    await worker.settle(two, tasks=children)
    assert rig.states(job) == {"a": "skipped", "b": "skipped", "t0": "failed", "t1": "completed"}
    assert rig.job(job)["state"] == "partially_completed"


async def test_a_child_after_an_existing_task_follows_that_one(rig: Rig, worker: Worker) -> None:
    job = (await rig.submit(calls(2))).job
    one, two = await worker.lease()
    await worker.settle(one, tasks=[Plan(Call(name="t1")), Plan(Call(name="next"), after="t1")])
    assert rig.states(job)["next"] == "held"
    await worker.settle(two)
    assert rig.states(job)["next"] == "ready"


async def test_the_next_page_is_released_when_the_page_before_ends_well__PL_10(rig: Rig, worker: Worker) -> None:
    job = (await rig.submit(chain("p1", "p2", "p3"))).job
    (first,) = await worker.lease()
    batch = await worker.cycle([Settlement(first, TaskState.COMPLETED)], most=10)
    assert [lease.key for lease in batch.leases] == ["p2"]
    assert rig.states(job)["p3"] == "held"


async def test_a_follower_in_a_lane_without_an_owner_wakes_it(rig: Rig, worker: Worker) -> None:
    await rig.submit([Plan(Call(name="a")), Plan(Call(name="b", where="elsewhere"), after="a")])
    (first,) = await worker.lease()
    await worker.settle(first)
    assert await worker.take_lanes() == ["elsewhere"]


async def test_a_short_page_skips_the_rest__PL_10(rig: Rig, worker: Worker) -> None:
    job = (await rig.submit(chain("p1", "p2", "p3"))).job
    (first,) = await worker.lease()
    skip = [Skip(p, "early_exit_page1_lt10") for p in ("p2", "p3")]
    batch = await worker.cycle([Settlement(first, TaskState.COMPLETED, skip=skip)], most=10)
    assert batch.leases == []
    assert rig.states(job) == {"p1": "completed", "p2": "skipped", "p3": "skipped"}
    assert {rig.tasks(job)[p]["error"] for p in ("p2", "p3")} == {"early_exit_page1_lt10"}
    assert rig.tasks(job)["p3"]["ended_at"] is not None
    assert rig.job(job)["state"] == "completed"


async def test_a_key_with_nul_is_followed_and_skipped_by_that_name(rig: Rig, worker: Worker) -> None:
    job = (await rig.submit(chain("a\x00", "b\x00", "c\x00"))).job
    (first,) = await worker.lease()
    batch = await worker.cycle([Settlement(first, TaskState.COMPLETED, skip=[Skip("c\x00", "enough")])], most=10)
    assert [lease.task for lease in batch.leases] == [Call(name="b\x00")]
    assert rig.states(job) == {"a\ufffd": "completed", "b\ufffd": "running", "c\ufffd": "skipped"}


async def test_what_runs_or_has_ended_is_not_skipped(rig: Rig, worker: Worker) -> None:
    job = (await rig.submit(calls(4))).job
    one, two, three = await worker.lease(3)
    await worker.settle(two)
    await worker.settle(one, skip=[Skip(f"t{i}", "enough") for i in range(4)])
    assert rig.states(job) == {"t0": "completed", "t1": "completed", "t2": "running", "t3": "skipped"}
    assert not (await worker.settle(three)).fenced


async def test_followers_of_a_failure_are_skipped_to_the_last_trap_5(rig: Rig, worker: Worker) -> None:
    job = (await rig.submit(chain("p1", "p2", "p3", "p4"))).job
    (first,) = await worker.lease()
    await worker.settle(first, TaskState.FAILED, error="404")
    assert rig.states(job) == {"p1": "failed", "p2": "skipped", "p3": "skipped", "p4": "skipped"}
    assert {rig.tasks(job)[p]["error"] for p in ("p2", "p3", "p4")} == {"after_failed"}


async def test_a_retry_keeps_its_followers_waiting(rig: Rig, worker: Worker) -> None:
    job = (await rig.submit(chain("p1", "p2"))).job
    (first,) = await worker.lease()
    await worker.settle(first, TaskState.WAITING, wait=5)
    assert rig.states(job) == {"p1": "waiting", "p2": "held"}
    rig.pass_time(6)
    assert await worker.drain() == ["p1", "p2"]


async def test_how_long_evidence_is_kept_can_be_set__SC_15(rig: Rig, worker: Worker) -> None:
    rig.catalog.evidence_ms = 2 * 24 * 3600 * 1000
    await rig.submit(calls(1))
    (lease,) = await worker.lease(1)
    await worker.settle(lease, TaskState.FAILED, error="not JSON", evidence=Evidence(b"page"))
    rig.pass_time(2 * 24 * 3600 - 60)
    assert (await rig.ledger.sweep()).evidence_removed == 0
    rig.pass_time(120)
    assert (await rig.ledger.sweep()).evidence_removed == 1


async def test_evidence_is_kept_for_a_week_and_cut_to_size__PL_9(rig: Rig, worker: Worker) -> None:
    await rig.submit(calls(1))
    (lease,) = await worker.lease()
    page = b"x" * 300_000
    await worker.settle(lease, TaskState.FAILED, error="not JSON", evidence=Evidence(page, "text/html"))
    (kept,) = rig.tables.read("SELECT task_id, content_type, body FROM evidence")
    assert (kept["task_id"], kept["content_type"]) == (lease.task_id, "text/html")
    assert bytes(kept["body"]) == page[: 256 * 1024]
    assert (await rig.ledger.sweep()).evidence_removed == 0
    rig.pass_time(WEEK + 1)
    assert (await rig.ledger.sweep()).evidence_removed == 1


async def test_a_picture_is_kept_whole_or_not_at_all__SC_15(rig: Rig, worker: Worker) -> None:
    await rig.submit(calls(3))
    leases = await worker.lease()
    shots = (b"png", b"x" * (2 * 1024 * 1024 + 1), None)
    for lease, shot in zip(leases, shots, strict=True):
        await worker.settle(lease, TaskState.FAILED, error="a wall", evidence=Evidence(b"<h1>", "text/html", shot))
    kept = rig.tables.read("SELECT screenshot FROM evidence ORDER BY task_id")
    assert [row["screenshot"] and bytes(row["screenshot"]) for row in kept] == [b"png", None, None]


async def test_a_mixed_group_is_settled_together(rig: Rig, worker: Worker) -> None:
    jobs = [(await rig.submit(calls(4))).job for _ in range(3)]
    leases = await worker.lease()
    ends = (TaskState.COMPLETED, TaskState.FAILED, TaskState.SKIPPED, TaskState.WAITING)
    group = [Settlement(lease, ends[i % 4], wait=10, cost=1) for i, lease in enumerate(leases)]
    assert not (await worker.cycle(group)).fenced
    total = [rig.job(job) for job in jobs]
    for counter in ("completed", "failed", "skipped", "queued"):
        assert sum(row[counter] for row in total) == 3
    assert sum(row["spent"] for row in total) == 12


async def test_spending_is_returned_by_hour_day_and_month__PL_11(rig: Rig, worker: Worker) -> None:
    await rig.submit([*calls(3), *calls(1, where="site", prefix="s")])
    for lease in await worker.lease():
        await worker.settle(lease, cost=4)
    await rig.ledger.give_lanes(worker.session, {n: GivenLane() for n in worker.lanes.values()})
    await rig.submit([*calls(1), *calls(1, where="site", prefix="s")])
    taken = await rig.ledger.take_lanes(worker.session, 9)
    spent = {lane.name: (lane.spent_hour, lane.spent_day, lane.spent_month) for lane in taken}
    assert spent == {"api": (12, 12, 12), "site": (4, 4, 4)}


async def test_a_new_hour_a_new_day_and_a_new_month_start_at_nothing__PL_11(rig: Rig, worker: Worker) -> None:
    """Days pass by moving what was spent into the past: a database's calendar cannot be turned."""
    today = await rig.ledger.now()
    other_day = today.replace(day=2 if today.day == 1 else 1)
    month_before = today.replace(day=1) - timedelta(days=1)

    async def spend(cost: int) -> tuple[int, int, int]:
        """Return what the lane had spent when it was taken; then spend `cost` more."""
        await rig.submit(calls(1))
        (lane,) = await rig.ledger.take_lanes(worker.session, 9)
        worker.lanes = {lane.name: lane.id}
        (lease,) = await worker.lease()
        await worker.settle(lease, cost=cost)
        await rig.ledger.give_lanes(worker.session, {lane.id: GivenLane()})
        return lane.spent_hour, lane.spent_day, lane.spent_month

    assert await spend(5) == (0, 0, 0)
    assert await spend(2) == (5, 5, 5)
    rig.write(f"UPDATE spending SET hour = {(today.hour - 1) % 24}")
    assert await spend(1) == (0, 7, 7)
    assert await spend(1) == (1, 8, 8)
    rig.write(f"UPDATE spending SET day = {other_day:%Y%m%d}")
    assert await spend(4) == (0, 0, 9)
    assert await spend(0) == (4, 4, 13)
    rig.write(f"DELETE FROM spending WHERE day = {today:%Y%m%d}")
    rig.write(f"UPDATE spending SET day = {month_before:%Y%m%d}, spent = 13")
    assert await spend(0) == (0, 0, 0)
