"""The queries of the scrape pipeline: one page with its result, and all results of a job.

Routes and webhooks show the same reports, so the shape of a result is declared here and not with the routes.
"""

from base64 import b64decode
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from decimal import Decimal
from typing import Any, Literal
from urllib.parse import urlsplit, urlunsplit
from uuid import UUID

from pydantic import Field

from forager.core.database import Database, Row
from forager.core.errors import BlobMissing, NotFound
from forager.core.hosts import host_of
from forager.core.ids import task_numbers, task_uuid
from forager.core.ledger import LogLine, Settlement
from forager.core.states import TaskState
from forager.core.storage import FileName, StoredFile
from forager.pipelines.scrape.describe import usd
from forager.pipelines.scrape.job import ScrapeTask
from forager.pipelines.scrape.reasons import shown_reason
from forager.sdk.queries import MOST, QueryPage, Walk, at, job_number, loads, task_body, walk
from forager.sdk.reports import Report
from forager.sdk.service import Service

TaskStatus = Literal["queued", "running", "completed", "failed", "cancelled"]


class ResultSource(Report):
    """The source of a result."""

    provenance: dict[str, Any] = Field(
        description="Source of each field that was found: page, location and confidence."
    )
    page_url: str = Field(description="URL after redirects.")
    pages: list[str] = Field(description="Every page that was read.")
    rendered: bool = Field(description="Rendered by a browser.")
    fetched_at: datetime | None = Field(description="Time of the fetch.")
    stored: bool = Field(description="True if a stored page answered it, without a request: see max_age.")


class ScrapeResult(Report):
    """The fields of one completed page."""

    task_id: UUID
    target_type: str
    target_url: str
    status: Literal["completed"] = "completed"
    result: dict[str, Any] = Field(description="The requested fields; one that was not found is null.")
    meta: ResultSource


class ScrapeTaskReport(Report):
    """One requested page: its state, and its result or its error."""

    task_id: UUID
    job_id: UUID
    status: TaskStatus
    target_type: str
    target_url: str
    result: dict[str, Any] | None = Field(description="The requested fields, if it is completed; else null.")
    error: str | None = Field(description="Why it failed, or the error of its last attempt.")
    reason: str | None = Field(description="The same as a code, if there is one.")
    created_at: datetime
    started_at: datetime | None
    completed_at: datetime | None = Field(description="Time when it ended, in any state.")
    cost_usd: Decimal = Field(description="Cost of its described fields in USD; 0 if it has none.")


class ScrapedPage(ScrapeTaskReport):
    """A requested page as a list of pages shows it."""

    meta: ResultSource | None = Field(description="Source of the result, if it is completed; else null.")


NOT_PAID = "The budget of the job, `max_usd`, does not pay for its described fields."
WEBHOOK_FIELDS = {"task_id", "target_type", "target_url", "status", "result", "error", "reason"}

# The task is found by its name, which is unique.
_RESULTS = """
SELECT r.*, t.id AS task, t.job_id AS job FROM (SELECT * FROM scrape_results WHERE job_id = :job) r
JOIN tasks t ON t.job_id = r.job_id AND t.kind = 'scrape.page' AND t.key = r.task_key
"""
# A page with described fields has a second task of the same key, which decides how the page ended.
_COLUMNS = """t.id AS task, t.job_id AS job, j.public_id, coalesce(d.state, t.state) AS state, t.body,
       CASE WHEN d.id IS NULL THEN t.error ELSE d.error END AS error,
       CASE WHEN d.id IS NULL THEN t.reason ELSE d.reason END AS reason, j.created_at, t.claimed_at,
       CASE WHEN d.id IS NULL THEN t.ended_at ELSE d.ended_at END AS ended_at, coalesce(d.cost, 0) AS cost,
       r.result, r.provenance, r.pages, r.page_url, r.rendered, r.fetched_at, r.from_store, r.stored_pages"""
_JOINED = """JOIN jobs j ON j.id = t.job_id
LEFT JOIN tasks_now d ON d.job_id = t.job_id AND d.kind = 'scrape.described' AND d.key = t.key
LEFT JOIN scrape_results r ON r.job_id = t.job_id AND r.task_key = t.key"""
# A caller waits for it, so everything about a page is one query.
_TASK = f"SELECT {_COLUMNS} FROM tasks_now t {_JOINED} WHERE t.kind = 'scrape.page' AND t.id ="
_FIRST = """
SELECT f.id AS task, f.job_id AS job FROM tasks f
WHERE f.job_id = (SELECT id FROM jobs WHERE public_id = :job) AND f.kind = 'scrape.page' ORDER BY f.key LIMIT 1
"""


async def results_of_job(db: Database, job: UUID) -> list[ScrapeResult]:
    """Return the results in the order of the request."""
    rows = await db.fetch(f"{_RESULTS} ORDER BY r.task_key", {"job": await job_number(db, job)})
    return [
        ScrapeResult(
            task_id=task_uuid(row["job"], row["task"]),
            target_type=row["target_type"],
            target_url=row["target_url"],
            result=_result(row),
            meta=_source(row),
        )
        for row in rows
    ]


async def pages_of_job(db: Database, job: UUID, *, cursor: str | None, limit: int) -> QueryPage[ScrapedPage]:
    """Return the pages of a job with their results, in the order of the request."""
    plan = Walk(
        f"pages of {job}",
        "SELECT id, kind, key FROM tasks",
        ("kind", "key"),
        ("job_id = :job", "kind = 'scrape.page'"),
        columns=_COLUMNS,
        joins=f"JOIN tasks_now t ON t.id = w.id {_JOINED}",
        values={"job": await job_number(db, job)},
    )
    rows, following = await walk(db, plan, cursor, limit)
    return QueryPage(items=[_page(row) for row in rows], next_cursor=following)


async def one_task(db: Database, task: UUID, *, fresh: bool = False) -> ScrapedPage:
    """Return one page. `fresh`: it was written a moment ago. Raises `NotFound` if there is no such task."""
    row = await _row(db, task, fresh=fresh)
    if row is None:
        raise NotFound(f"There is no scrape task {task}.")
    return _page(row)


async def webhook_entries(service: Service, job: UUID) -> Sequence[Mapping[str, Any]]:
    """Return what a webhook reports: one entry for each page of the job, in the order of its targets, with the fields
    that the API has."""
    pages = await pages_of_job(service.database, job, cursor=None, limit=MOST)
    return [page.model_dump(mode="json", include=WEBHOOK_FIELDS) for page in pages.items]


async def stored_files(service: Service, task: UUID) -> list[StoredFile]:
    """Return the page and the screenshot that the result of a task holds, if they were requested, or the page that was
    stored for `max_age`."""
    row = await _row(service.database, task)
    if row is None or not _is_completed(row):
        return []
    files = []
    result = _result(row)
    known: dict[str, Any] = {"url": row["page_url"], "at": at(row["fetched_at"])}
    if html := result.get("html"):
        name: FileName = "rendered" if row["rendered"] else "raw"
        files.append(StoredFile(name, "text/html; charset=utf-8", html.encode(), **known))
    elif stored := loads(row["stored_pages"] or "{}"):
        with suppress(BlobMissing):
            page = await service.read_page(next(iter(stored.values())))
            kind = next((value for key, value in page.headers.items() if key.lower() == "content-type"), "")
            files.append(StoredFile("rendered" if page.rendered else "raw", kind, page.body, **known))
    if picture := result.get("screenshot"):
        files.append(StoredFile("screenshot", "image/png", b64decode(picture), **known))
    if printed := result.get("pdf"):
        files.append(StoredFile("pdf", "application/pdf", b64decode(printed), **known))
    return files


async def first_task(db: Database, job: UUID) -> UUID:
    """Return the first page of a job."""
    rows = await db.fetch(_FIRST, {"job": str(job)})
    if not rows:
        raise NotFound(f"There is no scrape job {job}.")
    return task_uuid(rows[0]["job"], rows[0]["task"])


async def _row(db: Database, task: UUID, *, fresh: bool = False) -> Row | None:
    numbers = task_numbers(task)
    if numbers is None:
        return None
    rows = await (db.fetch_fresh if fresh else db.fetch)(f"{_TASK} :task", {"task": numbers[1]})
    return rows[0] if rows and rows[0]["job"] == numbers[0] else None


def _page(row: Row) -> ScrapedPage:
    body = task_body(row["body"])
    requested = body if isinstance(body, dict) else {}  # a row that cannot be read is shown all the same
    completed, with_result = row["state"] == TaskState.COMPLETED, _is_completed(row)
    state = TaskState(row["state"])
    # Skipped is what the job's budget did not pay for: for its caller, the page failed.
    status: Any = TaskState.FAILED.public() if state is TaskState.SKIPPED else state.public()
    return ScrapedPage(
        task_id=task_uuid(row["job"], row["task"]),
        job_id=UUID(row["public_id"]),
        status=status,
        target_type=str(requested.get("target_type", "")),
        target_url=str(requested.get("target_url", "")),
        result=_result(row) if with_result else None,
        error=None if completed else NOT_PAID if state is TaskState.SKIPPED else row["error"],
        reason=None if completed else shown_reason(row["reason"]),
        created_at=at(row["created_at"]),
        started_at=at(row["claimed_at"]),
        completed_at=at(row["ended_at"]),
        cost_usd=usd(row["cost"]),
        meta=_source(row) if with_result else None,
    )


def _is_completed(row: Row) -> bool:
    return row["state"] == TaskState.COMPLETED and row["result"] is not None


def _result(row: Row) -> dict[str, Any]:
    fields: dict[str, Any] = loads(row["result"])
    return fields


def _source(row: Row) -> ResultSource:
    read: dict[str, Any] = {name: loads(row[name]) for name in ("provenance", "pages")}
    return ResultSource(
        page_url=row["page_url"],
        rendered=bool(row["rendered"]),
        fetched_at=at(row["fetched_at"]),
        stored=bool(row["from_store"]),
        **read,
    )


# One log line for every page that was read or could not be read (SC-15).
#
# It never contains a page's content or the query of a URL, and names a proxy only by its number.


LONGEST_REASON = 200


def page_line(settlement: Settlement) -> LogLine | None:
    """Return the line about a page that was read or could not be read; None for an attempt that is repeated."""
    task = settlement.lease.task
    if not isinstance(task, ScrapeTask) or settlement.tasks:  # its described fields follow, and have the line
        return None
    facts = settlement.facts or {}
    if settlement.state is TaskState.COMPLETED:
        read = {
            "target_domain": host_of(task.target_url),
            "target_type": task.target_type,
            "duration_ms": facts.get("api_ms", 0),
            "fields_extracted": facts.get("results_count", 0),
            "proxy_used": facts.get("proxy"),
        }
        return LogLine("info", "page_read", read)
    if settlement.state is TaskState.FAILED:
        failed = {
            "target_url": _without_query(task.target_url),
            "target_type": task.target_type,
            "proxy_used": facts.get("proxy"),
            "error_reason": _reason(settlement),
        }
        return LogLine("warning", "page_failed", failed)
    return None


def _without_query(url: str) -> str:
    parts = urlsplit(url)
    return urlunsplit((parts.scheme, host_of(url), parts.path, "", ""))


def _reason(settlement: Settlement) -> str:
    """Return the reason; the message only if there is no reason, because it may quote the page."""
    return shown_reason(settlement.reason) or (settlement.error or "unknown")[:LONGEST_REASON]
