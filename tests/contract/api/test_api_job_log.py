"""The log of jobs: what happens to a job is one structured line each, with its ids and the id of the request that
submitted it, on both stores and across processes."""

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from forager.app.compose import open_app
from forager.engine.work.job_log import JobLog
from forager.sandbox import Fault, Rule
from tests.support.api import JOB, ONE_QUERY, Front, open_front
from tests.support.engine import until

IDS = {"job_id", "task_id", "pipeline", "request_id", "url"}
Line = Mapping[str, Any]


def events(lines: Iterable[Line], job: str) -> list[str]:
    return [line["event"] for line in lines if line.get("job_id") == job]


def the(lines: Iterable[Line], event: str, job: str) -> Line:
    (line,) = [line for line in lines if line["event"] == event and line.get("job_id") == job]
    return line


async def submitted(front: Front, **params: Any) -> tuple[str, str]:
    """Submit a job. Returns its id and the id of the request, as the response's header has it."""
    made = await front.client.post("/api/v1/places/jobs", json=params or dict(ONE_QUERY))
    assert made.status_code == 202, made.text
    return made.json()["data"]["job_id"], made.headers["X-Request-ID"]


async def logged(holds: Callable[[], object]) -> None:
    """Wait until the lines are there: they are written beside the work."""
    await until(holds)


async def test_the_life_of_a_job_is_in_the_log_with_its_request(front: Front) -> None:
    with capture_logs() as lines:
        job, request = await submitted(front, **JOB)
        await front.work()
        await logged(lambda: "job_ended" in events(lines, job))
    mine = [line for line in lines if line.get("job_id") == job]
    assert [line["event"] for line in mine if line["event"].startswith("job_")] == [
        "job_created",
        "job_started",
        "job_ended",
    ]
    assert {line["request_id"] for line in mine} == {request}
    assert {line["pipeline"] for line in mine} == {"places"}
    assert all(line.keys() >= IDS for line in mine)
    ended = the(lines, "job_ended", job)
    row = await front.data(f"/api/v1/jobs/{job}")
    assert (ended["state"], ended["log_level"]) == ("partially_completed", "warning")
    for name, column in {"tasks": "total", "cost": "spent"}.items():
        assert ended[name] == row[column]
    for name in ("completed", "failed", "skipped", "cancelled", "retries"):
        assert ended[name] == row[name]
    assert sum(ended["failures"].values()) == row["failed"] == 1


async def test_the_first_failure_of_a_reason_names_its_task_and_the_others_are_summed(tmp_path: Path) -> None:
    faults = (Rule(Fault.MALFORMED, times=None),)
    async with open_front(tmp_path, script=faults) as front:
        with capture_logs() as lines:
            job, request = await submitted(front, keyword="bars", state="AZ", pages=1)
            await front.work()
            await logged(lambda: "job_ended" in events(lines, job))
        tasks = await front.data(f"/api/v1/jobs/{job}/tasks")
    assert len(tasks) == 3
    first = the(lines, "task_failed", job)
    assert first["task_id"] in {task["id"] for task in tasks}
    assert (first["request_id"], first["pipeline"], first["log_level"]) == (request, "places", "warning")
    assert first["error"]
    repeated = the(lines, "failures_repeated", job)
    assert (repeated["total"], repeated["request_id"]) == (2, request)
    assert events(lines, job).index("failures_repeated") < events(lines, job).index("job_ended")
    ended = the(lines, "job_ended", job)
    assert (ended["state"], ended["failed"], ended["log_level"]) == ("failed", 3, "error")
    assert ended["failures"] == {first["reason"]: 3}


async def test_a_job_that_succeeds_leaves_no_line_per_task(tmp_path: Path) -> None:
    async with open_front(tmp_path) as front:
        with capture_logs() as lines:
            job, _ = await submitted(front, **JOB)
            await front.work()
            await logged(lambda: "job_ended" in events(lines, job))
        assert (await front.data(f"/api/v1/jobs/{job}"))["state"] == "completed"
    assert events(lines, job) == ["job_created", "job_started", "job_ended"]


async def test_pause_resume_cancel_and_retry_are_in_the_log(front: Front) -> None:
    with capture_logs() as lines:
        job, _ = await submitted(front, **JOB)
        await front.client.post(f"/api/v1/jobs/{job}/pause")
        await front.client.post(f"/api/v1/jobs/{job}/resume")
        await front.work()
        await front.client.post(f"/api/v1/jobs/{job}/retry")
        await front.client.post(f"/api/v1/jobs/{job}/cancel")
        await front.work()
        await logged(lambda: events(lines, job).count("job_ended") == 2)
    seen = [event for event in events(lines, job) if event.startswith("job_") and event != "job_started"]
    assert seen == [
        "job_created", "job_paused", "job_resumed", "job_ended", "job_retried", "job_cancelling", "job_ended"
    ]  # fmt: skip


async def test_a_job_that_a_retry_reopens_at_once_has_no_counts_at_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The end is logged after the retry: the job's row is that of a running job, with neither an end nor its counts."""
    retried, write = asyncio.Event(), JobLog._write

    async def after_the_retry(self: JobLog) -> None:
        await retried.wait()
        await write(self)

    monkeypatch.setattr(JobLog, "_write", after_the_retry)
    async with open_front(tmp_path, script=(Rule(Fault.MALFORMED, times=3),)) as front:
        with capture_logs() as lines:
            job, _ = await submitted(front, **JOB)
            await front.work()
            await front.client.post(f"/api/v1/jobs/{job}/retry")
            retried.set()
            await logged(lambda: "job_ended" in events(lines, job))
        ended = the(lines, "job_ended", job)
        assert ended["retried"] is True
        assert not {"state", "seconds", "failures"} & set(ended)


async def test_a_refused_key_pauses_the_job_and_is_in_the_log(tmp_path: Path) -> None:
    async with open_front(tmp_path) as front:
        front.sandbox.serper._accounts.clear()
        with capture_logs() as lines:
            job, request = await submitted(front, **JOB)
            await front.work()
            await logged(lambda: "job_paused" in events(lines, job))
    halted, paused = the(lines, "task_halted", job), the(lines, "job_paused", job)
    assert (halted["request_id"], halted["reason"]) == (request, "unconfigured")
    assert paused["reason"] == halted["error"]
    assert paused["log_level"] == "warning"


@asynccontextmanager
async def other_process(front: Front) -> AsyncIterator[Any]:
    """Another application on the same store, as a worker process opens it."""
    async with open_app(front.app.settings) as app:
        yield app


async def test_a_worker_in_another_process_logs_the_request_that_submitted_the_job(
    tmp_path: Path, app_postgres_url: str
) -> None:
    async with open_front(tmp_path, app_postgres_url, script=(Rule(Fault.MALFORMED, times=None),)) as front:
        with capture_logs() as lines:
            async with other_process(front) as worker, asyncio.timeout(60):
                job, request = await submitted(front, **ONE_QUERY)
                await worker.worker.run(until_idle=True)
                await logged(lambda: "job_ended" in events(lines, job))
    for event in ("job_created", "job_started", "task_failed", "job_ended"):
        assert the(lines, event, job)["request_id"] == request


async def test_events_are_words_in_snake_case(front: Front) -> None:
    with capture_logs() as lines:
        job, _ = await submitted(front, **JOB)
        await front.work()
        await logged(lambda: "job_ended" in events(lines, job))
    assert [event for event in events(lines, job) if not re.fullmatch(r"[a-z]+(_[a-z]+)*", event)] == []


@pytest.mark.parametrize("store", ["sqlite"], indirect=True)
async def test_a_submission_that_is_refused_leaves_no_line_of_a_job(front: Front) -> None:
    with capture_logs() as lines:
        refused = await front.client.post("/api/v1/places/jobs", json={"keyword": "bars", "zips": ["00000"]})
    assert refused.status_code == 422
    assert [line for line in lines if line["event"].startswith("job_")] == []


async def test_a_page_that_was_cancelled_before_it_ran_has_an_end_in_the_log(front: Front) -> None:
    with capture_logs() as lines:
        body = {"target_url": "https://nosuch.invalid/", "target_type": "page"}
        made = await front.client.post("/api/v1/scrape", json=body)
        task = made.json()["data"]["task_id"]
        job = (await front.data(f"/api/v1/tasks/{task}"))["job"]
        await front.client.post(f"/api/v1/jobs/{job}/cancel")
        await logged(lambda: "job_ended" in events(lines, job))
    assert the(lines, "job_ended", job)["state"] == "cancelled"
