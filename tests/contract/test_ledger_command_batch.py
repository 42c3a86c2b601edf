"""Submissions that wait for one commit side by side are written together, and each is answered as if it came alone."""

import asyncio

import pytest

from forager.core.errors import Conflict
from forager.core.ids import task_uuid
from forager.core.ledger import Submitted
from forager.core.task import Plan
from tests.support.rig import Rig
from tests.support.rig_pipelines import Call, calls
from tests.support.same_commit import Writes, side_by_side

AFTER_NONE = Plan(Call(name="x"), after="none")
"""Refused before anything is written."""
TOO_BIG = Plan(Call(name="x"), rank=2**70)
"""No column can hold it: fails when the rows of all jobs are in."""


def jobs(rig: Rig) -> list[tuple[str, int, int, str]]:
    rows = rig.tables.read("SELECT public_id, total, queued, state FROM jobs ORDER BY id")
    return [(row["public_id"], row["total"], row["queued"], row["state"]) for row in rows]


async def test_they_take_one_call_and_keep_their_order(rig: Rig) -> None:
    await rig.submit(calls(1, prefix="before-"))  # the first task of a lane waits for the lane's number and queue
    counts, writes = [1, 3, 0, 2, 70], Writes(rig)
    told = await side_by_side(rig, *[rig.submit(calls(count, prefix=f"j{n}-")) for n, count in enumerate(counts)])
    assert writes.calls == 1
    assert jobs(rig)[1:] == [
        (str(each.job), count, count, "queued" if count else "completed")
        for each, count in zip(told, counts, strict=True)
    ]
    firsts = rig.tables.read(
        "SELECT public_id, j.id, min(t.id) AS first FROM tasks t JOIN jobs j ON j.id = t.job_id GROUP BY 1, 2"
    )
    first_of = {row["public_id"]: task_uuid(row["id"], row["first"]) for row in firsts}
    assert [each.first for each in told] == [first_of.get(str(each.job)) for each in told]
    worker = await rig.worker()
    assert len(await worker.drain()) == 1 + sum(counts)
    _, *created = rig.tables.read("SELECT key FROM changes WHERE op = 'created' ORDER BY id")
    assert [row["key"] for row in created] == [str(each.job) for each in told]


async def test_what_holds_inside_a_job_holds_beside_others(rig: Rig) -> None:
    """Followers, keys, limits and turns are those of its own job, whatever the others bring."""
    chain = [Plan(Call(name="a")), Plan(Call(name="b"), after="a")]
    first, second = await side_by_side(
        rig, rig.submit(chain, turn=5, max_cost=1), rig.submit(list(reversed(calls(2))) + chain, key="k")
    )
    assert rig.states(first.job) == {"a": "ready", "b": "held"}
    assert rig.states(second.job) == {"t0": "ready", "t1": "ready", "a": "ready", "b": "held"}
    assert (rig.job(first.job)["turn"], rig.job(first.job)["max_cost"]) == (5, 1)
    assert (rig.job(second.job)["turn"], rig.job(second.job)["max_cost"]) == (0, None)
    assert (await rig.submit(chain, key="k")).job == second.job
    worker = await rig.worker()
    assert sorted(lease.key for lease in await worker.lease(3)) == ["a", "t0", "t1"], "the lower turn comes first"
    assert rig.job(first.job)["running"] == 0


@pytest.mark.parametrize("plan", [AFTER_NONE, TOO_BIG], ids=["refused", "breaks"])
async def test_one_that_fails_is_undone_alone(rig: Rig, plan: Plan) -> None:
    good, refused, also = await side_by_side(rig, rig.submit(calls(1)), rig.submit([plan]), rig.submit(calls(2)))
    assert isinstance(refused, Conflict if plan is AFTER_NONE else Exception)
    assert {job[:2] for job in jobs(rig)} == {(str(good.job), 1), (str(also.job), 2)}
    worker = await rig.worker()
    assert len(await worker.drain()) == 3


async def test_of_one_key_only_one_is_created(rig: Rig) -> None:
    told = await side_by_side(
        rig, *[rig.submit(calls(2), key="k") for _ in range(3)], rig.submit(calls(1), key="other")
    )
    same, other = told[:3], told[3]
    assert sorted(each.created for each in same) == [False, False, True]
    assert {(each.job, each.total) for each in same} == {(same[0].job, 2)}
    assert other.created
    assert {job[0] for job in jobs(rig)} == {str(same[0].job), str(other.job)}


async def test_of_one_key_for_two_bodies_one_is_refused(rig: Rig) -> None:
    told = await side_by_side(
        rig, *[rig.submit(calls(2), key="k", params={"name": name}) for name in ("one", "another")]
    )
    (created,) = [each for each in told if isinstance(each, Submitted)]
    assert [type(each) for each in told if each is not created] == [Conflict]
    assert [job[0] for job in jobs(rig)] == [str(created.job)]


async def test_a_key_that_was_used_before_is_recognised_beside_new_ones(rig: Rig) -> None:
    first = await rig.submit(calls(2), key="k")
    new, again = await asyncio.gather(rig.submit(calls(1)), rig.submit(calls(2), key="k"))
    assert (new.created, again.created, again.job) == (True, False, first.job)


async def test_a_worker_that_waits_finds_them_all(rig: Rig) -> None:
    worker = await rig.worker()
    await worker.take_lanes()
    listening = asyncio.create_task(rig.ledger.work_arrived(300))
    await asyncio.sleep(0)
    told = await side_by_side(rig, *[rig.submit(calls(1, prefix=f"{n}-")) for n in range(4)])
    async with asyncio.timeout(60):
        await listening
    assert all(isinstance(each, Submitted) for each in told)
    assert len(await worker.lease(10)) == 4
