"""One open task for each key over all jobs, for kinds that want it: a second one is skipped and names the first."""

import asyncio
from collections.abc import Iterator
from datetime import UTC, datetime
from uuid import UUID

import pytest

from forager.core.ledger import NewJob
from forager.core.states import TaskState
from forager.core.task import Plan
from forager.ledger.rules import jobs as rules_jobs
from tests.support.rig import Rig, Worker
from tests.support.rig_pipelines import Call, SoleCall


def sole(*names: str) -> list[Plan]:
    return [Plan(SoleCall(name=name)) for name in names]


def named(rig: Rig, job: UUID, key: str) -> tuple[object, ...]:
    row = rig.tasks(job)[key]
    facts = rig.facts(row) or {}
    return TaskState(row["state"]).name.lower(), row["reason"], facts.get("joined")


async def test_a_second_task_for_an_open_key_is_skipped_and_names_the_first(rig: Rig, worker: Worker) -> None:
    first = (await rig.submit(sole("a", "b"))).job
    second = (await rig.submit(sole("a", "c"))).job
    name = rig.task_id(first, "a")
    assert named(rig, second, "a") == ("skipped", "joined", str(name))
    assert rig.tasks(second)["a"]["error"] == f"Task {name} is open for the same key."
    row = rig.job(second)
    assert (row["total"], row["queued"], row["skipped"], row["state"]) == (2, 1, 1, "queued")
    assert sorted(await worker.drain()) == ["a", "b", "c"]
    assert rig.job(second)["state"] == "completed"


async def test_a_job_whose_tasks_are_all_joined_ends_at_once(rig: Rig) -> None:
    await rig.submit(sole("a"))
    second = (await rig.submit(sole("a"))).job
    assert (rig.job(second)["state"], rig.job(second)["finished_at"] is not None) == ("completed", True)
    assert [c.op for c in await rig.ledger.changes(0, 100, kinds=["job"], job=second)] == ["created", "ended"]


async def test_when_the_first_has_ended_the_key_is_free_however_it_ended(rig: Rig, worker: Worker) -> None:
    for state in (TaskState.COMPLETED, TaskState.FAILED, TaskState.SKIPPED):
        job = (await rig.submit(sole("a"))).job
        (lease,) = await worker.lease()
        assert named(rig, (await rig.submit(sole("a"))).job, "a")[0] == "skipped"
        await worker.settle(lease, state, error=None if state is TaskState.COMPLETED else "no")
        assert rig.states(job) == {"a": state.name.lower()}
    cancelled = (await rig.submit(sole("a"))).job
    await rig.ledger.cancel(cancelled)
    job = (await rig.submit(sole("a"))).job
    assert rig.states(job) == {"a": "ready"}


async def test_waiting_and_held_tasks_are_open_too(rig: Rig, worker: Worker) -> None:
    await rig.submit([*sole("a"), Plan(SoleCall(name="b"), after="a")])
    (lease,) = await worker.lease()
    await worker.settle(lease, TaskState.WAITING, wait=60.0, error="later")
    second = (await rig.submit(sole("a", "b"))).job
    assert rig.states(second) == {"a": "skipped", "b": "skipped"}


async def test_a_waiting_task_becomes_due_with_the_task_that_joins_it(rig: Rig, worker: Worker) -> None:
    now = await rig.ledger.now_ms()
    later, sooner = (datetime.fromtimestamp(now / 1000 + seconds, UTC) for seconds in (9_000, 3_000))
    job = (await rig.submit([Plan(SoleCall(name=name), due=later) for name in ("a", "b", "c")])).job
    assert not await worker.lease()
    await rig.submit(sole("a"))
    await rig.submit([Plan(SoleCall(name="b"), due=sooner)])
    assert [lease.key for lease in await worker.lease()] == ["a"]
    due = {key: row["due"] for key, row in rig.tasks(job).items()}
    assert (due["b"], due["c"]) == (round(sooner.timestamp() * 1000), round(later.timestamp() * 1000))


async def test_a_joining_task_of_a_recheck_or_a_task_does_not_change_the_due_time__PR_6(
    rig: Rig, worker: Worker
) -> None:
    later = datetime.fromtimestamp(await rig.ledger.now_ms() / 1000 + 9_000, UTC)
    parent = (await rig.submit([Plan(Call(name="parent"))])).job
    (lease,) = await worker.lease()
    job = (await rig.submit([Plan(SoleCall(name=name), due=later) for name in ("a", "b", "c")])).job
    new = NewJob("rig", {"name": "standing"}, idempotency_key=" standing", standing=True)
    standing = (await rig.ledger.append(new, sole("a"))).job
    await rig.ledger.append(new, sole("a", "b"), again=True)
    await worker.settle(lease, tasks=sole("c"))
    assert rig.states(standing) == {"a": "skipped", "b": "skipped"}
    assert rig.states(parent) == {"parent": "completed", "c": "skipped"}
    assert not await worker.lease()
    assert {row["due"] for row in rig.tasks(job).values()} == {round(later.timestamp() * 1000)}


async def test_a_task_behind_a_predecessor_makes_nothing_due(rig: Rig) -> None:
    later = datetime.fromtimestamp(await rig.ledger.now_ms() / 1000 + 9_000, UTC)
    job = (await rig.submit([Plan(SoleCall(name="b"), due=later)])).job
    second = (await rig.submit([*sole("a"), Plan(SoleCall(name="b"), after="a")])).job
    assert rig.states(second) == {"a": "ready", "b": "skipped"}
    assert rig.tasks(job)["b"]["due"] == round(later.timestamp() * 1000)


async def test_a_retry_keeps_its_delay_when_another_task_joins_it(rig: Rig, worker: Worker) -> None:
    await rig.submit(sole("a"))
    (lease,) = await worker.lease()
    await worker.settle(lease, TaskState.WAITING, wait=3_000.0, error="later")
    await rig.submit(sole("a"))
    assert not await worker.lease()


async def test_other_kinds_do_not_care(rig: Rig) -> None:
    await rig.submit(sole("a"))
    job = (await rig.submit([Plan(Call(name="a"))])).job
    assert rig.states(job) == {"a": "ready"}
    assert len(rig.tables.read("SELECT * FROM open_keys")) == 1


async def test_children_and_what_is_appended_join_too(rig: Rig, worker: Worker) -> None:
    parent = (await rig.submit([Plan(Call(name="parent"))])).job
    (lease,) = await worker.lease()
    await rig.submit(sole("a", "b"))
    await worker.settle(lease, tasks=sole("a", "z"))
    assert rig.states(parent) == {"a": "skipped", "parent": "completed", "z": "ready"}
    new = NewJob("rig", {"name": "standing"}, idempotency_key=" standing", standing=True)
    standing = await rig.ledger.append(new, sole("x"))
    await rig.ledger.append(new, sole("a", "y"))
    rig.check()
    assert rig.states(standing.job) == {"a": "skipped", "x": "ready", "y": "ready"}


async def test_what_comes_after_a_joined_task_is_skipped_with_it(rig: Rig) -> None:
    await rig.submit(sole("a"))
    plans = [*sole("a"), Plan(SoleCall(name="b"), after="a"), Plan(SoleCall(name="c"), after="b")]
    job = (await rig.submit(plans)).job
    reasons = {key: row["reason"] for key, row in rig.tasks(job).items()}
    assert reasons == {"a": "joined", "b": "after_failed", "c": "after_failed"}
    assert rig.job(job)["state"] == "completed"


async def test_a_retry_joins_if_another_job_has_the_key_by_now(rig: Rig, worker: Worker) -> None:
    first = (await rig.submit(sole("a"))).job
    (lease,) = await worker.lease()
    await worker.settle(lease, TaskState.FAILED, error="no")
    second = (await rig.submit(sole("a"))).job
    assert await rig.ledger.retry(first) == 0
    rig.check()
    assert named(rig, first, "a") == ("skipped", "joined", str(rig.task_id(second, "a")))
    assert rig.job(first)["state"] == "completed"


async def test_again_joins_if_another_job_has_the_key_by_now(rig: Rig, worker: Worker) -> None:
    new = NewJob("rig", {"name": "standing"}, idempotency_key=" standing", standing=True)
    standing = (await rig.ledger.append(new, sole("a", "b"))).job
    await worker.drain()
    await rig.submit(sole("a"))
    await rig.ledger.append(new, sole("a", "b"), again=True)
    rig.check()
    assert rig.states(standing) == {"a": "skipped", "b": "ready"}
    await worker.drain()
    await rig.ledger.append(new, sole("a", "b"), again=True)
    assert rig.states(standing) == {"a": "ready", "b": "ready"}


@pytest.fixture
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Make a handful of tasks a big job."""
    for module in (rules_jobs, rules_jobs):
        monkeypatch.setattr(module, "IN_ONE_GO", 4)
        monkeypatch.setattr(module, "CHUNK", 2)
    return iter(())


@pytest.mark.usefixtures("small_chunks")
async def test_a_big_job_that_is_written_in_chunks_joins_task_by_task(rig: Rig, worker: Worker) -> None:
    await rig.submit(sole("t1", "t5", "t8"))
    job = (await rig.submit(sole(*(f"t{n}" for n in range(9))))).job
    row = rig.job(job)
    assert (row["total"], row["queued"], row["skipped"], row["state"]) == (9, 6, 3, "queued")
    whole = (await rig.submit(sole(*(f"t{n}" for n in range(6))))).job
    assert (rig.job(whole)["state"], rig.job(whole)["skipped"]) == ("completed", 6)
    assert len(await worker.drain()) == 9


async def test_of_many_jobs_that_come_together_one_does_each_key(rig: Rig, worker: Worker) -> None:
    keys = [f"k{n}" for n in range(8)]
    jobs = await asyncio.gather(*(rig.submit(sole(*(keys if n % 2 else keys[::-1]))) for n in range(10)))
    states = [state for each in jobs for state in rig.states(each.job).values()]
    assert (states.count("ready"), states.count("skipped")) == (8, 72)
    assert sorted(await worker.drain()) == keys
