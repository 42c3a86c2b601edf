"""Why a job does not move, through the API: the same reason in the list, in the job and in its lane."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from forager.sandbox import Fault, Rule
from tests.support.api import PATIENCE, Front, open_front

JOBS = "/api/v1/jobs"
SERPER = "/api/v1/lanes/serper"


async def until_it_waits(front: Front, job: str) -> dict[str, Any]:
    """The reason that the job shows as soon as a worker has taken it, and nothing of it is in flight."""
    async with asyncio.timeout(PATIENCE):
        while True:
            told: dict[str, Any] | None = (await front.data(f"{JOBS}/{job}"))["waiting"]
            if told is not None and told["reason"] != "no_worker":
                return told
            await asyncio.sleep(0.02)


async def test_a_job_without_a_worker_shows_that_reason_and_an_ended_one_has_none(front: Front) -> None:
    job = await front.create()
    waits = (await front.data(f"{JOBS}/{job}"))["waiting"]
    assert waits == {"reason": "no_worker", "message": "no worker is running", "lane": None, "until": None}
    await front.work()
    assert (await front.data(f"{JOBS}/{job}"))["waiting"] is None


async def test_a_paused_lane_is_named_by_the_job_the_list_and_the_lane(front: Front) -> None:
    await front.client.post(f"{SERPER}/pause")
    async with front.app.engine():
        job = await front.create()
        waits = await until_it_waits(front, job)
        assert waits["message"] == "serper is paused by an operator"
        assert [each["waiting"] for each in await front.data(JOBS)] == [waits]
        assert [each["waiting"] for each in await front.data("/api/v1/lanes")] == [waits]
        assert (await front.data(SERPER))["waiting"] == waits
        await front.client.post(f"{SERPER}/resume")
        assert (await front.data(SERPER))["waiting"] is None


async def test_a_lane_outside_its_hours_is_reported_with_their_beginning(front: Front) -> None:
    hour = (await front.app.ledger.now()).hour
    closed = {"start": (hour + 2) % 24, "end": (hour + 3) % 24}
    changed = await front.client.patch(f"{SERPER}/rules", json={"allowed_hours": closed})
    assert changed.status_code == 200, changed.text
    async with front.app.engine():
        waits = await until_it_waits(front, await front.create())
    assert waits["reason"] == "hours"
    assert waits["message"] == f"outside the allowed hours of serper until {closed['start']:02}:00 UTC"
    assert waits["until"] is not None


@pytest.fixture
async def failing(store: str | None, tmp_path: Path) -> AsyncIterator[Front]:
    """Serper answers the first query with 429."""
    script = (Rule(Fault.HTTP429, times=1),)
    async with open_front(tmp_path, store, script=script) as opened:
        yield opened


async def test_a_retried_task_is_reported_with_its_error_and_its_due_time(failing: Front) -> None:
    async with failing.app.engine():
        waits = await until_it_waits(failing, await failing.create())
    assert waits["reason"] == "rate_limited"
    assert "next try in" in waits["message"]
    assert waits["lane"] == "serper"
