"""What scrape found: the result of one task, and all results of a job. Read only."""

from typing import Any
from uuid import UUID

from forager.core.ids import task_numbers, task_uuid
from forager.ledger.database import Database, Row
from forager.ledger.reports.jobs import job_number
from forager.ledger.reports.models import ScrapeResultReport
from forager.ledger.reports.rows import at
from forager.ledger.shared import loads

# A job has at most a hundred, so all of them are one page. The task is found by its name, which is unique.
_RESULTS = """
SELECT r.*, t.id AS task, t.job_id AS job FROM (SELECT * FROM scrape_results WHERE job_id = :job) r
JOIN tasks t ON t.job_id = r.job_id AND t.kind = 'scrape.page' AND t.key = r.task_key
"""


async def results_of_job(db: Database, job: UUID) -> list[ScrapeResultReport]:
    """In the order in which the pages were asked for."""
    rows = await db.fetch(f"{_RESULTS} ORDER BY r.task_key", {"job": await job_number(db, job)})
    return [_report(row) for row in rows]


async def result_of_task(db: Database, task: UUID) -> ScrapeResultReport | None:
    numbers = task_numbers(task)
    if numbers is None:
        return None
    rows = await db.fetch(f"{_RESULTS} WHERE t.id = :task", {"job": numbers[0], "task": numbers[1]})
    return _report(rows[0]) if rows else None


async def last_moved(db: Database, job: UUID) -> int | None:
    """When the newest change of a job was written, in milliseconds."""
    rows = await db.fetch(
        "SELECT at FROM changes WHERE job_id = (SELECT id FROM jobs WHERE public_id = :job) ORDER BY id DESC LIMIT 1",
        {"job": str(job)},
    )
    return int(rows[0]["at"]) if rows else None


def _report(row: Row) -> ScrapeResultReport:
    whole: dict[str, Any] = {name: loads(row[name]) for name in ("result", "provenance", "pages")}
    return ScrapeResultReport(
        task_id=task_uuid(row["job"], row["task"]),
        target_type=row["target_type"],
        target_url=row["target_url"],
        page_url=row["page_url"],
        rendered=bool(row["rendered"]),
        fetched_at=at(row["fetched_at"]),
        **whole,
    )
