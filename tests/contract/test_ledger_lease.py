"""Leasing: one claim at a time, in rank order, fair between jobs, never past a limit or a budget."""

import asyncio
from collections import Counter
from uuid import UUID

from forager.core.errors import Undecodable
from forager.core.ledger import NewJob, Settlement, Want
from forager.core.states import TaskState
from forager.core.task import Plan
from tests.support.rig import Rig, Worker
from tests.support.rig_pipelines import Call, DearCall, calls, chain


async def test_a_task_is_leased_once__PL_6(rig: Rig, worker: Worker) -> None:
    await rig.submit(calls(10))
    first = await worker.lease(7)
    second = await worker.lease(7)
    assert len(first) == 7
    assert sorted(lease.key for lease in first + second) == sorted(f"t{i}" for i in range(10))
    assert await worker.lease() == []


async def test_many_leases_at_once_never_share_a_task__PL_6(rig: Rig) -> None:
    await rig.submit(calls(300))
    workers = [await rig.worker(f"w{i}") for i in range(4)]
    owner = next(w for w in workers if w.lanes)
    batches = await asyncio.gather(
        *(
            rig.ledger.settle_and_lease(w.session, [], [Want(owner.lanes["api"], 10)])
            for w in workers
            for _ in range(10)
        )
    )
    got = [lease.task_id for batch in batches for lease in batch.leases]
    assert len(got) == len(set(got)) >= 10  # who loses a race may go away with less, never with the same
    while leases := await owner.lease():
        got.extend(lease.task_id for lease in leases)
    assert len(got) == len(set(got)) == 300


async def test_a_session_leases_only_from_its_own_lanes(rig: Rig, worker: Worker) -> None:
    await rig.submit(calls(3))
    await worker.take_lanes()
    stranger = await rig.worker("stranger")
    stranger.lanes = dict(worker.lanes)
    assert (await stranger.cycle(most=10)).leases == []
    assert len(await worker.lease()) == 3


async def test_tasks_come_by_rank_then_age(rig: Rig, worker: Worker) -> None:
    await rig.submit([Plan(Call(name=n), rank=r) for n, r in (("c", 3), ("a", 1), ("b", 2), ("a2", 1))])
    assert [lease.key for lease in await worker.lease(2)] == ["a", "a2"]
    assert [lease.key for lease in await worker.lease(2)] == ["b", "c"]


async def test_an_attempt_carries_its_number_price_and_task(rig: Rig, worker: Worker) -> None:
    await rig.submit([Plan(DearCall(name="x"))])
    (lease,) = await worker.lease()
    assert (lease.attempt, lease.price, lease.kind, lease.key) == (1, 5, "dear-call", "x")
    assert lease.task == DearCall(name="x")


async def test_a_small_job_behind_a_big_one_is_in_the_next_lease__PL_7(rig: Rig, worker: Worker) -> None:
    rig.audited = False
    big = await rig.submit(calls(100_000))
    await worker.lease(50)
    small = await rig.submit(calls(10))
    leases = await worker.lease(20)
    by_job = Counter(lease.job_id for lease in leases)
    assert by_job[rig.job(small.job)["id"]] == 10
    assert by_job[rig.job(big.job)["id"]] == 10


async def test_jobs_take_turns_even_one_task_at_a_time__PL_7(rig: Rig, worker: Worker) -> None:
    for _ in range(3):
        await rig.submit(calls(10))
    got = [(await worker.lease(1))[0].job_id for _ in range(9)]
    assert set(Counter(got).values()) == {3}


async def test_of_a_hundred_jobs_none_waits_longer_than_a_round__PL_7(rig: Rig, worker: Worker) -> None:
    for _ in range(100):
        await rig.ledger.submit(NewJob("rig", {"name": "job"}), calls(5))
    served: Counter[int] = Counter()
    for _ in range(10):
        served.update(lease.job_id for lease in await worker.lease(10))
    assert len(served) == 100
    assert set(served.values()) == {1}


async def test_what_one_job_cannot_use_goes_to_the_others(rig: Rig, worker: Worker) -> None:
    await rig.submit(calls(2))
    await rig.submit(calls(50))
    assert len(await worker.lease(40)) == 40


async def test_a_lower_turn_comes_first(rig: Rig, worker: Worker) -> None:
    later = await rig.submit(calls(5), turn=1)
    sooner = await rig.submit(calls(5), turn=0)
    first = await worker.lease(5)
    assert {lease.job_id for lease in first} == {rig.job(sooner.job)["id"]}
    assert {lease.job_id for lease in await worker.lease(5)} == {rig.job(later.job)["id"]}


async def test_one_lease_takes_no_more_than_the_batch_size_of_a_job__PL_1(rig: Rig, worker: Worker) -> None:
    await rig.submit([*calls(10), *calls(10, where="site", prefix="s")], batch_size=3)
    assert len(await worker.lease(100)) == 3
    assert len(await worker.lease(100)) == 3


async def test_a_job_has_no_more_in_flight_than_its_concurrency__PL_1(rig: Rig, worker: Worker) -> None:
    """The auditor checks it over both lanes after every turn."""
    await rig.submit([*calls(10), *calls(10, where="site", prefix="s")], concurrency=4)
    first = await worker.lease(100)
    assert len(first) == 4
    assert await worker.lease(100) == []
    batch = await worker.cycle([Settlement(first[0], TaskState.COMPLETED)], most=100)
    assert len(batch.leases) == 1


async def test_a_budget_holds_with_what_is_in_flight_trap_6__PL_11(rig: Rig, worker: Worker) -> None:
    job = (await rig.submit([*calls(10), *calls(10, where="site", prefix="s")], max_cost=6)).job
    leases = await worker.lease(100)
    assert len(leases) == 6
    assert rig.job(job)["reserved"] == 6
    assert await worker.lease(100) == []


async def test_what_an_attempt_did_not_cost_can_be_spent_again__PL_11(rig: Rig, worker: Worker) -> None:
    job = (await rig.submit(calls(10), max_cost=3)).job
    leases = await worker.lease(100)
    batch = await worker.cycle([Settlement(lease, TaskState.COMPLETED, cost=0) for lease in leases], most=100)
    assert len(batch.leases) == 3
    assert rig.job(job)["spent"] == 0


async def test_the_rest_of_a_spent_budget_is_skipped__PL_11(rig: Rig, worker: Worker) -> None:
    job = (await rig.submit([*calls(5), *chain("p1", "p2")], max_cost=3)).job
    leases = await worker.lease(100)
    await worker.complete(leases)
    await worker.lease(100)
    states = Counter(rig.states(job).values())
    assert states == {"completed": 3, "skipped": 4}
    assert {row["error"] for row in rig.tasks(job).values() if row["state"] == TaskState.SKIPPED} == {"budget"}
    row = rig.job(job)
    assert (row["state"], row["spent"], row["reason"]) == ("completed", 3, "budget")


async def test_a_budget_holds_where_kinds_of_different_prices_wait_together__PL_11(rig: Rig, worker: Worker) -> None:
    plans = [Plan(Call(name="cheap"), rank=0), *(Plan(DearCall(name=f"d{i}"), rank=1) for i in range(4))]
    await rig.submit(plans, max_cost=11)
    assert [lease.price for lease in await worker.lease(100)] == [1, 5, 5]


async def test_a_large_rest_of_a_budget_is_skipped_in_pages__PL_11(rig: Rig, worker: Worker) -> None:
    job = (await rig.submit(calls(3_000), max_cost=1)).job
    await worker.complete(await worker.lease(100))
    for _ in range(20):
        await worker.cycle(most=10)
        if rig.job(job)["finished_at"]:
            break
    row = rig.job(job)
    assert (row["state"], row["completed"], row["skipped"]) == ("completed", 1, 2_999)


async def test_a_paused_job_gives_nothing_and_delays_no_other_job(rig: Rig, worker: Worker) -> None:
    paused = await rig.submit(calls(5))
    other = await rig.submit(calls(5))
    await rig.ledger.pause(paused.job)
    assert {lease.job_id for lease in await worker.lease()} == {rig.job(other.job)["id"]}
    await rig.ledger.resume(paused.job)
    assert len(await worker.lease()) == 5


async def test_a_paused_lane_gives_nothing_even_to_its_owner(rig: Rig, worker: Worker) -> None:
    await rig.submit([*calls(5), *calls(5, where="site", prefix="s")])
    await worker.take_lanes()
    await rig.ledger.pause_lane("api", paused=True)
    assert {lease.key[0] for lease in await worker.lease()} == {"s"}
    await rig.ledger.pause_lane("api", paused=False)
    assert {lease.key[0] for lease in await worker.lease()} == {"t"}


async def test_a_row_that_does_not_decode_is_leased_as_an_error__R14(rig: Rig, worker: Worker) -> None:
    job = (await rig.submit(calls(2))).job
    bad = rig.tasks(job)["t0"]["id"]
    rig.spoil(bad, b'{"name": 7, "colour": "red"}')
    leases = {lease.key: lease for lease in await worker.lease()}
    assert isinstance(leases["t0"].task, Undecodable)
    assert leases["t1"].task == Call(name="t1")
    await worker.settle(leases["t0"], TaskState.FAILED, error=leases["t0"].task.message)
    assert rig.states(job)["t0"] == "failed"


async def test_the_lanes_of_a_session_can_be_read_again(rig: Rig, worker: Worker) -> None:
    await rig.submit(calls(3))
    leases = await worker.lease(2)
    held = await rig.ledger.held(worker.session)
    assert sorted((h.task_id, h.claim, h.key) for h in held) == sorted((x.task_id, x.claim, x.key) for x in leases)


async def test_a_lane_that_returned_too_few_tasks_reports_when_it_has_more(rig: Rig, worker: Worker) -> None:
    await rig.submit(calls(2))
    first, second = await worker.lease()
    await worker.settle(first, TaskState.WAITING, wait=60)
    await worker.settle(second, TaskState.WAITING, wait=30)
    batch = await worker.cycle(most=5)
    now = round((await rig.ledger.now()).timestamp() * 1000)
    due = batch.next_due[worker.lanes["api"]]
    assert due is not None
    assert 25_000 < due - now <= 30_000


async def test_a_lane_cut_short_by_a_batch_size_differs_from_an_empty_one(rig: Rig, worker: Worker) -> None:
    await rig.submit(calls(3))
    await worker.take_lanes()
    emptied = await worker.cycle(most=5)
    assert (len(emptied.leases), set(emptied.limited)) == (3, set())
    assert worker.lanes["api"] in emptied.next_due
    await rig.submit(calls(3), batch_size=2)
    cut = await worker.cycle(most=5)
    assert (len(cut.leases), set(cut.limited)) == (2, {worker.lanes["api"]})


async def test_a_waiting_worker_is_notified_of_new_work(rig: Rig, worker: Worker) -> None:
    waiting = asyncio.ensure_future(rig.ledger.work_arrived(300))
    await asyncio.sleep(0)
    await rig.submit(calls(1))
    await asyncio.wait_for(waiting, 60)


async def test_a_task_that_has_waited_a_minute_comes_first__SC_4(rig: Rig) -> None:
    big = await rig.submit(calls(4), turn=100)
    rig.pass_time(59)
    assert (await rig.ledger.sweep()).aged == 0
    worker = await rig.worker()
    small = await rig.submit(calls(4), turn=2)
    assert [lease.job_id for lease in await worker.lease(1)] == [rig.job(small.job)["id"]]
    rig.pass_time(1.5)
    assert (await rig.ledger.sweep()).aged == 1
    assert [lease.job_id for lease in await worker.lease(3)] == [rig.job(big.job)["id"]] * 3
    assert (await rig.ledger.sweep()).aged == 0


async def test_a_paused_job_grows_older_too__SC_4(rig: Rig) -> None:
    big = await rig.submit(calls(4), turn=100)
    await rig.ledger.pause(big.job)
    rig.pass_time(61)
    assert (await rig.ledger.sweep()).aged == 1
    await rig.submit(calls(4), turn=2)
    await rig.ledger.resume(big.job)
    worker = await rig.worker()
    assert [lease.job_id for lease in await worker.lease(2)] == [rig.job(big.job)["id"]] * 2


async def test_a_lease_for_one_job_takes_no_task_of_another_and_keeps_its_limits(rig: Rig, worker: Worker) -> None:
    first = (await rig.submit(calls(5, prefix="a"))).job
    second = (await rig.submit(calls(5, prefix="b"), batch_size=2)).job
    await worker.take_lanes()
    numbers = {row["public_id"]: row["id"] for row in await rig.ledger.database.fetch("SELECT id, public_id FROM jobs")}

    async def keys(job: UUID, most: int) -> list[str]:
        want = Want(worker.lanes["api"], most, numbers[str(job)])
        return [lease.key for lease in (await rig.ledger.settle_and_lease(worker.session, [], [want])).leases]

    assert await keys(second, 10) == ["b0", "b1"], "its batch size"
    assert await keys(first, 3) == ["a0", "a1", "a2"]
    assert await keys(first, 10) == ["a3", "a4"]
    assert await keys(first, 10) == []
    await rig.ledger.pause(second)
    assert await keys(second, 10) == []
    rig.check()
