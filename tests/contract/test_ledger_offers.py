"""Offered tasks: logged when they are queued, for a minute only claimed by number, then by any lease."""

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime
from uuid import UUID

import pytest

from forager.core.ids import task_numbers
from forager.core.ledger import Lease, NewJob, Want
from forager.core.pipeline import JobLimits
from forager.core.states import TaskState
from forager.core.task import Plan
from forager.ledger.postgres.submit import OFFERED_AT_ONCE
from forager.ledger.postgres.tasks import OFFERED_MS
from forager.ledger.rules.jobs import IN_ONE_GO
from tests.support.rig import Rig, Worker
from tests.support.rig_pipelines import LoudCall, SoleCall

MINUTE = OFFERED_MS / 1000
on_postgres = pytest.mark.parametrize("rig", ["postgres"], indirect=True)


@pytest.fixture(autouse=True)
def offered(rig: Rig) -> None:
    """Loud calls are offered."""
    states = rig.catalog.logged_states[LoudCall.kind] | {TaskState.READY}
    rig.catalog.logged_states = {LoudCall.kind: states}
    rig.catalog._logged_states, rig.catalog.offered = states, frozenset({LoudCall.kind})


def loud(*names: str, where: str = "api") -> list[Plan]:
    return [Plan(LoudCall(name=name, where=where)) for name in names]


async def submit(rig: Rig, plans: Sequence[Plan], **limits: int) -> UUID:
    submitted = await rig.ledger.submit(NewJob("loud", {"name": "job"}, JobLimits(**limits)), plans)
    rig.check()
    return submitted.job


async def told(rig: Rig, most: int = 1_000) -> list[tuple[str, int]]:
    """Return keys and numbers of the tasks that are queued according to the log."""
    changes = [c for c in await rig.ledger.changes(0, most) if c.kind == "task" and c.op == "queued"]
    numbers = [task_numbers(UUID(c.key)) for c in changes]
    return [(str((c.body or {})["key"]), n[1]) for c, n in zip(changes, numbers, strict=True) if n is not None]


async def joined(rig: Rig, lane: str = "api") -> Worker:
    """A session that has the lane, whether or not it has work."""
    worker = await rig.worker()
    taken = await rig.ledger.take_lane(worker.session, lane)
    worker.lanes[lane] = getattr(taken, "id", 0)
    return worker


async def claim(worker: Worker, tasks: Sequence[int], most: int = 100) -> list[Lease]:
    """Lease only these tasks, as a consumer of their messages does."""
    wants = [Want(worker.lanes["api"], min(most, len(tasks)), tasks=tasks)]
    batch = await worker.rig.ledger.settle_and_lease(worker.session, [], wants)
    worker.rig.check()
    return list(batch.leases)


@on_postgres
async def test_a_queued_task_is_announced_and_claimed_by_its_number_once__RV_4(rig: Rig) -> None:
    job = await submit(rig, loud("a", "b"))
    assert [key for key, _ in await told(rig)] == ["a", "b"]
    worker = await joined(rig)
    assert not await worker.lease(), "it is left to workers that have its number"
    numbers = [number for _, number in await told(rig)]
    leases = await claim(worker, numbers)
    assert [lease.key for lease in leases] == ["a", "b"]
    assert not await claim(await joined(rig), numbers), "a repeated message finds nothing"
    await worker.complete(leases)
    assert not await claim(worker, numbers)
    assert rig.job(job)["completed"] == 2
    assert len(await told(rig)) == 2


@on_postgres
async def test_after_a_minute_any_lease_takes_it__RV_4(rig: Rig) -> None:
    await submit(rig, loud("a"))
    rig.pass_time(MINUTE - 5)
    worker = await rig.worker()
    assert not await worker.lease()
    rig.pass_time(6)
    assert [lease.key for lease in await worker.lease()] == ["a"]


@on_postgres
async def test_two_consumers_of_one_message_claim_its_task_once(rig: Rig) -> None:
    rig.catalog.shared = frozenset({"api"})
    await submit(rig, loud(*(str(n) for n in range(50))))
    numbers = [number for _, number in await told(rig)]
    consumers = [await joined(rig) for _ in range(3)]
    wants = [Want(each.lanes["api"], 50, tasks=numbers) for each in consumers]
    batches = await asyncio.gather(
        *(rig.ledger.settle_and_lease(c.session, [], [w]) for c, w in zip(consumers, wants, strict=True))
    )
    keys = [lease.key for batch in batches for lease in batch.leases]
    assert len(keys) == len(set(keys)) == 50


@on_postgres
async def test_a_retry_comes_back_by_the_clock_and_not_by_a_late_message__RV_4(rig: Rig) -> None:
    await submit(rig, loud("a"))
    ((_, number),) = await told(rig)
    worker = await joined(rig)
    (lease,) = await claim(worker, [number])
    await worker.settle(lease, TaskState.WAITING, wait=20.0)
    assert not await claim(worker, [number])
    rig.pass_time(21)
    assert [again.attempt for again in await worker.lease()] == [2]


@on_postgres
@pytest.mark.parametrize("limits", [{"concurrency": 2}, {"batch_size": 2}, {"max_cost": 2}])
async def test_a_claim_obeys_the_limits_of_its_job_and_leaves_the_rest_to_any_lease(
    rig: Rig, limits: dict[str, int]
) -> None:
    job = await submit(rig, loud("a", "b", "c"), **limits)
    worker = await joined(rig)
    leases = await claim(worker, [number for _, number in await told(rig)])
    assert [lease.key for lease in leases] == ["a", "b"]
    await worker.complete(leases)
    rest = await worker.lease()
    assert [lease.key for lease in rest] == ([] if "max_cost" in limits else ["c"])
    await worker.complete(rest)
    assert rig.job(job)["finished_at"] is not None


@on_postgres
async def test_places_of_the_lane_bound_a_claim_and_a_pause_forbids_it(rig: Rig) -> None:
    job = await submit(rig, loud("a", "b", "c"))
    worker = await joined(rig)
    numbers = [number for _, number in await told(rig)]
    assert [lease.key for lease in await claim(worker, numbers, most=1)] == ["a"]
    await rig.ledger.pause(job)
    assert not await claim(worker, numbers)
    assert not await worker.lease()
    await rig.ledger.resume(job)
    assert [lease.key for lease in await worker.lease()] == ["b", "c"]


@on_postgres
async def test_an_offer_that_ends_wakes_the_owner_of_the_lane(rig: Rig) -> None:
    await submit(rig, loud("a"))
    ((_, number),) = await told(rig)
    owner, consumer = await rig.worker(), await rig.worker()
    await rig.ledger.end_offers([number])
    rig.check()
    assert await owner.take_lanes() == ["api"]
    assert await consumer.take_lanes() == []
    assert [lease.key for lease in (await owner.cycle(most=1)).leases] == ["a"]
    await rig.ledger.end_offers([number])


@on_postgres
async def test_children_are_offered_but_not_those_that_wait_for_something(rig: Rig) -> None:
    await submit(rig, loud("a"))
    ((_, number),) = await told(rig)
    worker = await joined(rig)
    (lease,) = await claim(worker, [number])
    children = [*loud("b"), Plan(LoudCall(name="c"), after="b")]
    await worker.settle(lease, TaskState.COMPLETED, tasks=children)
    assert [key for key, _ in await told(rig)] == ["a", "b"]
    assert not await worker.lease()
    (child,) = await claim(worker, [number for _, number in await told(rig)])
    await worker.complete([child])
    assert [lease.key for lease in await worker.lease()] == ["c"], "released, so ready for all"


@on_postgres
async def test_a_task_made_due_by_a_joining_one_is_leased_although_others_are_offered(rig: Rig) -> None:
    later = datetime.fromtimestamp(await rig.ledger.now_ms() / 1000 + 9_000, UTC)
    await rig.submit([Plan(SoleCall(name="a", where="other"), due=later)])
    await submit(rig, [*loud("b"), Plan(SoleCall(name="a", where="other"))])
    assert [key for key, _ in await told(rig)] == ["b"]
    assert [lease.key for lease in await (await rig.worker()).lease()] == ["a"]


@on_postgres
async def test_a_cancelled_job_has_nothing_to_claim(rig: Rig) -> None:
    job = await submit(rig, loud("a"))
    ((_, number),) = await told(rig)
    worker = await joined(rig)
    await rig.ledger.cancel(job)
    assert not await claim(worker, [number])
    assert rig.states(job) == {"a": "cancelled"}


@on_postgres
async def test_a_large_job_is_offered_a_window_at_a_time_and_each_task_once(rig: Rig) -> None:
    total = IN_ONE_GO + 1
    await rig.ledger.submit(NewJob("loud", {"name": "job"}), (each for each in loud(*map(str, range(total)))))
    assert await told(rig) == [], "nothing is offered while it is written"
    await rig.ledger.sweep()
    first = await told(rig, most=10_000)
    assert len(first) == OFFERED_AT_ONCE
    await rig.ledger.sweep()
    assert len(await told(rig, most=10_000)) == OFFERED_AT_ONCE, "half of them must be taken first"
    worker = await joined(rig)
    claimed = await claim(worker, [number for _, number in first[: OFFERED_AT_ONCE // 2]], most=OFFERED_AT_ONCE)
    assert len(claimed) == OFFERED_AT_ONCE // 2
    await rig.ledger.sweep()
    second = await told(rig, most=10_000)
    assert len(second) == OFFERED_AT_ONCE * 3 // 2
    rig.pass_time(MINUTE + 1)
    direct = await worker.lease(most=500)
    assert len(direct) == 500, "any worker takes tasks whose offer has ended"
    await rig.ledger.sweep()
    published = await told(rig, most=10_000)
    assert len({number for _, number in published}) == len(published), "no task is published twice"


@pytest.mark.parametrize("rig", ["sqlite"], indirect=True)
async def test_an_embedded_store_offers_nothing(rig: Rig) -> None:
    await submit(rig, loud("a"))
    assert await told(rig) == []
    worker = await rig.worker()
    await rig.ledger.end_offers([1])
    assert [lease.key for lease in await claim(worker, [1])] == ["a"], "any lease takes it at once"
