"""Jobs that are sent in parts: stored completely or not at all, each task once, no matter how often a part is
repeated."""

import pytest

from forager.core.errors import Conflict, NotFound
from forager.core.ledger import NewJob, PartsReceived
from forager.core.task import Plan
from tests.support.rig import Rig, Worker
from tests.support.rig_pipelines import Call, calls

JOB = NewJob("rig", {"name": "file"}, idempotency_key="file", until_end=True)
DAY = 24 * 3600.0


def part(first: int, count: int) -> list[Plan]:
    return [Plan(Call(name=f"t{number:03d}"), rank=number) for number in range(first, first + count)]


async def test_a_job_in_parts_can_be_leased_after_the_last_one_and_ends_by_itself(rig: Rig, worker: Worker) -> None:
    opened = await rig.ledger.open_job(JOB)
    assert (opened.total, opened.is_open, opened.created) == (0, True, True)
    job = opened.job
    assert await rig.ledger.add_part(job, 0, part(0, 3), more=True) == PartsReceived(job, 3, is_open=True)
    rig.check()
    assert await worker.lease() == []
    assert (rig.job(job)["state"], rig.job(job)["total"], rig.job(job)["queued"]) == ("planning", 3, 3)
    assert await rig.ledger.add_part(job, 3, part(3, 2), more=False) == PartsReceived(job, 5, is_open=False)
    assert await worker.drain() == ["t000", "t001", "t002", "t003", "t004"]
    row = rig.job(job)
    assert (row["state"], row["total"], row["completed"], row["queued"]) == ("completed", 5, 5, 0)
    assert [change.op for change in await rig.ledger.changes(0, 100, job=job)] == ["created", "ended"]


async def test_a_repeated_or_overlapping_part_adds_only_missing_tasks(rig: Rig, worker: Worker) -> None:
    job = (await rig.ledger.open_job(JOB)).job
    await rig.ledger.add_part(job, 0, part(0, 4), more=True)
    again = await rig.ledger.add_part(job, 0, part(0, 4), more=True)
    overlapping = await rig.ledger.add_part(job, 2, part(2, 4), more=False)
    assert (again.total, overlapping.total) == (4, 6)
    assert await rig.ledger.add_part(job, 2, part(2, 4), more=False) == PartsReceived(job, 6, is_open=False)
    assert len(await worker.drain()) == 6
    assert (await rig.ledger.add_part(job, 2, part(2, 4), more=False)).total == 6  # its answer may have been lost


@pytest.mark.parametrize("count", [4, 600])
async def test_equal_tasks_of_several_parts_count_once(rig: Rig, worker: Worker, count: int) -> None:
    job = (await rig.ledger.open_job(JOB)).job
    await rig.ledger.add_part(job, 0, part(0, count), more=True)
    twice = [*part(1, 2), *part(count, count), *part(count, 1)]
    assert (await rig.ledger.add_part(job, count, twice, more=True)).total == 2 * count
    assert (await rig.ledger.add_part(job, count, twice, more=True)).total == 2 * count
    last = [*part(0, 1), *part(2 * count, 1)]
    whole = PartsReceived(job, 2 * count + 1, is_open=False)
    assert await rig.ledger.add_part(job, 2 * count, last, more=False) == whole
    assert await rig.ledger.add_part(job, 2 * count, last, more=False) == whole, "its answer may have been lost"
    rig.check()
    assert len(set(await worker.drain())) == 2 * count + 1
    assert (rig.job(job)["state"], rig.job(job)["completed"]) == ("completed", 2 * count + 1)
    assert await rig.ledger.add_part(job, 2 * count, last, more=False) == whole
    with pytest.raises(Conflict, match="sent whole"):
        await rig.ledger.add_part(job, 2 * count, [*last, *part(2 * count + 1, 1)], more=False)


async def test_a_late_part_is_refused_also_if_the_running_job_has_grown(rig: Rig, worker: Worker) -> None:
    job = (await rig.ledger.open_job(JOB)).job
    await rig.ledger.add_part(job, 0, part(0, 1), more=False)
    (lease,) = await worker.lease()
    await worker.settle(lease, tasks=part(1, 3))
    assert rig.job(job)["total"] == 4
    with pytest.raises(Conflict, match="sent whole, with 4 tasks"):
        await rig.ledger.add_part(job, 1, part(9, 1), more=False)


async def test_a_part_that_leaves_a_gap_or_comes_too_late_is_refused(rig: Rig) -> None:
    job = (await rig.ledger.open_job(JOB)).job
    await rig.ledger.add_part(job, 0, part(0, 2), more=True)
    with pytest.raises(Conflict, match=r"has 2 tasks; this part begins at 5. Send from 2"):
        await rig.ledger.add_part(job, 5, part(5, 1), more=True)
    await rig.ledger.add_part(job, 2, part(2, 1), more=False)
    with pytest.raises(Conflict, match="sent whole, with 3 tasks"):
        await rig.ledger.add_part(job, 3, part(3, 1), more=True)
    assert rig.job(job)["total"] == 3


async def test_a_job_that_is_opened_again_continues_where_it_stopped(rig: Rig, worker: Worker) -> None:
    job = (await rig.ledger.open_job(JOB)).job
    await rig.ledger.add_part(job, 0, part(0, 2), more=True)
    assert await rig.ledger.open_job(JOB) == PartsReceived(job, 2, is_open=True)
    await rig.ledger.add_part(job, 2, part(2, 1), more=False)
    assert await rig.ledger.open_job(JOB) == PartsReceived(job, 3, is_open=False)
    await worker.lease()
    rig.pass_time(2 * DAY)
    assert (await rig.ledger.open_job(JOB)).job == job  # its key outlives the day of other keys


async def test_after_its_end_the_same_key_names_a_new_job(rig: Rig, worker: Worker) -> None:
    first = (await rig.ledger.open_job(JOB)).job
    await rig.ledger.add_part(first, 0, part(0, 1), more=False)
    await worker.drain()
    second = await rig.ledger.open_job(JOB)
    assert (second.created, second.total, second.is_open) == (True, 0, True)
    assert second.job != first
    await rig.ledger.add_part(second.job, 0, part(0, 1), more=False)
    assert await worker.drain() == ["t000"]


async def test_a_whole_job_keeps_a_key_until_its_end_too(rig: Rig, worker: Worker) -> None:
    first = await rig.ledger.submit(JOB, calls(1))
    assert (await rig.ledger.submit(JOB, calls(1))).job == first.job
    rig.pass_time(2 * DAY)
    assert (await rig.ledger.submit(JOB, calls(1))).job == first.job
    await worker.drain()
    assert (await rig.ledger.submit(JOB, calls(1))).created


async def test_a_job_whose_sender_stays_away_is_removed_and_can_be_sent_again(rig: Rig) -> None:
    job = (await rig.ledger.open_job(JOB)).job
    await rig.ledger.add_part(job, 0, part(0, 3), more=True)
    rig.pass_time(61)
    with pytest.raises(Conflict, match="stood still"):
        await rig.ledger.add_part(job, 3, part(3, 1), more=False)
    anew = await rig.ledger.open_job(JOB)
    assert (anew.created, anew.total) == (True, 0)
    while (await rig.ledger.sweep()).more:
        pass
    with pytest.raises(NotFound):
        await rig.ledger.add_part(job, 3, part(3, 1), more=False)
    await rig.ledger.add_part(anew.job, 0, part(0, 4), more=False)
    assert len(await (await rig.worker()).drain()) == 4


async def test_the_same_key_for_other_parameters_is_a_conflict(rig: Rig) -> None:
    await rig.ledger.open_job(JOB)
    with pytest.raises(Conflict, match="other parameters"):
        await rig.ledger.open_job(NewJob("rig", {"name": "other"}, idempotency_key="file", until_end=True))
