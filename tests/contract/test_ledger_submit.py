"""Submitting: completely or not at all, once per Idempotency-Key, big jobs in chunks that cannot be leased early."""

import asyncio
from collections.abc import Iterator

import pytest

from forager.core.errors import Busy, Conflict, NotFound
from forager.core.ledger import NewJob, Submitted
from forager.core.pipeline import JobLimits
from forager.core.states import TaskState
from forager.core.task import Plan
from forager.ledger.rules import jobs
from tests.support.rig import Rig, Worker
from tests.support.rig_pipelines import Call, calls, chain
from tests.support.same_commit import place_faults

BIG = 20_500
DAY = 24 * 3600


async def test_a_job_has_one_task_for_each_key__PL_3(rig: Rig) -> None:
    submitted = await rig.submit([*calls(3), *calls(3)])
    assert (submitted.total, submitted.created) == (3, True)
    assert rig.states(submitted.job) == {"t0": "ready", "t1": "ready", "t2": "ready"}
    assert rig.job(submitted.job)["state"] == "queued"


async def test_a_job_that_is_made_in_one_piece_names_its_first_task(rig: Rig) -> None:
    await rig.submit(calls(2))
    made = await rig.submit(calls(3), key="k")
    assert made.first == rig.task_id(made.job, "t0")
    assert (await rig.submit(calls(3), key="k")).first is None
    assert (await rig.submit([])).first is None


async def test_the_same_key_gives_the_same_job_within_a_day__PL_3(rig: Rig) -> None:
    first = await rig.submit(calls(2), key="k")
    rig.pass_time(DAY - 60)
    again = await rig.submit(calls(2), key="k")
    assert (again.job, again.total, again.created) == (first.job, 2, False)
    assert len(rig.tables.read("SELECT 1 FROM jobs")) == 1


async def test_the_same_key_gives_a_new_job_after_a_day__PL_3(rig: Rig) -> None:
    first = await rig.submit(calls(2), key="k")
    rig.pass_time(DAY + 1)
    later = await rig.submit(calls(2), key="k")
    assert later.created
    assert later.job != first.job
    assert not (await rig.submit(calls(2), key="k")).created


async def test_the_same_key_with_another_body_is_a_conflict__PL_3(rig: Rig) -> None:
    await rig.submit(calls(1), key="k", params={"name": "one"})
    with pytest.raises(Conflict, match="other parameters"):
        await rig.submit(calls(1), key="k", params={"name": "two"})
    assert len(rig.tables.read("SELECT 1 FROM jobs")) == 1


async def test_twenty_submissions_at_once_with_one_key_make_one_job__PL_3(rig: Rig) -> None:
    made = await asyncio.gather(
        *(rig.ledger.submit(NewJob("rig", {"name": "job"}, idempotency_key="k"), calls(5)) for _ in range(20))
    )
    assert len({s.job for s in made}) == 1
    assert [s.created for s in made].count(True) == 1
    assert {s.total for s in made} == {5}


async def test_a_job_without_tasks_is_completed_at_once__PL_5(rig: Rig) -> None:
    submitted = await rig.submit([])
    row = rig.job(submitted.job)
    assert (row["state"], row["total"]) == ("completed", 0)
    assert row["finished_at"] is not None


async def test_a_task_after_one_that_the_job_does_not_have_is_refused_whole(rig: Rig) -> None:
    with pytest.raises(Conflict, match="comes after 'nobody'"):
        await rig.submit([Plan(Call(name="a")), Plan(Call(name="b"), after="nobody")])
    assert rig.tables.read("SELECT 1 FROM jobs") == []
    assert (await rig.submit(calls(1))).total == 1


async def test_an_unknown_job_is_not_found(rig: Rig) -> None:
    known = (await rig.submit(calls(1))).job
    unknown = known.__class__(int=known.int ^ 1)
    for verb in (rig.ledger.pause, rig.ledger.resume, rig.ledger.cancel, rig.ledger.retry):
        with pytest.raises(NotFound):
            await verb(unknown)


async def test_a_big_job_is_leasable_only_when_whole_trap_8__PL_3(rig: Rig, worker: Worker) -> None:
    seen: list[int] = []
    loop = asyncio.get_running_loop()

    def plans() -> Iterator[Plan]:
        for i, plan in enumerate(calls(BIG)):
            if i == BIG - 1:  # all but the last chunk is on the disk by now
                seen.append(asyncio.run_coroutine_threadsafe(worker.lease(), loop).result(30).__len__())
            yield plan

    submitted = await rig.submit(plans())
    assert submitted.total == BIG
    assert seen == [0]
    assert rig.job(submitted.job)["queued"] == BIG
    assert len(await worker.lease(10)) == 10


async def test_a_plan_that_fails_in_the_middle_of_a_big_job_leaves_nothing__PL_3(rig: Rig, worker: Worker) -> None:
    def plans() -> Iterator[Plan]:
        yield from calls(BIG)
        raise ValueError("the source broke")

    with pytest.raises(ValueError, match="the source broke"):
        await rig.submit(plans(), key="k")
    assert await worker.lease() == []
    again = await rig.submit(calls(3), key="k")  # a dead submission does not hold its key
    assert again.created
    removed = 0
    while (swept := await rig.ledger.sweep()).more:
        removed += swept.unfinished_jobs_removed
    assert removed + swept.unfinished_jobs_removed == 1
    assert len(rig.tables.read("SELECT 1 FROM jobs")) == 1
    assert len(rig.tables.read("SELECT 1 FROM tasks")) == 3
    assert not (await rig.submit(calls(3), key="k")).created


async def test_a_repeat_of_a_big_job_that_is_being_written_gets_its_whole_size__PL_3(rig: Rig) -> None:
    loop = asyncio.get_running_loop()
    repeats: list[asyncio.Task[Submitted]] = []

    def plans() -> Iterator[Plan]:
        for i, plan in enumerate(calls(BIG)):
            if i == BIG - 1:
                loop.call_soon_threadsafe(
                    lambda: repeats.append(
                        asyncio.ensure_future(
                            rig.ledger.submit(NewJob("rig", {"name": "job"}, idempotency_key="k"), calls(BIG))
                        )
                    )
                )
            yield plan

    first = await rig.ledger.submit(NewJob("rig", {"name": "job"}, idempotency_key="k"), plans())
    while not repeats:
        await asyncio.sleep(0)
    repeat = await repeats[0]
    assert (repeat.job, repeat.total, repeat.created) == (first.job, BIG, False)


async def test_a_key_planned_twice_far_apart_delays_no_other_task(rig: Rig, worker: Worker) -> None:
    """The repeated task is the first one; its followers come after that one."""
    plans = [*calls(BIG), Plan(Call(name="t0")), Plan(Call(name="last"), after="t0")]
    submitted = await rig.submit(plans)
    assert submitted.total == BIG + 1
    tasks = rig.tasks(submitted.job)
    assert tasks["last"]["after"] == tasks["t0"]["id"]


async def test_pages_wait_for_the_page_before__PL_10(rig: Rig) -> None:
    submitted = await rig.submit(chain("p1", "p2", "p3"))
    assert rig.states(submitted.job) == {"p1": "ready", "p2": "held", "p3": "held"}


async def test_hosts_of_one_domain_share_its_lane_once_a_rule_sets_that(rig: Rig) -> None:
    await rig.submit([Plan(Call(name="before", where="www.example.com"))])
    rig.catalog.name_lanes_by(lambda name: "example.com" if name.endswith("example.com") else name)
    await rig.submit([Plan(Call(name=where, where=where)) for where in ("www.example.com", "m.example.com", "api")])
    used = {row["name"] for row in rig.tables.read("SELECT name FROM lanes")}
    assert used == {"www.example.com", "example.com", "api"}


async def test_a_job_that_does_not_fit_its_queue_is_refused_whole__SC_1(rig: Rig, worker: Worker) -> None:
    await rig.submit(calls(6), most_queued=10)
    before = rig.everything()
    with pytest.raises(Busy, match="room for 4"):
        await rig.submit(calls(5), most_queued=10)
    assert rig.everything() == before
    await rig.submit(calls(4), most_queued=10)
    await rig.submit(calls(7))  # another kind of job, which has no such limit
    (lease,) = await worker.lease(1)
    await worker.complete([lease])
    with pytest.raises(Busy):
        await rig.submit(calls(1), most_queued=10)


async def test_a_repeat_is_the_same_job_however_full_the_queue_is__SC_1(rig: Rig) -> None:
    first = await rig.submit(calls(10), most_queued=10, key="k")
    assert (await rig.submit(calls(10), most_queued=10, key="k")).job == first.job


async def test_twenty_submissions_at_once_do_not_overfill_a_queue__SC_1(rig: Rig) -> None:
    new = NewJob("rig", {"name": "job"}, JobLimits(most_queued=10))
    ends = await asyncio.gather(*(rig.ledger.submit(new, calls(3)) for _ in range(20)), return_exceptions=True)
    assert sum(isinstance(end, Submitted) for end in ends) == 3
    assert sum(isinstance(end, Busy) for end in ends) == 17
    assert sum(row["queued"] for row in rig.tables.read("SELECT queued FROM jobs")) == 9


async def test_a_job_is_refused_when_as_many_wait_as_may_whatever_their_tasks(rig: Rig, worker: Worker) -> None:
    for tasks in (5, 1, 3):
        await rig.submit(calls(tasks), most_waiting_jobs=3)
    before = rig.everything()
    with pytest.raises(Busy, match="3 jobs of rig wait"):
        await rig.submit(calls(1), most_waiting_jobs=3)
    assert rig.everything() == before
    assert (await rig.submit([], most_waiting_jobs=3)).total == 0  # it waits for nothing
    (lease,) = await worker.lease(1)
    await rig.submit(calls(1), most_waiting_jobs=3)
    await worker.settle(lease, TaskState.WAITING, wait=60.0, error="later")
    with pytest.raises(Busy):  # one that has begun and waits again makes no room and takes none
        await rig.submit(calls(1), most_waiting_jobs=3)


async def test_a_paused_job_that_never_began_waits_and_an_ended_one_does_not(rig: Rig) -> None:
    paused, gone = [(await rig.submit(calls(1), most_waiting_jobs=2)).job for _ in range(2)]
    await rig.ledger.pause(paused)
    with pytest.raises(Busy):
        await rig.submit(calls(1), most_waiting_jobs=2)
    await rig.ledger.cancel(gone)
    await rig.submit(calls(1), most_waiting_jobs=2)


async def test_of_twenty_jobs_at_once_no_more_wait_than_may(rig: Rig) -> None:
    new = NewJob("rig", {"name": "job"}, JobLimits(most_waiting_jobs=3))
    ends = await asyncio.gather(*(rig.ledger.submit(new, calls(2)) for _ in range(20)), return_exceptions=True)
    assert sum(isinstance(end, Submitted) for end in ends) == 3
    assert sum(isinstance(end, Busy) for end in ends) == 17


class LateAfter:
    """Lets a minute pass after this number of chunks."""

    def __init__(self, rig: Rig, chunks: int) -> None:
        self._rig = rig
        self._left = chunks
        place_faults(rig, self)

    def at(self, point: str) -> None:
        self._left -= point == "chunk-written"
        if point == "chunk-written" and self._left == 0:
            self._rig.pass_time(61)


@pytest.mark.parametrize("chunks", [1, 3])
async def test_a_submission_that_stood_still_is_given_up(
    rig: Rig, monkeypatch: pytest.MonkeyPatch, chunks: int
) -> None:
    """In the middle, or when only its opening was left: the sweep may be removing it already."""
    monkeypatch.setattr(jobs, "CHUNK", 4)
    monkeypatch.setattr(jobs, "IN_ONE_GO", 8)
    LateAfter(rig, chunks)
    with pytest.raises(Conflict, match="stood still"):
        await rig.ledger.submit(NewJob("rig", {"name": "big"}), calls(12))
    while (await rig.ledger.sweep()).more:
        pass
    assert rig.tables.read("SELECT id FROM jobs") == []
    assert rig.tables.read("SELECT id FROM tasks") == []
    assert (await rig.submit(calls(12))).total == 12
