"""A request that waits for a page in another process is notified by the store, at once, without polling."""

import asyncio
from collections.abc import AsyncIterator, Callable, Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from forager.ledger.postgres import changes, connection
from forager.sandbox.scrape_pages import job
from forager.sdk.http import streams
from tests.support.engine import until
from tests.support.scrape import API, Service, open_service


@dataclass
class Pair:
    """Two processes' worth of Forager on one store: one answers, the other works."""

    front: Service
    back: Service

    async def sync(self, path: str) -> Any:
        async with asyncio.timeout(60):
            return await self.front.sync(path)


@pytest.fixture
async def pair(app_postgres_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Pair]:
    """No polling: a waiter that is not notified waits for ever."""
    monkeypatch.setattr(streams, "LOOK_EVERY", 3_600.0)
    for name in ("front", "back"):
        (tmp_path / name).mkdir()
    async with (
        open_service(tmp_path / "front", app_postgres_url) as front,
        open_service(tmp_path / "back", app_postgres_url, egress_allow=(front.site.endpoint,)) as back,
    ):
        await _listens(front)
        yield Pair(front, back)


async def _listens(service: Service) -> None:
    """Wait until the listener has connected: it then notifies everyone."""
    standing = asyncio.Event()
    service.app.ledger.when_jobs_end(lambda _: standing.set())
    made = await service.batch([service.target()])
    async with asyncio.timeout(60):
        while not standing.is_set():
            await service.client.post(f"{API}/jobs/{made}/cancel")
            made = await service.batch([service.target()])
            await asyncio.sleep(0.05)
    await service.client.post(f"{API}/jobs/{made}/cancel")


def ends_heard(service: Service) -> list[Collection[int]]:
    heard: list[Collection[int]] = []
    service.app.ledger.when_jobs_end(heard.append)
    return heard


async def test_sync_returns_when_another_process_has_ended_the_task__SC_1(pair: Pair) -> None:
    async with pair.back.app.engine():
        for number in range(3):
            answer = await pair.sync(f"/jobs/jsonld/{number}")
            assert answer.status_code == 200, answer.text
            assert answer.json()["data"]["result"]["job_title"] == job(number)["title"]


async def test_sync_returns_the_failure_of_a_task_in_another_process__SC_1__SC_2(pair: Pair) -> None:
    async with pair.back.app.engine():
        answer = await pair.sync("/status/404")
    assert (answer.status_code, answer.json()["meta"]["reason"]) == (502, "not_found")


async def test_a_cancellation_by_another_process_ends_the_wait__SC_1__SC_2(pair: Pair) -> None:
    waits = asyncio.create_task(pair.front.client.post(f"{API}/sync", json=pair.front.target(), timeout=60))
    async with asyncio.timeout(60):
        while not (jobs := (await pair.back.app.reports.jobs(state="queued")).items):
            await asyncio.sleep(0.01)
        await pair.back.client.post(f"{API}/jobs/{jobs[0].id}/cancel")
        answer = await waits
    assert (answer.status_code, answer.json()["meta"]["code"]) == (409, "cancelled")


async def test_only_the_end_of_a_job_is_notified_and_once_for_all_that_end_together__SC_1(pair: Pair) -> None:
    """A notification makes commits wait for one another: a page of a batch must cost none."""
    heard, db = ends_heard(pair.front), pair.front.app.database
    (before,) = await db.fetch("SELECT max(id) AS last FROM jobs")
    made = await pair.front.batch([pair.front.target(f"/jobs/jsonld/{n}") for n in range(30)])
    async with pair.back.app.engine():
        assert (await pair.front.ended(made))["completed_tasks"] == 30
        answer = await pair.sync("/jobs/jsonld/1")
    assert answer.status_code == 200
    rows = await db.fetch("SELECT id FROM jobs WHERE pipeline = 'scrape' AND id > :last ORDER BY id", before)
    mine = [row["id"] for row in rows]  # the fixture's jobs, and those of schedules, may be named in between
    assert len(mine) == 2

    def named() -> list[int]:
        return [job for jobs in heard for job in jobs if job in mine]

    await until(lambda: len(named()) >= 2)  # a word may come after the answer that it brought about
    assert named() == mine


async def test_control_without_notifications_sync_is_not_woken__SC_1(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    deaf: Callable[..., None] = lambda *_: None  # noqa: E731 - the negative control of the tests above
    monkeypatch.setattr(connection.Listener, "_jobs_ended", deaf)
    pair.front.app.ledger._listener._tell.clear()  # type: ignore[attr-defined]
    async with pair.back.app.engine():
        answer = await pair.front.sync("/jobs/jsonld/1", timeout_seconds=5)
    assert (answer.status_code, answer.json()["meta"]["code"]) == (504, "still_running")
    assert (await pair.front.data(f"/{answer.json()['meta']['task_id']}"))["status"] == "completed"


async def test_more_jobs_than_a_notification_can_name_wake_everybody__SC_1(pair: Pair, app_postgres_url: str) -> None:
    heard, told = ends_heard(pair.front), asyncio.Event()
    pair.front.app.ledger.when_jobs_end(lambda jobs: told.set() if not jobs else None)
    db = await asyncpg.connect(app_postgres_url)
    async with db.transaction():
        jobs = await db.fetch(
            "INSERT INTO jobs (public_id, pipeline, params, state, created_at, total, queued)"
            " SELECT gen_random_uuid()::text, 'scrape', '{}', 'running', 0, 1, 1 FROM generate_series(1, $1)"
            " RETURNING id",
            connection.MOST_NAMED + 1,
        )
        await db.fetch(changes._END, [row["id"] for row in jobs], ["completed"] * len(jobs), 1)
    await db.close()
    async with asyncio.timeout(60):
        await told.wait()
    assert [] in heard, "all are woken; jobs of schedules may have ended before"
