"""Sessions and lanes: one heartbeat, exclusive ownership, rescue of what the dead held, the guilty found alone."""

import asyncio
from collections.abc import Coroutine, Sequence
from typing import Any

from forager.core.ledger import GivenLane, Lease, LeaseBatch, NewJob, Settlement, Want
from forager.core.states import WAITING_CRASHES, TaskState
from tests.support.rig import Rig, Worker
from tests.support.rig_pipelines import Seen, calls, chain


async def _crash(rig: Rig) -> None:
    """Whoever holds something now dies; its lease ends."""
    rig.pass_time(31)
    await rig.ledger.sweep()
    rig.check()


async def _suspects(rig: Rig) -> tuple[Worker, Sequence[Lease]]:
    worker = await rig.worker("next")
    return worker, await worker.begin_suspects()


async def test_a_session_with_heartbeats_keeps_its_leases(rig: Rig, worker: Worker) -> None:
    job = (await rig.submit(calls(2))).job
    await worker.lease()
    for _ in range(4):
        rig.pass_time(20)
        assert await rig.ledger.beat(worker.session, {})
        assert (await rig.ledger.sweep()).rescued == 0
    assert rig.job(job)["running"] == 2


async def test_a_session_without_heartbeats_is_lost_and_notified__PL_6(rig: Rig, worker: Worker) -> None:
    await rig.submit(calls(2))
    await worker.lease()
    rig.pass_time(31)
    swept = await rig.ledger.sweep()
    assert (swept.rescued, swept.sessions_ended) == (2, 1)
    assert not await rig.ledger.beat(worker.session, {})
    assert not (await worker.cycle(most=10)).leases
    assert await rig.ledger.take_lanes(worker.session, 10) == []
    assert await rig.ledger.lease_suspects(worker.session) == []


async def test_a_lost_session_is_never_mistaken_for_a_later_one(rig: Rig, worker: Worker) -> None:
    await rig.submit(calls(4))
    await worker.lease(1)
    await _crash(rig)
    later = await rig.worker("later")
    assert later.session.id != worker.session.id
    await later.lease(1)
    assert not await rig.ledger.beat(worker.session, {})
    await rig.ledger.end(worker.session)
    assert len(await rig.ledger.held(later.session)) == 1


async def test_end_gives_everything_back_unburned__R7(rig: Rig, worker: Worker) -> None:
    job = (await rig.submit(calls(3))).job
    leases = await worker.lease()
    await worker.settle(leases[0])
    await rig.ledger.end(worker.session)
    rig.check()
    assert rig.states(job) == {"t0": "completed", "t1": "ready", "t2": "ready"}
    second = await rig.worker("second")
    assert list(second.lanes) == ["api"]
    assert {lease.attempt for lease in await second.lease()} == {1}
    assert list((await worker.settle(leases[1])).fenced) == [leases[1].task_id]


async def test_what_was_in_flight_at_a_crash_counts_as_spent_and_flagged_trap_6__PL_11(
    rig: Rig, worker: Worker
) -> None:
    job = (await rig.submit(calls(5), max_cost=3)).job
    await worker.lease(2)
    await _crash(rig)
    row = rig.job(job)
    assert (row["spent"], row["guessed"], row["reserved"]) == (2, 2, 0)
    _, leases = await _suspects(rig)
    assert len(leases) == 1
    assert rig.job(job)["reserved"] == 1


async def test_the_rescued_are_suspects_and_do_not_run_with_others__R14(rig: Rig, worker: Worker) -> None:
    job = (await rig.submit(calls(10))).job
    await worker.lease(8)
    await _crash(rig)
    assert sorted(rig.states(job).values()).count("suspect") == 8
    second = await rig.worker("second")
    batch = await second.cycle(most=100)
    assert {lease.key for lease in batch.leases} == {"t8", "t9"}
    assert batch.suspects


async def test_groups_of_suspects_halve_until_the_guilty_is_alone__R14(rig: Rig, worker: Worker) -> None:
    job = (await rig.submit(calls(8))).job
    await worker.lease(8)
    await _crash(rig)
    sizes: list[int] = []
    for _ in range(40):
        worker, leases = await _suspects(rig)
        if not leases:
            break
        sizes.append(len(leases))
        if any(lease.key == "t5" for lease in leases):
            await _crash(rig)
        else:
            await worker.complete(leases)
            await rig.ledger.end(worker.session)
    assert sizes[0] == 4
    assert rig.states(job) == {f"t{i}": "failed" if i == 5 else "completed" for i in range(8)}
    assert "died 3 times" in rig.tasks(job)["t5"]["error"]
    assert {row["attempt"] for key, row in rig.tasks(job).items() if key != "t5"} == {1}


async def test_a_task_that_was_only_leased_at_every_crash_is_never_blamed__R14(rig: Rig, worker: Worker) -> None:
    job = (await rig.submit(calls(1))).job
    await worker.lease()
    for _ in range(12):
        await _crash(rig)
        (lease,) = await rig.ledger.lease_suspects((await rig.worker("next")).session)
        assert lease.alone
    assert rig.states(job) == {"t0": "running"}
    row = rig.tasks(job)["t0"]
    assert (row["crashes"], row["attempt"]) == (0, 1)


async def test_a_crash_counts_only_under_the_claim_whose_step_began__R14(rig: Rig, worker: Worker) -> None:
    job = (await rig.submit(calls(1))).job
    await worker.lease()
    await _crash(rig)
    for _ in range(2):
        await _suspects(rig)
        await _crash(rig)
    for _ in range(4):  # leased, and killed before the step began: the mark of the last claim counts no more
        await rig.ledger.lease_suspects((await rig.worker("next")).session)
        await _crash(rig)
    assert rig.states(job) == {"t0": "suspect"}
    assert rig.tasks(job)["t0"]["crashes"] == 2
    await _suspects(rig)
    await _crash(rig)
    assert rig.states(job) == {"t0": "failed"}


async def test_a_crash_while_the_step_waits_for_an_answer_must_happen_more_often__R14(rig: Rig, worker: Worker) -> None:
    job = (await rig.submit(calls(1))).job
    await worker.lease()
    await _crash(rig)
    for _ in range(WAITING_CRASHES):
        assert rig.states(job) == {"t0": "suspect"}
        await (await rig.worker("next")).begin_suspects(waits=True)
        await _crash(rig)
    assert rig.states(job) == {"t0": "failed"}
    assert f"died {WAITING_CRASHES} times" in rig.tasks(job)["t0"]["error"]


async def test_crashes_while_waiting_do_not_add_to_those_of_the_steps_own_code__R14(rig: Rig, worker: Worker) -> None:
    job = (await rig.submit(calls(1))).job
    await worker.lease()
    await _crash(rig)
    for waits in (True, True, True, False, True, False, True):
        await (await rig.worker("next")).begin_suspects(waits=waits)
        await _crash(rig)
    assert rig.states(job) == {"t0": "suspect"}
    await _suspects(rig)
    await _crash(rig)
    assert rig.states(job) == {"t0": "failed"}


async def test_the_mark_of_a_step_needs_a_living_claim__R14(rig: Rig, worker: Worker) -> None:
    await rig.submit(calls(1))
    await worker.lease()
    await _crash(rig)
    second, (lease,) = await _suspects(rig)
    await _crash(rig)
    assert not await rig.ledger.mark_step(second.session, lease, waits=False)
    third, (again,) = await _suspects(rig)
    assert not await rig.ledger.mark_step(second.session, lease, waits=False)
    await third.complete([again])
    assert not await rig.ledger.mark_step(third.session, again, waits=False)


async def test_a_group_of_several_suspects_is_not_alone__R14(rig: Rig, worker: Worker) -> None:
    await rig.submit(calls(4))
    await worker.lease(4)
    await _crash(rig)
    _, leases = await _suspects(rig)
    assert [lease.alone for lease in leases] == [False, False]


async def test_the_innocent_burn_no_attempt__R14(rig: Rig, worker: Worker) -> None:
    await rig.submit(calls(4))
    await worker.lease(4)
    for _ in range(5):
        await _crash(rig)
        _, leases = await _suspects(rig)
        assert {lease.attempt for lease in leases} == {1}


async def test_a_suspect_that_only_fails_for_a_while_is_one_no_more__R14(rig: Rig, worker: Worker) -> None:
    job = (await rig.submit(calls(2))).job
    await worker.lease()
    await _crash(rig)
    second, (lease,) = await _suspects(rig)
    await second.settle(lease, TaskState.WAITING, wait=5)
    assert rig.states(job)[lease.key] == "waiting"


async def test_the_dead_letter_of_a_killer_skips_its_followers__R14(rig: Rig, worker: Worker) -> None:
    job = (await rig.submit(chain("p1", "p2", "p3"))).job
    await worker.lease()
    await _crash(rig)
    for _ in range(3):
        await _suspects(rig)
        await _crash(rig)
    assert rig.states(job) == {"p1": "failed", "p2": "skipped", "p3": "skipped"}
    assert rig.job(job)["state"] == "failed"
    assert await rig.ledger.retry(job) == 3
    rig.check()


async def test_suspects_of_a_paused_job_or_lane_delay_no_other_task(rig: Rig, worker: Worker) -> None:
    job = (await rig.submit(calls(2))).job
    await worker.lease()
    await _crash(rig)
    await rig.ledger.pause(job)
    second = await rig.worker("second")
    assert not (await second.cycle(most=10)).suspects
    assert await rig.ledger.lease_suspects(second.session) == []
    await rig.ledger.resume(job)
    await rig.ledger.pause_lane("api", paused=True)
    assert await rig.ledger.lease_suspects(second.session) == []
    await rig.ledger.pause_lane("api", paused=False)
    assert len(await rig.ledger.lease_suspects(second.session)) == 1


async def test_a_lane_given_back_with_suspects_is_woken(rig: Rig, worker: Worker) -> None:
    await rig.submit(calls(2))
    await worker.lease()
    await _crash(rig)
    second = await rig.worker("second")
    await rig.ledger.give_lanes(second.session, {second.lanes.pop("api"): GivenLane()})
    rig.check()
    assert await second.take_lanes() == ["api"]


async def test_a_cancelled_job_has_no_suspects(rig: Rig, worker: Worker) -> None:
    job = (await rig.submit(calls(3))).job
    await worker.lease(2)
    await rig.ledger.cancel(job)
    await _crash(rig)
    assert rig.job(job)["state"] == "cancelled"
    assert set(rig.states(job).values()) == {"cancelled"}


async def test_suspects_keep_to_the_concurrency_of_their_job__PL_1(rig: Rig, worker: Worker) -> None:
    await rig.submit(calls(4), concurrency=1)
    await rig.submit(calls(30))
    for _ in range(2):  # a worker that leases more before it looks at the suspects of the last crash
        await worker.lease(8)
        await _crash(rig)
        worker = await rig.worker("again")
    leases = await rig.ledger.lease_suspects(worker.session)
    assert len(leases) == 4
    rig.check()


async def test_a_rescue_that_races_a_completion_never_undoes_it__R5(rig: Rig) -> None:
    """Either the settlement was first and stays, or it is fenced and the task runs again: 200 races, each way."""
    job = (await rig.submit(calls(200))).job
    accepted: set[int] = set()
    for race in range(20):
        worker = await rig.worker(f"w{race}")
        leases = await worker.lease(10)
        rig.pass_time(31)
        settling: list[Coroutine[Any, Any, LeaseBatch | None]] = [
            rig.ledger.settle_and_lease(
                worker.session, [Settlement(lease, TaskState.COMPLETED, records=[Seen(uid=lease.key)])], []
            )
            for lease in leases
        ]
        settling.insert(race % 11, _swept(rig))
        batches = [turn for turn in await asyncio.gather(*settling) if turn is not None]
        fenced = {number for batch in batches for number in batch.fenced}
        accepted |= {lease.task_id for lease in leases} - fenced
        rig.check()
    completed = {row["id"] for row in rig.tasks(job).values() if row["state"] == TaskState.COMPLETED}
    assert completed == accepted
    assert 0 < len(completed) < 200, "both must have been first at times"
    assert len(rig.rows(Seen)) == len(completed)


async def _swept(rig: Rig) -> None:
    await rig.ledger.sweep()


async def test_a_lane_has_one_owner(rig: Rig) -> None:
    await rig.submit([*calls(1), *calls(1, where="site", prefix="s")])
    sessions = [await rig.ledger.begin(f"s{i}") for i in range(4)]
    taken = await asyncio.gather(*(rig.ledger.take_lanes(s, 10) for s in sessions))
    names = [lane.name for lanes in taken for lane in lanes]
    assert sorted(names) == ["api", "site"]


async def test_a_session_takes_no_more_lanes_than_it_requests(rig: Rig) -> None:
    await rig.submit([p for i in range(5) for p in calls(1, where=f"l{i}", prefix=f"l{i}-")])
    session = await rig.ledger.begin("s")
    assert len(await rig.ledger.take_lanes(session, 2)) == 2
    assert len(await rig.ledger.take_lanes(session, 10)) == 3


async def test_the_state_of_a_lane_travels_with_it(rig: Rig, worker: Worker) -> None:
    await rig.submit(calls(1))
    await worker.take_lanes()
    lane = worker.lanes["api"]
    await rig.ledger.beat(worker.session, {lane: {"rate": 150, "breaker": ["open", 3]}})
    await _crash(rig)
    second = await rig.ledger.begin("second")
    (taken,) = await rig.ledger.take_lanes(second, 1)
    assert taken.state == {"rate": 150, "breaker": ["open", 3]}
    assert taken.epoch == 2
    await rig.ledger.give_lanes(second, {lane: GivenLane({"rate": 300})})
    third = await rig.ledger.begin("third")
    (again,) = await rig.ledger.take_lanes(third, 1)
    assert (again.state, again.epoch) == ({"rate": 300}, 3)


async def test_only_the_owner_writes_a_lane_down_or_gives_it_back(rig: Rig, worker: Worker) -> None:
    await rig.submit(calls(1))
    await worker.take_lanes()
    stranger = await rig.ledger.begin("stranger")
    lane = worker.lanes["api"]
    await rig.ledger.beat(stranger, {lane: {"rate": 1}})
    await rig.ledger.give_lanes(stranger, {lane: GivenLane({"rate": 1})})
    assert await rig.ledger.take_lanes(stranger, 5) == []
    assert len(await worker.lease()) == 1


async def test_a_lane_sleeps_until_its_next_task_is_due(rig: Rig, worker: Worker) -> None:
    await rig.submit(calls(1))
    (lease,) = await worker.lease()
    await worker.settle(lease, TaskState.WAITING, wait=60)
    await rig.ledger.give_lanes(worker.session, {worker.lanes.pop("api"): GivenLane()})
    assert await worker.take_lanes() == []
    rig.pass_time(61)
    second = await rig.worker("second")
    assert list(second.lanes) == ["api"]
    assert len(await second.lease()) == 1


async def test_a_retry_settled_after_its_lane_was_given_back_wakes_it_in_time_trap_2(rig: Rig, worker: Worker) -> None:
    await rig.submit(calls(1))
    (lease,) = await worker.lease()
    await rig.ledger.give_lanes(worker.session, {worker.lanes.pop("api"): GivenLane()})
    await worker.settle(lease, TaskState.WAITING, wait=60)  # the auditor checks what will wake the lane
    rig.pass_time(61)
    assert len(await (await rig.worker("second")).lease()) == 1


async def test_an_empty_lane_is_not_taken_until_work_comes_trap_2(rig: Rig, worker: Worker) -> None:
    await rig.submit(calls(1))
    await worker.drain()
    await rig.ledger.give_lanes(worker.session, {worker.lanes.pop("api"): GivenLane()})
    assert await worker.take_lanes() == []
    await rig.submit(calls(1))
    assert await worker.take_lanes() == ["api"]


async def test_work_is_never_left_in_a_sleeping_lane_by_a_race_trap_2(rig: Rig) -> None:
    """Submissions race an owner that finds its lane empty and puts it to sleep."""
    worker = await rig.worker()
    done = 0

    async def submit() -> None:
        for _ in range(30):
            await rig.ledger.submit(NewJob("rig", {"name": "job"}), calls(1))
            await asyncio.sleep(0)

    async def work() -> None:
        nonlocal done
        while done < 60:
            for lane in await rig.ledger.take_lanes(worker.session, 5):
                batch = await rig.ledger.settle_and_lease(worker.session, [], [Want(lane.id, 3)])
                await worker.complete(batch.leases)
                done += len(batch.leases)
                await rig.ledger.give_lanes(worker.session, {lane.id: GivenLane()})

    await asyncio.wait_for(asyncio.gather(submit(), submit(), work()), 60)
    assert (await rig.ledger.sweep()).woken == 0


async def test_a_paused_lane_is_not_taken(rig: Rig, worker: Worker) -> None:
    await rig.submit(calls(1))
    await rig.ledger.pause_lane("api", paused=True)
    assert await worker.take_lanes() == []
    await rig.ledger.pause_lane("api", paused=False)
    assert await worker.take_lanes() == ["api"]
