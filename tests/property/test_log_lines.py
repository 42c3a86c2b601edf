"""Fields of every log line, and further fields of the lines about pages."""

import asyncio
import io
import json
import logging
from collections.abc import Iterator, Sequence
from typing import Any
from uuid import UUID

import pytest
import structlog
from hypothesis import given, settings
from hypothesis import strategies as st

from forager.core.clock import SystemClock
from forager.core.database import Row
from forager.core.ids import task_uuid
from forager.core.ledger import Lease, Settlement
from forager.core.states import TaskState
from forager.engine.work.job_log import SUMMARY_EVERY, JobLog
from forager.logging import configure_logs
from forager.pipelines.scrape.job import ScrapeTask
from forager.pipelines.scrape.pipeline import build
from forager.pipelines.scrape.reasons import REASONS
from forager.pipelines.scrape.reports import page_line
from tests.support.clock import FakeClock

paths = st.from_regex(r"/[a-z0-9/]{0,20}", fullmatch=True)
hosts = st.from_regex("[a-z]{1,9}[.]example", fullmatch=True)
numbers = st.integers(1, 2**40)
CANARY = "kanarienvogel"
# The log cuts the query of every URL by itself: the lines about pages must do without that net.
tails = st.sampled_from(["", f"?token={CANARY}", f"#{CANARY}", f"?a=1#{CANARY}", f"#a?{CANARY}"])

SCRAPE = build(())


@pytest.fixture(scope="module")
def stream() -> Iterator[io.StringIO]:
    out = io.StringIO()
    configure_logs("DEBUG", "json", stream=out)
    yield out
    structlog.reset_defaults()
    root = logging.getLogger()
    for handler in [each for each in root.handlers if getattr(each, "stream", None) is out]:
        root.removeHandler(handler)


@st.composite
def ends(draw: st.DrawFn) -> Settlement:
    """The possible ends of an attempt on a page."""
    task = ScrapeTask(
        number=draw(st.integers(0, 99)),
        target_type="job_posting",
        target_url=f"https://{draw(hosts)}{draw(paths)}{draw(tails)}",
        workspace_id="acme",
    )
    lease = Lease(draw(numbers), draw(numbers), 1, 1, 1, 0, task.kind, task.key(), task)
    state = draw(st.sampled_from([TaskState.COMPLETED, TaskState.FAILED]))
    facts = {"api_ms": draw(st.integers(0, 60_000)), "results_count": draw(st.integers(0, 8))}
    if draw(st.booleans()):
        facts["proxy"] = draw(st.integers(1, 99))
    reason = draw(st.sampled_from(sorted(REASONS)))
    if state is TaskState.COMPLETED:
        return Settlement(lease, state, facts=facts)
    return Settlement(lease, state, facts=facts, error=f"{CANARY} {draw(st.text(max_size=30))}", reason=reason)


class Rows:
    """The row of the one job that there is."""

    def __init__(self, row: Row) -> None:
        self.row = row

    async def jobs_for_log(self, numbers: Sequence[int]) -> Sequence[Row]:
        return [self.row] if self.row["id"] in numbers else []

    async def failures_of(self, number: int) -> dict[str, int]:
        return {}


async def log_page(end: Settlement, row: Row) -> None:
    log = JobLog(Rows(row), SystemClock(), [SCRAPE], {"scrape": page_line}, by_task=["scrape"])
    log.settled([end])
    await log.close()


# Feature: scraping-microservices, Property 38: Structured log format
@settings(max_examples=100, deadline=None)
@given(
    end=ends(),
    event=st.text(max_size=60),
    fields=st.dictionaries(st.from_regex("[a-z]{3,8}x", fullmatch=True), st.text(max_size=20), max_size=3),
    request=st.uuids(),
    job=st.uuids(),
)
def test_every_line_is_json_with_what_it_must_have__SC_P38(
    stream: io.StringIO, end: Settlement, event: str, fields: dict[str, str], request: UUID, job: UUID
) -> None:
    stream.seek(0)
    stream.truncate()
    row = {"id": end.lease.job_id, "public_id": str(job), "request_id": str(request), "pipeline": "scrape"}
    asyncio.run(log_page(end, row))
    with structlog.contextvars.bound_contextvars(request_id=str(request)):
        structlog.get_logger("forager.any").info(event, **fields)
    logging.getLogger("a.library").warning("%s", event)
    lines: list[dict[str, Any]] = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert len(lines) == 3
    for line in lines:
        assert line.keys() >= {"request_id", "level", "timestamp"}
    about, task = lines[0], end.lease.task
    assert isinstance(task, ScrapeTask)
    page = task.target_url.partition("?")[0].partition("#")[0]
    assert [line["request_id"] for line in lines] == [str(request), str(request), None]
    assert (about["job_id"], about["url"], about["pipeline"]) == (str(job), page, "scrape")
    assert about["task_id"] == str(task_uuid(end.lease.job_id, end.lease.task_id))
    if end.state is TaskState.FAILED:
        assert about["level"] == "warning"
        assert about["target_url"] == page
        assert about["error_reason"] in REASONS
        assert about["proxy_used"] == (end.facts or {}).get("proxy")
    else:
        assert about["level"] == "info"
        assert about["target_domain"] == task.lane()
        assert (about["duration_ms"], about["fields_extracted"]) == (
            (end.facts or {})["api_ms"],
            (end.facts or {})["results_count"],
        )
    assert CANARY not in json.dumps(about)


async def test_the_log_of_jobs_closes_while_a_line_arrives() -> None:
    for ticks in range(6):
        log = JobLog(Rows({"id": 1}), SystemClock(), [SCRAPE], {})
        log.start()
        for _ in range(4):
            await asyncio.sleep(0)
        log.changed([])
        for _ in range(ticks):
            await asyncio.sleep(0)
        async with asyncio.timeout(30):
            await log.close()


class CountingClock(FakeClock):
    reads = 0

    def monotonic(self) -> float:
        self.reads += 1
        return super().monotonic()


async def test_the_log_of_jobs_does_not_spin_while_its_clock_stands_just_before_a_summary() -> None:
    clock = CountingClock()
    log = JobLog(Rows({"id": 1}), clock, [SCRAPE], {})
    log.start()
    await asyncio.sleep(0)
    clock.fire_next(clock.monotonic() + SUMMARY_EVERY - 1e-6)
    log.changed([])
    await asyncio.sleep(0.3)
    assert clock.reads < 50
    await log.close()
