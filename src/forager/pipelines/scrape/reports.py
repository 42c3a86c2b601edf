"""The queries of the scrape pipeline: one page with its result, and all results of a job."""

from base64 import b64decode
from datetime import datetime
from typing import Any
from uuid import UUID

from pydantic import Field

from forager.core.blobs import FileName, StoredFile
from forager.core.errors import NotFound
from forager.core.ids import task_numbers, task_uuid
from forager.core.states import TaskState
from forager.kit.queries import Database, Page, Row, Walk, at, job_number, loads, task_body, walk
from forager.kit.reports import Report
from forager.kit.service import Service


class ScrapeResultReport(Report):
    """What was read of one page."""

    task_id: UUID
    target_type: str
    target_url: str
    page_url: str = Field(description="URL after redirects.")
    result: dict[str, Any] = Field(description="The wanted fields; one that was not found is null.")
    provenance: dict[str, Any] = Field(
        description="Source of each field that was found: page, location and confidence."
    )
    pages: list[str] = Field(description="Every page that was read.")
    rendered: bool = Field(description="By a browser.")
    fetched_at: datetime | None


class ScrapeTaskReport(Report):
    """One requested page: its state and its result."""

    id: UUID
    job: UUID
    state: str
    target_type: str
    target_url: str
    error: str | None = Field(description="Why it failed, or the error of its last attempt.")
    reason: str | None = Field(description="The same as a code, if there is one.")
    created_at: datetime
    started_at: datetime | None
    ended_at: datetime | None
    found: ScrapeResultReport | None = Field(description="Only for a completed task.")


# The task is found by its name, which is unique.
_RESULTS = """
SELECT r.*, t.id AS task, t.job_id AS job FROM (SELECT * FROM scrape_results WHERE job_id = :job) r
JOIN tasks t ON t.job_id = r.job_id AND t.kind = 'scrape.page' AND t.key = r.task_key
"""
_COLUMNS = """t.id AS task, t.job_id AS job, j.public_id, t.state, t.body, t.error, t.reason, j.created_at,
       t.claimed_at, t.ended_at, r.result, r.provenance, r.pages, r.page_url, r.rendered, r.fetched_at"""
_JOINED = """JOIN jobs j ON j.id = t.job_id
LEFT JOIN scrape_results r ON r.job_id = t.job_id AND r.task_key = t.key"""
# A caller waits for it, so everything about a page is one query.
_TASK = f"SELECT {_COLUMNS} FROM tasks_now t {_JOINED} WHERE t.kind = 'scrape.page' AND t.id ="
_FIRST = """
SELECT f.id AS task, f.job_id AS job FROM tasks f
WHERE f.job_id = (SELECT id FROM jobs WHERE public_id = :job) AND f.kind = 'scrape.page' ORDER BY f.key LIMIT 1
"""


async def results_of_job(db: Database, job: UUID) -> list[ScrapeResultReport]:
    """Return the results in the order of the request."""
    rows = await db.fetch(f"{_RESULTS} ORDER BY r.task_key", {"job": await job_number(db, job)})
    return [_result(row, target_type=row["target_type"], target_url=row["target_url"]) for row in rows]


async def pages_of_job(db: Database, job: UUID, *, cursor: str | None, limit: int) -> Page[ScrapeTaskReport]:
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
    return Page(items=[_task(row) for row in rows], next_cursor=following)


async def one_task(db: Database, task: UUID, *, fresh: bool = False) -> ScrapeTaskReport:
    """Return one page. `fresh`: it was written a moment ago. Raises `NotFound` if there is no such task."""
    numbers = task_numbers(task)
    fetch = db.fetch_fresh if fresh else db.fetch
    rows = await fetch(f"{_TASK} :task", {"task": numbers[1]}) if numbers else ()
    if not rows or numbers is None or rows[0]["job"] != numbers[0]:
        raise NotFound(f"There is no scrape task {task}.")
    return _task(rows[0])


async def stored_files(service: Service, task: UUID) -> list[StoredFile]:
    """Return the page and the screenshot that the result of a task holds, if they were requested."""
    try:
        found = (await one_task(service.database, task)).found
    except NotFound:
        return []
    if found is None:
        return []
    files = []
    known: dict[str, Any] = {"url": found.page_url, "at": found.fetched_at}
    if html := found.result.get("html"):
        name: FileName = "rendered" if found.rendered else "raw"
        files.append(StoredFile(name, "text/html; charset=utf-8", html.encode(), **known))
    if picture := found.result.get("screenshot"):
        files.append(StoredFile("screenshot", "image/png", b64decode(picture), **known))
    return files


async def first_task(db: Database, job: UUID) -> UUID:
    """Return the first page of a job."""
    rows = await db.fetch(_FIRST, {"job": str(job)})
    if not rows:
        raise NotFound(f"There is no scrape job {job}.")
    return task_uuid(rows[0]["job"], rows[0]["task"])


def _task(row: Row) -> ScrapeTaskReport:
    body = task_body(row["body"])
    asked = body if isinstance(body, dict) else {}  # a row that cannot be read is shown all the same
    target = {name: str(asked.get(name, "")) for name in ("target_type", "target_url")}
    completed = row["state"] == TaskState.COMPLETED and row["result"] is not None
    return ScrapeTaskReport(
        id=task_uuid(row["job"], row["task"]),
        job=UUID(row["public_id"]),
        state=TaskState(row["state"]).public(),
        error=row["error"],
        reason=row["reason"],
        created_at=at(row["created_at"]),
        started_at=at(row["claimed_at"]),
        ended_at=at(row["ended_at"]),
        found=_result(row, **target) if completed else None,
        **target,
    )


def _result(row: Row, *, target_type: str, target_url: str) -> ScrapeResultReport:
    whole: dict[str, Any] = {name: loads(row[name]) for name in ("result", "provenance", "pages")}
    return ScrapeResultReport(
        task_id=task_uuid(row["job"], row["task"]),
        target_type=target_type,
        target_url=target_url,
        page_url=row["page_url"],
        rendered=bool(row["rendered"]),
        fetched_at=at(row["fetched_at"]),
        **whole,
    )
