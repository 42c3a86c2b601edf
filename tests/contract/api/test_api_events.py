"""Streams of events over a real server: order, resuming, ends, and readers that misbehave."""

import asyncio
import socket
import sqlite3
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any
from uuid import UUID, uuid4

import httpx
import orjson
import psutil
import pytest
import structlog

from forager.api import changes, events
from forager.api.serve import running
from forager.core.errors import StoreError
from forager.sdk.http import streams
from tests.support.api import KEY, PATIENCE, Front


@dataclass(frozen=True)
class Event:
    name: str
    data: Any
    id: int | None


@asynccontextmanager
async def served(front: Front) -> AsyncIterator[httpx.AsyncClient]:
    """The same API on a port: a stream needs a server that sends as it goes."""
    async with (
        running(front.api, host="127.0.0.1", port=0) as url,
        httpx.AsyncClient(base_url=url, headers={"X-Service-Key": KEY}, timeout=PATIENCE) as client,
    ):
        yield client


async def stream(client: httpx.AsyncClient, job: str, **more: Any) -> AsyncIterator[Event]:
    async with asyncio.timeout(PATIENCE), client.stream("GET", f"/api/v1/jobs/{job}/events", **more) as answer:
        assert answer.status_code == 200, await answer.aread()
        assert answer.headers["Content-Type"].startswith("text/event-stream")
        fields: dict[str, str] = {}
        async for line in answer.aiter_lines():
            if line:
                name, _, value = line.partition(": ")
                fields[name] = value
            elif "event" in fields:
                number = int(fields["id"]) if "id" in fields else None
                yield Event(fields["event"], orjson.loads(fields["data"]), number)
                fields = {}
            else:
                fields = {}


async def test_a_stream_sends_every_change_in_order_and_ends_with_the_job(front: Front) -> None:
    job = await front.create(keyword="bars", zips=["85001", "85002"], pages=2)
    async with served(front) as client:
        told = []
        working: asyncio.Task[None] | None = None
        async for event in stream(client, job):
            working = working or asyncio.create_task(front.work())
            told.append(event)
        assert working is not None
        await working
    changes = [event for event in told if event.name == "change"]
    numbers = [event.id for event in changes]
    assert numbers == sorted(set(numbers))  # type: ignore[type-var]
    recorded = await front.app.ledger.changes(0, 1_000)
    assert numbers == [change.id for change in recorded]
    assert (changes[0].data["kind"], changes[0].data["op"]) == ("job", "created")
    assert (changes[-1].data["kind"], changes[-1].data["op"]) == ("job", "ended")
    assert all(event.data["id"] == event.id and event.data["job"] == job for event in changes)
    progress = [event for event in told if event.name == "progress"]
    assert all(event.id is None for event in progress)
    assert (progress[-1].data["state"], progress[-1].data["completed"]) == ("completed", 4)
    assert told[-1].name == "end"
    assert told[-1].id == numbers[-1]
    assert told[-1].data["state"] == "completed"


async def test_a_stream_resumes_behind_the_last_number_by_header_or_query(front: Front) -> None:
    job = await front.create(keyword="bars", zips=["85001"], pages=2)
    await front.work()
    async with served(front) as client:
        whole = [event.id async for event in stream(client, job) if event.name == "change"]
        middle = whole[len(whole) // 2]
        for more in ({"headers": {"Last-Event-ID": str(middle)}}, {"params": {"after": middle}}):
            rest = [event.id async for event in stream(client, job, **more) if event.name == "change"]
            assert rest == whole[len(whole) // 2 + 1 :]
        both = {"headers": {"Last-Event-ID": str(whole[-2])}, "params": {"after": 0}}
        assert [event.id async for event in stream(client, job, **both) if event.name == "change"] == whole[-1:]
        jobs_only = [event async for event in stream(client, job, params={"kind": "job"}) if event.name == "change"]
        assert {event.data["kind"] for event in jobs_only} == {"job"}
        done = await client.get(f"/api/v1/jobs/{job}/events", headers={"Last-Event-ID": str(whole[-1])})
        assert done.status_code == 204, "an EventSource stops asking"


async def test_an_unknown_kind_of_change_is_refused_with_those_there_are(simple: Front) -> None:
    job = await simple.create()
    refused = await simple.client.get(f"/api/v1/jobs/{job}/events", params={"kind": "bogus"})
    assert refused.status_code == 422
    message = f"unknown kind 'bogus'; choose from {', '.join(sorted({'job', 'task', *simple.app.reports.kinds}))}"
    assert refused.json()["meta"]["fields"] == [{"field": "kind", "message": message}]


async def test_a_long_history_comes_in_pages_without_a_gap(simple: Front, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "PAGE", 4)
    monkeypatch.setattr(events, "PAGE", 4)
    monkeypatch.setattr(events, "TAIL", 5)
    job = await simple.create(keyword="bars", zips=["85001"], pages=2)
    async with served(simple) as client:
        told: list[int] = []
        late: list[int] = []
        working: asyncio.Task[None] | None = None
        async for event in stream(client, job):
            if event.name == "change":
                told.append(event.id or 0)
            if working is None:
                working = asyncio.create_task(simple.work())
        assert working is not None
        await working
        late = [event.id or 0 async for event in stream(client, job) if event.name == "change"]
    assert told == late == [change.id for change in await simple.app.ledger.changes(0, 1_000)]
    assert len(told) > 20


async def test_two_readers_of_one_job_see_the_same(simple: Front) -> None:
    job = await simple.create(keyword="bars", zips=["85001", "85002"], pages=2)
    async with served(simple) as client:

        async def read() -> list[int | None]:
            return [event.id async for event in stream(client, job) if event.name == "change"]

        readers = [asyncio.create_task(read()) for _ in range(20)]
        async with asyncio.timeout(PATIENCE):
            while simple.api.state.feeds.streams < 20:
                await asyncio.sleep(0)
        await simple.work()
        told = await asyncio.gather(*readers)
    assert all(numbers == told[0] for numbers in told)
    assert simple.api.state.feeds.streams == 0
    assert simple.api.state.feeds._open == {}, "nobody looks at a job that nobody watches"


async def test_the_more_jobs_are_watched_the_less_often_each_is_looked_at(
    simple: Front, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(events, "MOST_LOOKS", 8)
    feeds = simple.api.state.feeds
    jobs = [UUID(await simple.create(keyword=f"bars {n}", zips=["85001"], pages=1)) for n in range(6)]
    async with AsyncExitStack() as stack:
        naps = [feeds.nap()]
        for job in jobs:
            await stack.enter_async_context(feeds.watch(job))
            await stack.enter_async_context(feeds.watch(job))
            naps.append(feeds.nap())
    assert naps == [0.25, 0.25, 0.25, 0.375, 0.5, 0.625, 0.75]
    assert feeds.nap() == 0.25


async def test_a_watched_job_is_looked_at_after_each_nap(simple: Front, monkeypatch: pytest.MonkeyPatch) -> None:
    job = UUID(await simple.create(keyword="bars", zips=["85001"], pages=1))
    monkeypatch.setattr(events, "LOOK_EVERY", 0.01)
    looks: list[UUID] = []
    real = simple.app.reports.job

    async def count(job: UUID) -> Any:
        looks.append(job)
        return await real(job)

    monkeypatch.setattr(simple.app.reports, "job", count)
    async with simple.api.state.feeds.watch(job), asyncio.timeout(PATIENCE):
        while len(looks) < 5:
            await asyncio.sleep(0.001)
    monkeypatch.setattr(events, "LOOK_EVERY", 3_600.0)
    looks.clear()
    async with simple.api.state.feeds.watch(job):
        await asyncio.sleep(0.1)
    assert looks == [job], "once when it is opened"


async def test_an_idle_stream_is_kept_alive_by_comments(simple: Front, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "HEARTBEAT", 0.05)
    job = await simple.create()
    async with (
        served(simple) as client,
        asyncio.timeout(PATIENCE),
        client.stream("GET", f"/api/v1/jobs/{job}/events") as answer,
    ):
        beats = 0
        async for line in answer.aiter_lines():
            beats += line == ": still here"
            if beats == 2:
                break


@pytest.mark.parametrize("path", ["jobs/{}/events", "changes/events"])
async def test_a_stream_closes_when_its_key_is_revoked__S13(
    simple: Front, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    assert streams.HEARTBEAT <= 30
    monkeypatch.setattr(events, "HEARTBEAT", 0.05)
    monkeypatch.setattr(changes, "HEARTBEAT", 0.05)
    job = await simple.create()
    received = ""
    async with (
        served(simple) as client,
        asyncio.timeout(PATIENCE),
        client.stream("GET", f"/api/v1/{path.format(job)}") as answer,
    ):
        async for part in answer.aiter_text():
            received += part
            simple.api.state.service_key.replace("another-key-from-now-on")
        assert (await client.get("/api/v1/jobs")).status_code == 401
    assert "event: change" in received
    assert "event: end" not in received, "the job has not ended: the stream was closed"


async def test_a_stream_of_a_removed_job_ends(simple: Front, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "LOOK_EVERY", 0.01)
    job = await simple.create()
    received: list[Event] = []
    async with served(simple) as client:
        async for event in stream(client, job):
            if not received:
                with sqlite3.connect(simple.app.settings.home / "ledger.db") as ledger:
                    ledger.execute("DELETE FROM jobs")
            received.append(event)
        assert (await client.get(f"/api/v1/jobs/{job}/events")).status_code == 404, "a reconnect ends there"
    assert received[-1].name == "end"
    assert (received[-1].data["id"], received[-1].data["state"]) == (job, "removed")
    assert simple.api.state.feeds._open == {}


async def test_a_store_that_cannot_be_read_is_logged_once(simple: Front, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "LOOK_EVERY", 0.001)
    job = UUID(await simple.create())
    real, tries = simple.app.reports.job, 0

    async def fail(job: UUID) -> Any:
        nonlocal tries
        tries += 1
        raise StoreError("the disk is gone")

    with structlog.testing.capture_logs() as lines:
        async with simple.api.state.feeds.watch(job), asyncio.timeout(PATIENCE):
            for _ in range(2):
                monkeypatch.setattr(simple.app.reports, "job", fail)
                tries = 0
                while tries < 10:
                    await asyncio.sleep(0.001)
                monkeypatch.setattr(simple.app.reports, "job", real)
                await simple.api.state.feeds._open[job][0].look()
                await asyncio.sleep(0.05)
    assert [line["event"] for line in lines if line["log_level"] == "warning"] == ["watched_job_unreadable"] * 2


async def test_a_stream_closes_when_the_server_does(simple: Front) -> None:
    job = await simple.create()
    begun = asyncio.Event()
    async with httpx.AsyncClient(headers={"X-Service-Key": KEY}, timeout=PATIENCE) as client:
        async with running(simple.api, host="127.0.0.1", port=0) as url:

            async def read() -> None:
                async with client.stream("GET", f"{url}/api/v1/jobs/{job}/events") as answer:
                    async for _ in answer.aiter_lines():
                        begun.set()

            reading = asyncio.create_task(read())
            async with asyncio.timeout(PATIENCE):
                await begun.wait()
        async with asyncio.timeout(PATIENCE):
            await reading


async def test_a_foreign_page_is_refused_and_our_own_is_not__S13(simple: Front) -> None:
    job = await simple.create()
    await simple.work()
    async with served(simple) as client:
        for origin in ("https://evil.example", "null", f"https://{client.base_url.host}", "http://localhost:1"):
            refused = await client.get(f"/api/v1/jobs/{job}/events", headers={"Origin": origin})
            assert (refused.status_code, refused.json()["meta"]["code"]) == (403, "foreign_origin"), origin
        ours = f"http://{client.base_url.host}:{client.base_url.port}"
        assert [event async for event in stream(client, job, headers={"Origin": ours})]


async def _stuck_reader(front: Front, job: str, taken: list[Any], free: asyncio.Event) -> None:
    """Opens a stream, takes its greeting, and then nothing more until it is free."""
    greeted = False

    async def send(message: Any) -> None:
        nonlocal greeted
        if message["type"] == "http.response.body" and greeted:
            taken.append(len(message["body"]))
            await free.wait()
        greeted = message["type"] == "http.response.body"

    async def receive() -> Any:
        await asyncio.Event().wait()

    path = f"/api/v1/jobs/{job}/events"
    scope = {"type": "http", "method": "GET", "path": path, "raw_path": path.encode(), "query_string": b""}
    await front.api({**scope, "headers": [(b"x-service-key", KEY.encode())]}, receive, send)


def _connections(port: int) -> int:
    """Count the connections of the server's side, with those whose last bytes the kernel still keeps."""
    every = psutil.net_connections(kind="tcp")
    over = (psutil.CONN_LISTEN, psutil.CONN_TIME_WAIT)
    return sum(getattr(each.laddr, "port", 0) == port and each.status not in over for each in every)


async def _clients_that_read_nothing(port: int, path: str, number: int, stack: AsyncExitStack) -> None:
    """Open connections, send a request on each, and read nothing of the answers."""
    request = f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nX-Service-Key: {KEY}\r\n\r\n".encode()
    loop = asyncio.get_running_loop()
    for _ in range(number):
        client = stack.enter_context(socket.socket())
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        client.setblocking(False)
        await loop.sock_connect(client, ("127.0.0.1", port))
        await loop.sock_sendall(client, request)


@pytest.mark.parametrize(
    ("path", "clients"), [("jobs/{}/events", 200), ("changes/events", 200), ("changes?limit=1000", 20)]
)
async def test_a_client_that_reads_nothing_is_disconnected__S13(simple: Front, path: str, clients: int) -> None:
    job = await simple.create(keyword="bars", zips=["85001", "85002", "85003", "02139"], pages=10)
    await simple.work()
    path = f"/api/v1/{path.format(job)}"
    async with (
        AsyncExitStack() as stack,
        asyncio.timeout(PATIENCE),
        running(simple.api, host="127.0.0.1", port=0, patience=1.0) as url,
        httpx.AsyncClient(base_url=url, headers={"X-Service-Key": KEY}, timeout=PATIENCE) as client,
    ):
        port = client.base_url.port or 0
        await _clients_that_read_nothing(port, path, clients, stack)
        slowest = 0.0
        while _connections(port) > 1:
            begun = time.monotonic()
            health = (await client.get("/health")).json()["data"]
            assert health["store"] == "ok"
            slowest = max(slowest, time.monotonic() - begun)
            await asyncio.sleep(0.05)
        assert slowest < 5.0
    assert simple.api.state.feeds.streams == 0


async def test_a_thousand_slow_readers_take_little_memory_and_delay_no_other__S13(simple: Front) -> None:
    job = await simple.create(keyword="bars", zips=["85001", "85002"], pages=10)
    await simple.work()
    free = asyncio.Event()
    taken: list[Any] = []
    before = psutil.Process().memory_info().rss
    async with asyncio.timeout(PATIENCE), asyncio.TaskGroup() as readers:
        for _ in range(1_000):
            readers.create_task(_stuck_reader(simple, job, taken, free))
        while len(taken) < 1_000:
            await asyncio.sleep(0.01)
        grown = psutil.Process().memory_info().rss - before
        assert simple.api.state.feeds.streams == 1_000
        assert grown < 128 * 1024 * 1024, f"{sum(taken):,} bytes were waiting to be taken"
        async with served(simple) as client:
            quick = [event async for event in stream(client, job)]
        assert quick[-1].name == "end"
        free.set()


async def test_streams_are_limited(simple: Front, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "MOST_STREAMS", 0)
    job = await simple.create()
    refused = await simple.client.get(f"/api/v1/jobs/{job}/events")
    assert (refused.status_code, refused.json()["meta"]["code"]) == (503, "busy")


async def test_a_wrong_place_to_resume_from_is_an_error(simple: Front) -> None:
    job = await simple.create()
    path = f"/api/v1/jobs/{job}/events"
    for number in ("x", "-1", str(2**63), "1.5", ""):
        assert (await simple.client.get(path, headers={"Last-Event-ID": number})).status_code == 422, number
        assert (await simple.client.get(path, params={"after": number})).status_code == 422, number
    assert (await simple.client.get(f"/api/v1/jobs/{uuid4()}/events")).status_code == 404
    assert (await simple.client.get("/api/v1/jobs/12/events")).status_code == 422


async def test_the_stream_of_a_job_without_tasks_reports_it_and_ends(simple: Front) -> None:
    job = await simple.create(keyword="bars", zips=["85001"], dry_run=True)
    async with served(simple) as client:
        told = [event.name async for event in stream(client, job)]
    assert told == ["change", "progress", "end"]
