"""Tasks that must not run before a moment: new ones, children, followers; and many that are due at once."""

from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest

from forager.core.ledger import NewJob, Settlement, Want
from forager.core.states import TaskState
from forager.core.task import Plan
from forager.ledger.rules import scheduling
from tests.support.rig import Rig, Worker
from tests.support.rig_pipelines import Call, calls

HOUR = 3_600.0


async def moment(rig: Rig, seconds: float) -> datetime:
    return await rig.ledger.now() + timedelta(seconds=seconds)


async def later(rig: Rig, name: str, seconds: float, *, after: str | None = None, where: str = "api") -> Plan:
    return Plan(Call(name=name, where=where), after=after, due=await moment(rig, seconds))


async def keys(worker: Worker) -> list[str]:
    return sorted(lease.key for lease in await worker.lease())


async def append(rig: Rig, *plans: Plan) -> UUID:
    job = NewJob("rig", {"name": "standing"}, idempotency_key=" standing", standing=True)
    return (await rig.ledger.append(job, plans)).job


async def test_a_task_does_not_run_before_its_moment(rig: Rig, worker: Worker) -> None:
    job = (await rig.submit([await later(rig, "late", HOUR), *calls(1)])).job
    assert await keys(worker) == ["t0"]
    assert rig.states(job)["late"] == "waiting"
    assert not await rig.ledger.has_work(["other"], ready=True)
    rig.pass_time(HOUR - 10)
    assert await keys(worker) == []
    rig.pass_time(11)
    assert await keys(worker) == ["late"]


async def test_a_lane_without_an_owner_wakes_when_its_first_task_is_due(rig: Rig) -> None:
    await rig.submit([await later(rig, "b", 2 * HOUR), await later(rig, "a", HOUR)])
    worker = await rig.worker()
    assert worker.lanes == {}
    rig.pass_time(HOUR + 1)
    assert await worker.take_lanes() == ["api"]
    assert await keys(worker) == ["a"]


async def test_the_turn_contains_when_the_next_task_is_due(rig: Rig, worker: Worker) -> None:
    due = await moment(rig, HOUR)
    await rig.submit([Plan(Call(name="late"), due=due), *calls(1)])
    await worker.take_lanes()
    batch = await worker.cycle(most=5)
    assert batch.next_due == {worker.lanes["api"]: round(due.timestamp() * 1000)}


async def test_a_moment_that_has_passed_is_now(rig: Rig, worker: Worker) -> None:
    job = (await rig.submit([await later(rig, "t", -5.0)])).job
    assert rig.states(job) == {"t": "ready"}
    assert rig.tasks(job)["t"]["due"] is None
    assert await keys(worker) == ["t"]


async def test_a_moment_needs_a_time_zone(rig: Rig) -> None:
    with pytest.raises(ValueError, match="time zone"):
        await rig.submit([Plan(Call(name="t"), due=datetime(2030, 1, 1))])  # noqa: DTZ001 - the very mistake


async def test_children_and_what_is_appended_wait_for_their_moment_too(rig: Rig, worker: Worker) -> None:
    job = (await rig.submit(calls(1))).job
    (lease,) = await worker.lease()
    await worker.settle(lease, tasks=[await later(rig, "child", HOUR)])
    standing = await append(rig, await later(rig, "first", HOUR))
    await append(rig, await later(rig, "second", 2 * HOUR))
    assert await keys(worker) == []
    rig.pass_time(HOUR + 1)
    assert await keys(worker) == ["child", "first"]
    assert rig.states(job)["child"] == rig.states(standing)["first"] == "running"
    rig.pass_time(HOUR)
    assert await keys(worker) == ["second"]


async def test_a_follower_needs_both_its_predecessor_and_its_moment(rig: Rig, worker: Worker) -> None:
    plans = [Plan(Call(name="p1")), await later(rig, "p2", HOUR, after="p1"), await later(rig, "p3", 1.0, after="p2")]
    job = (await rig.submit(plans)).job
    (lease,) = await worker.lease()
    await worker.complete([lease])
    assert rig.states(job) == {"p1": "completed", "p2": "waiting", "p3": "held"}
    rig.pass_time(HOUR + 1)
    (lease,) = await worker.lease()
    await worker.complete([lease])
    assert rig.states(job)["p3"] == "ready"
    assert await worker.drain() == ["p3"]


async def test_the_moment_of_a_follower_holds_after_a_retry_too(rig: Rig, worker: Worker) -> None:
    job = (await rig.submit([Plan(Call(name="p1")), await later(rig, "p2", HOUR, after="p1")])).job
    (lease,) = await worker.lease()
    await worker.settle(lease, TaskState.FAILED, error="no")
    assert await rig.ledger.retry(job) == 2
    (lease,) = await worker.lease()
    await worker.complete([lease])
    assert rig.states(job)["p2"] == "waiting"
    rig.pass_time(HOUR + 1)
    assert await worker.drain() == ["p2"]


async def test_a_cancelled_job_does_not_wait_for_its_moments(rig: Rig, worker: Worker) -> None:
    job = (await rig.submit([await later(rig, "late", HOUR)])).job
    await rig.ledger.cancel(job)
    assert rig.job(job)["state"] == "cancelled"
    assert rig.states(job) == {"late": "cancelled"}


async def test_a_paused_job_runs_what_became_due_when_it_is_resumed(rig: Rig, worker: Worker) -> None:
    job = (await rig.submit([await later(rig, "late", HOUR)])).job
    await rig.ledger.pause(job)
    rig.pass_time(HOUR + 1)
    assert await keys(worker) == []
    await rig.ledger.resume(job)
    assert await keys(worker) == ["late"]


async def test_many_that_are_due_at_once_become_ready_in_pages(
    rig: Rig, worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scheduling, "PAGE", 10)
    monkeypatch.setattr(scheduling, "LEAST", 3)
    due = await moment(rig, HOUR)
    job = (await rig.submit([Plan(Call(name=f"t{i}"), due=due) for i in range(25)])).job
    rig.pass_time(HOUR + 1)
    await worker.take_lanes()
    ready: list[int] = []
    batch = await worker.cycle(most=1)
    while batch.leases:
        ready.append(25 - sum(state == "waiting" for state in rig.states(job).values()))
        batch = await worker.cycle([Settlement(lease, TaskState.COMPLETED) for lease in batch.leases], most=1)
    assert ready[:4] == [10, 20, 25, 25]
    assert rig.job(job)["completed"] == 25


async def test_a_page_is_shared_between_lanes_and_the_longest_due_go_first(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scheduling, "PAGE", 6)
    monkeypatch.setattr(scheduling, "LEAST", 4)
    many = [await later(rig, f"m{i}", HOUR, where="many") for i in range(20)]
    job = (await rig.submit([*many, await later(rig, "x", HOUR + 1, where="few")])).job
    worker = await rig.worker()
    rig.pass_time(HOUR + 5)
    await worker.take_lanes()
    batch = await rig.ledger.settle_and_lease(worker.session, [], [Want(n, 10) for n in worker.lanes.values()])
    assert sorted(lease.key[0] for lease in batch.leases) == ["m", "m", "m", "m", "x"]
    assert list(rig.states(job).values()).count("waiting") == 16
    assert set(batch.next_due) == set(worker.lanes.values())
    left = batch.next_due[worker.lanes["many"]]
    assert left is not None
    assert left <= (await rig.ledger.now()).timestamp() * 1000, "what is left is due already"


async def test_the_memory_of_moments_is_read_again_after_a_restart(rig: Rig, worker: Worker) -> None:
    if rig.clock is None:
        pytest.skip("only the embedded store remembers them outside its tables")
    from forager.ledger.sqlite.state import Flows

    await rig.submit([await later(rig, f"{where}{n}", n * HOUR, where=where) for where in "ab" for n in (3, 1, 2)])
    memory = rig.ledger._memory.flows.next_due  # type: ignore[attr-defined]
    read = Flows.read(rig.ledger._writer.db).next_due  # type: ignore[attr-defined]
    expected = round((rig.clock.now() + timedelta(seconds=HOUR)).astimezone(UTC).timestamp() * 1000)
    assert memory == read == dict.fromkeys(memory, expected)
    assert len(memory) == 2


async def test_a_task_brings_its_own_number_of_retries_to_its_lease(rig: Rig, worker: Worker) -> None:
    await rig.submit([Plan(Call(name="a"), retries=0), Plan(Call(name="b"), retries=7), Plan(Call(name="c"))])
    assert {lease.key: lease.retries for lease in await worker.lease()} == {"a": 0, "b": 7, "c": None}


async def test_a_lease_contains_how_long_its_task_has_waited_without_an_attempt(rig: Rig, worker: Worker) -> None:
    await rig.submit(calls(1))
    (lease,) = await worker.lease()
    assert lease.waited is None
    await worker.settle(lease, TaskState.WAITING, wait=3.0, burned=False, patience=HOUR)
    rig.pass_time(3.01)
    (lease,) = await worker.lease()
    assert lease.waited is not None
    assert 3_000 <= lease.waited < 3_100
