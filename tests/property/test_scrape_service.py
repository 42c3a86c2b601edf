"""What the scrape service promises of every request, over the whole API in this process and a real store.

Where a property is about states that tasks pass through, the test itself does what the engine does: it leases and
settles, so that every state is held still and looked at.
"""

import asyncio
import contextlib
import itertools
from collections.abc import Awaitable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar
from uuid import UUID

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forager.api import vital
from forager.core.http import Render
from forager.core.ledger import Lease, Session, Settlement, Want
from forager.core.states import TaskState
from forager.fetch.browser.pool import PoolStats
from forager.pipelines.scrape import Result
from forager.pipelines.scrape.extractors import EXTRACTORS
from tests.support.api import KEY
from tests.support.scrape import API, Service, open_service

T = TypeVar("T")
EXAMPLES = settings(max_examples=100, deadline=None)
TYPES = {extractor.name: sorted(extractor.fields) for extractor in EXTRACTORS}
_hosts = itertools.count(1)


@dataclass
class Held:
    """The service, and a loop that runs while an example does."""

    runner: asyncio.Runner
    service: Service
    session: Session
    lanes: dict[str, int] = field(default_factory=dict)

    def run(self, work: Awaitable[T]) -> T:
        async def inside() -> T:
            return await work

        return self.runner.run(inside())

    async def call(self, method: str, path: str, **more: Any) -> httpx.Response:
        return await self.service.client.request(method, path, **more)

    async def lease(self, host: str, most: int) -> Sequence[Lease]:
        ledger = self.service.app.ledger
        if host not in self.lanes:
            owned = await ledger.take_lane(self.session, host)
            assert owned is not None
            self.lanes[host] = owned.id
        return (await ledger.turn(self.session, [], [Want(self.lanes[host], most)])).leases

    async def settle(self, lease: Lease, state: TaskState) -> None:
        done = state is TaskState.COMPLETED
        records = (_result(lease),) if done else ()
        settlement = Settlement(lease, state, records=records, error=None if done else "not_found: no such page")
        assert not (await self.service.app.ledger.turn(self.session, [settlement], [])).fenced


@pytest.fixture(scope="module")
def held(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Held]:
    patch = pytest.MonkeyPatch()
    patch.setattr(vital, "FRESH", 0.0)
    home = tmp_path_factory.mktemp("scrape")
    with asyncio.Runner() as runner, patch.context():
        stack = contextlib.AsyncExitStack()
        service = runner.run(_enter(stack, home))
        yield Held(runner, service, runner.run(service.app.ledger.begin("test")))
        runner.run(stack.aclose())
    patch.undo()


async def _enter(stack: contextlib.AsyncExitStack, home: Any) -> Service:
    return await stack.enter_async_context(open_service(home, max_queue_depth=100_000, lease_seconds=3_600))


def _result(lease: Lease) -> Result:
    task: Any = lease.task
    return Result(
        task_key=task.key(),
        target_type=task.target_type,
        target_url=task.target_url,
        page_url=task.target_url,
        workspace_id=task.workspace_id,
        result={"job_title": f"Title {task.number}"},
        provenance={},
        pages=[task.target_url],
        rendered=False,
        fetched_at="2026-03-14T12:00:00Z",
    )


def _new_host() -> str:
    return f"h{next(_hosts)}.example"


# ── requests ──

urls = st.from_regex(r"https?://[a-z]{1,12}\.[a-z]{2,4}(/[a-z0-9]{0,8}){0,3}(\?[a-z]=[0-9]{1,3})?", fullmatch=True)
renders: st.SearchStrategy[Render] = st.sampled_from(["auto", "http", "browser"])


@st.composite
def requests(draw: st.DrawFn) -> dict[str, Any]:
    """What a caller may send."""
    kind = draw(st.sampled_from(sorted(TYPES)))
    said: dict[str, Any] = {
        "target_type": kind,
        "target_url": draw(urls),
        "workspace_id": draw(st.one_of(st.uuids().map(str), st.from_regex("[a-z0-9_-]{1,40}", fullmatch=True))),
    }
    if draw(st.booleans()):
        said["requested_fields"] = draw(st.lists(st.sampled_from(TYPES[kind]), min_size=1, max_size=8))
    if draw(st.booleans()):
        said["render"] = draw(renders)
    if draw(st.booleans()):
        said["callback_url"] = draw(st.one_of(st.none(), urls))
    return said


_WRONG: dict[str, st.SearchStrategy[Any]] = {
    "target_type": st.one_of(
        st.none(), st.integers(), st.sampled_from(["", "no_such_type", "Job Posting", "job-posting"])
    ),
    "target_url": st.one_of(
        st.none(),
        st.integers(),
        st.sampled_from(
            ["", "example.com", "ftp://example.com/", "https://", "https://u:p@example.com/", "http://a b/"]
        ),
        st.text(alphabet="abc/:.", max_size=10),
    ),
    "requested_fields": st.sampled_from([[], "job_title", ["no_such_field"], [7], {"a": 1}, ["Job Title"]]),
    "workspace_id": st.one_of(st.none(), st.integers(), st.sampled_from(["", "   ", "x" * 201, ["a"]])),
    "callback_url": st.sampled_from(["", "hooks", "file:///etc/passwd", 7, ["https://example.com/"]]),
    "render": st.sampled_from(["", "HTTP", "chrome", None, 1]),
    "unknown": st.just(1),
}


@st.composite
def wrong_requests(draw: st.DrawFn) -> tuple[dict[str, Any], str]:
    """A request with one thing wrong, and the field that is."""
    said = draw(requests())
    field_name = draw(st.sampled_from(sorted(_WRONG)))
    if field_name in ("target_type", "target_url", "workspace_id") and draw(st.booleans()):
        del said[field_name]
    else:
        said[field_name] = draw(_WRONG[field_name])
    return said, field_name


# Feature: scraping-microservices, Property 1: JSON envelope consistency
@EXAMPLES
@given(data=st.data())
def test_every_answer_is_the_one_envelope__SC_P1(held: Held, data: st.DataObject) -> None:
    method, path, body = data.draw(_calls())
    answer = held.run(held.call(method, path, content=body, headers={"Content-Type": "application/json"}))
    said = answer.json()
    assert said.keys() == {"success", "data", "error", "meta"}
    assert isinstance(said["meta"], dict)
    if answer.status_code >= 400:
        assert said["success"] is False
        assert isinstance(said["error"], str)
        assert said["error"]
    else:
        assert said["success"] is True
        assert said["error"] is None


@st.composite
def _calls(draw: st.DrawFn) -> tuple[str, str, bytes]:
    some_id = str(draw(st.uuids()))
    under = ["", "/batch", f"/{some_id}", f"/jobs/{some_id}", f"/jobs/{some_id}/results", f"/jobs/{some_id}/cancel"]
    path = draw(st.sampled_from([*(f"{API}{each}" for each in under), "/health", "/readiness", "/nowhere"]))
    content = st.one_of(
        st.binary(max_size=20),
        requests().map(_json),
        wrong_requests().map(lambda wrong: _json(wrong[0])),
        st.lists(requests().map(_plain), max_size=3).map(lambda targets: _json({"targets": targets})),
    )
    return draw(st.sampled_from(["GET", "POST", "PUT", "DELETE"])), path, draw(content)


def _json(value: Any) -> bytes:
    import orjson

    return orjson.dumps(value)


def _plain(said: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in said.items() if name != "callback_url"}


# Feature: scraping-microservices, Property 2: Readiness reflects pool state
@EXAMPLES
@given(
    available=st.integers(0, 5),
    launchable=st.integers(0, 5),
    in_use=st.integers(0, 20),
    healthy=st.integers(0, 5),
    unhealthy=st.integers(0, 5),
)
def test_ready_if_a_browser_and_a_proxy_can_be_had__SC_P2(
    held: Held, available: int, launchable: int, in_use: int, healthy: int, unhealthy: int
) -> None:
    """Without any proxy configured, none is needed; a browser that could be started counts as one."""
    pool = PoolStats(available + in_use, available, in_use, 0, 0, 0, launchable, 0)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(held.service.app.browsers, "stats", lambda: pool)
        patch.setattr(held.service.app, "proxies", _Proxies(healthy, unhealthy))
        answer = held.run(held.call("GET", "/readiness"))
    wanted = available + launchable > 0 and (healthy > 0 or healthy + unhealthy == 0)
    assert answer.status_code == (200 if wanted else 503)
    assert answer.json()["data"]["ready"] is wanted


class _Proxies:
    def __init__(self, healthy: int, unhealthy: int) -> None:
        self.usable = healthy
        self._all = healthy + unhealthy

    def __len__(self) -> int:
        return self._all

    async def list(self) -> list[Any]:
        return []


# Feature: scraping-microservices, Property 3: Request ID uniqueness
@EXAMPLES
@given(calls=st.lists(_calls(), min_size=2, max_size=6), claimed=st.uuids())
def test_every_answer_has_an_id_of_its_own__SC_P3(
    held: Held, calls: list[tuple[str, str, bytes]], claimed: UUID
) -> None:
    async def ask() -> list[httpx.Response]:
        sent = {"X-Request-ID": str(claimed)}
        return await asyncio.gather(*(held.call(m, p, content=b, headers=sent) for m, p, b in calls))

    ids = [UUID(answer.headers["X-Request-ID"]) for answer in held.run(ask())]
    assert len(set(ids)) == len(ids)
    assert claimed not in ids


# Feature: scraping-microservices, Property 4: Service key authentication
@EXAMPLES
@given(
    key=st.one_of(
        st.none(),
        st.just(KEY),
        st.text(st.characters(min_codepoint=33, max_codepoint=126), max_size=40),
        st.integers(0, len(KEY)).map(lambda cut: KEY[:cut]),
        st.sampled_from([KEY + "x", KEY.lower(), KEY.upper(), f" {KEY}x"]),
    ),
    path=st.sampled_from([API, f"{API}/batch", f"{API}/sync", f"{API}/{UUID(int=7)}", f"{API}/jobs/{UUID(int=7)}"]),
)
def test_only_the_service_key_opens_a_route__SC_P4(held: Held, key: str | None, path: str) -> None:
    async def ask() -> httpx.Response:
        transport = httpx.ASGITransport(held.service.api)
        headers = {} if key is None else {"X-Service-Key": key}
        async with httpx.AsyncClient(transport=transport, base_url="http://forager.test", headers=headers) as client:
            return await client.post(path, json={})

    assert (held.run(ask()).status_code != 401) is (key == KEY)


# Feature: scraping-microservices, Property 5: Pydantic validation produces 422 with field errors
@EXAMPLES
@given(wrong=wrong_requests(), route=st.sampled_from(["", "/sync", "/batch"]))
def test_what_is_wrong_is_told_field_by_field__SC_P5(held: Held, wrong: tuple[dict[str, Any], str], route: str) -> None:
    said, name = wrong
    place = name
    if route == "/batch":
        if name == "callback_url":
            body: dict[str, Any] = {"targets": [_plain(said)], "callback_url": said[name]}
        else:
            body, place = {"targets": [_plain(said)]}, f"targets.0.{name}"
    else:
        body = said
    answer = held.run(held.call("POST", f"{API}{route}", json=body))
    assert answer.status_code == 422, answer.text
    fields = answer.json()["meta"]["fields"]
    assert any(each["field"].startswith(place) and each["message"] for each in fields), (fields, place)


# Feature: scraping-microservices, Property 6: Async task creation returns queued status
@EXAMPLES
@given(said=requests())
def test_a_page_that_was_asked_for_is_queued__SC_P6(held: Held, said: dict[str, Any]) -> None:
    answer = held.run(held.call("POST", API, json=said))
    assert answer.status_code == 202, answer.text
    data = answer.json()["data"]
    assert data["status"] == "queued"
    seen = held.run(held.service.data(f"/{UUID(data['task_id'])}"))
    assert (seen["status"], seen["target_url"], seen["target_type"]) == (
        "queued",
        said["target_url"],
        said["target_type"],
    )


# Feature: scraping-microservices, Property 7: Task status retrieval reflects current state
@EXAMPLES
@given(state=st.sampled_from(["queued", "running", "completed", "failed"]), said=requests())
def test_a_task_shows_its_state_and_only_a_completed_one_a_result__SC_P7(
    held: Held, state: str, said: dict[str, Any]
) -> None:
    host = _new_host()

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
@given(targets=st.lists(requests().map(_plain), min_size=1, max_size=100), twice=st.booleans())
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


outcomes = st.lists(st.sampled_from([TaskState.COMPLETED, TaskState.FAILED]), min_size=1, max_size=30)


async def _run_batch(held: Held, count: int, ends: Sequence[TaskState]) -> tuple[str, list[Lease]]:
    """A batch of which the first tasks have ended as said; those after them are leased where there is a None."""
    host = _new_host()
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
    host = _new_host()

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
            for row in await held.service.app.ledger.database.fetch("SELECT id, public_id FROM jobs")  # type: ignore[attr-defined]
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
    host = _new_host()

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
