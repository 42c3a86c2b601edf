"""Guarantees of the scrape service for tasks and jobs, in every state that they pass through."""

from collections.abc import Iterator, Sequence
from typing import Any
from uuid import UUID

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forager.core.ledger import Lease
from forager.core.states import TaskState
from tests.support.held_service import TYPES, Held, held_still, new_host, requests, without_callback
from tests.support.scrape import API

EXAMPLES = settings(max_examples=100, deadline=None)


@pytest.fixture(scope="module")
def held(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Held]:
    with held_still(tmp_path_factory.mktemp("scrape")) as service:
        yield service


# Feature: scraping-microservices, Property 7: Task status retrieval reflects current state
@EXAMPLES
@given(state=st.sampled_from(["queued", "running", "completed", "failed"]), said=requests())
def test_a_task_shows_its_state_and_only_a_completed_one_a_result__SC_P7(
    held: Held, state: str, said: dict[str, Any]
) -> None:
    host = new_host()

    async def bring_it_there() -> dict[str, Any]:
        made = await held.call("POST", API, json={**said, "target_url": f"https://{host}/page"})
        if state != "queued":
            (lease,) = await held.lease(host, 5)
            if state != "running":
                await held.settle(lease, TaskState[state.upper()])
        return dict(await held.service.data(f"/{made.json()['data']['task_id']}"))

    seen = held.run(bring_it_there())
    assert seen["status"] == state
    assert (seen["result"] is not None) is (state == "completed")
    assert (seen["error"] is not None) is (state == "failed")
    assert (seen["started_at"] is not None) is (state != "queued")
    assert (seen["completed_at"] is not None) is (state in ("completed", "failed"))


# Feature: scraping-microservices, Property 8: Batch job creates one task per target
@EXAMPLES
@given(targets=st.lists(requests().map(without_callback), min_size=1, max_size=100), twice=st.booleans())
def test_a_batch_has_one_task_for_each_target__SC_P8(held: Held, targets: list[dict[str, Any]], twice: bool) -> None:
    if twice:  # the same page again is another task
        targets = [*targets, targets[0]][-100:]

    async def create() -> tuple[httpx.Response, list[Any]]:
        made = await held.call("POST", f"{API}/batch", json={"targets": targets})
        job = UUID(made.json()["data"]["job_id"])
        return made, (await held.service.app.reports.tasks(job, limit=200)).items

    made, tasks = held.run(create())
    assert made.status_code == 202
    assert made.json()["data"]["total_tasks"] == len(targets) == len(tasks)
    assert len({task.id for task in tasks}) == len(targets)


outcomes = st.one_of(
    st.lists(st.sampled_from([TaskState.COMPLETED, TaskState.FAILED]), min_size=1, max_size=30),
    st.integers(1, 90).map(lambda count: [TaskState.COMPLETED] * count),
)


async def _run_batch(held: Held, count: int, ends: Sequence[TaskState]) -> tuple[str, list[Lease]]:
    """A batch whose first tasks have ended in these states; the tasks after them are leased where the state is None."""
    host = new_host()
    job = await held.service.batch(
        [{"target_type": min(TYPES), "target_url": f"https://{host}/{n}", "workspace_id": "acme"} for n in range(count)]
    )
    leases = list(await held.lease(host, len(ends))) if ends else []
    assert len(leases) == len(ends)
    for lease, end in zip(leases, ends, strict=True):
        if end is not TaskState.RUNNING:
            await held.settle(lease, end)
    return job, leases


# Feature: scraping-microservices, Property 9: Job status derived from task outcomes
@EXAMPLES
@given(ends=outcomes)
def test_a_jobs_status_follows_from_its_tasks__SC_P9(held: Held, ends: list[TaskState]) -> None:
    async def seen() -> dict[str, Any]:
        job, _ = await _run_batch(held, len(ends), ends)
        return dict(await held.service.data(f"/jobs/{job}"))

    job = held.run(seen())
    completed, failed = ends.count(TaskState.COMPLETED), ends.count(TaskState.FAILED)
    assert (job["completed_tasks"], job["failed_tasks"], job["total_tasks"]) == (completed, failed, len(ends))
    wanted = "completed" if failed == 0 else "failed" if completed == 0 else "partially_completed"
    assert job["status"] == wanted
    assert job["finished_at"] is not None


# Feature: scraping-microservices, Property 10: Job results contain only completed tasks
@EXAMPLES
@given(ends=outcomes, more=st.integers(0, 5))
def test_results_are_those_of_the_completed_tasks__SC_P10(held: Held, ends: list[TaskState], more: int) -> None:
    async def seen() -> tuple[dict[str, Any], list[dict[str, Any]], list[Any]]:
        job, _ = await _run_batch(held, len(ends) + more, ends)
        tasks = (await held.service.app.reports.tasks(UUID(job), state="completed", limit=100)).items
        return await held.service.data(f"/jobs/{job}"), await held.service.data(f"/jobs/{job}/results"), tasks

    job, results, tasks = held.run(seen())
    assert len(results) == job["completed_tasks"] == ends.count(TaskState.COMPLETED)
    assert [each["task_id"] for each in results] == [str(task.id) for task in tasks]
    assert all(each["status"] == "completed" and each["result"] for each in results)


# Feature: scraping-microservices, Property 11: Job cancellation preserves running tasks
@EXAMPLES
@given(
    ends=st.lists(st.sampled_from([TaskState.COMPLETED, TaskState.FAILED, TaskState.RUNNING]), max_size=10),
    queued=st.integers(0, 10),
)
def test_cancelling_leaves_running_tasks_alone__SC_P11(held: Held, ends: list[TaskState], queued: int) -> None:
    running = ends.count(TaskState.RUNNING)
    if queued + running == 0:
        queued = 1  # a job that has ended cannot be cancelled

    async def cancel() -> None:
        job, leases = await _run_batch(held, len(ends) + queued, ends)
        answer = await held.call("POST", f"{API}/jobs/{job}/cancel")
        assert (answer.status_code, answer.json()["data"]["status"]) == (200, "cancelled")
        await held.service.app.ledger.sweep()
        states = [t.state for t in (await held.service.app.reports.tasks(UUID(job), limit=100)).items]
        assert (states.count("running"), states.count("cancelled"), states.count("queued")) == (running, queued, 0)
        assert await held.lease(leases[0].task.lane(), 50) == [] if leases else True  # type: ignore[union-attr]
        for lease, end in zip(leases, ends, strict=True):
            if end is TaskState.RUNNING:  # it ends by itself, and what it found counts
                await held.settle(lease, TaskState.COMPLETED)
        seen = await held.service.data(f"/jobs/{job}")
        assert (seen["status"], seen["completed_tasks"]) == ("cancelled", ends.count(TaskState.COMPLETED) + running)
        assert seen["finished_at"] is not None

    held.run(cancel())


# Feature: scraping-microservices, Property 36: Priority queue ordering by job size
@EXAMPLES
@given(sizes=st.lists(st.integers(0, 8), min_size=2, max_size=8))
def test_smaller_jobs_come_first_and_single_pages_before_all__SC_P36(held: Held, sizes: list[int]) -> None:
    """A size of 0 stands for a single page."""
    host = new_host()

    async def order() -> list[int]:
        size_of: dict[str, int] = {}
        for size in sizes:
            target = {"target_type": min(TYPES), "target_url": f"https://{host}/", "workspace_id": "acme"}
            if size == 0:
                made = await held.call("POST", API, json=target)
                size_of[made.json()["data"]["job_id"]] = 0
            else:
                size_of[await held.service.batch([target] * size)] = size
        numbers = {
            row["id"]: size_of[row["public_id"]]
            for row in await held.service.app.ledger.database.fetch("SELECT id, public_id FROM jobs")
            if row["public_id"] in size_of
        }
        got: list[int] = []
        while leases := await held.lease(host, 1):
            got.extend(numbers[lease.job_id] for lease in leases)
        return got

    got = held.run(order())
    assert len(got) == sum(max(size, 1) for size in sizes)
    assert got == sorted(got)


# Feature: scraping-microservices, Property 37: Queue stats accuracy
@EXAMPLES
@given(moves=st.lists(st.tuples(st.sampled_from(["enqueue", "dequeue", "end"]), st.integers(1, 5)), max_size=8))
def test_the_reported_queue_is_the_real_one__SC_P37(held: Held, moves: list[tuple[str, int]]) -> None:
    host = new_host()

    async def figures() -> tuple[int, int]:
        data = (await held.call("GET", "/health")).json()["data"]
        return data["queue_depth"], data["active_workers"]

    async def move() -> None:
        queued, active = await figures()
        waiting, running = 0, list[Lease]()
        for what, count in moves:
            if what == "enqueue":
                target = {"target_type": min(TYPES), "target_url": f"https://{host}/", "workspace_id": "acme"}
                await held.service.batch([target] * count)
                waiting += count
            elif what == "dequeue":
                got = await held.lease(host, count)
                assert len(got) == min(count, waiting)
                waiting -= len(got)
                running.extend(got)
            else:
                for lease in running[:count]:
                    await held.settle(lease, TaskState.COMPLETED)
                del running[:count]
            assert await figures() == (queued + waiting, active + len(running))

    held.run(move())
