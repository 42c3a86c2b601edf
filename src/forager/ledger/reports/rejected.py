"""Rows of a job that failed validation, in the order of their coming."""

from uuid import UUID

from forager.core.ids import task_uuid
from forager.kit.queries import Database, Page, Walk, at, job_number, loads, walk
from forager.kit.reports import RejectedReport


async def list_rejected(db: Database, job: UUID, *, cursor: str | None, limit: int) -> Page[RejectedReport]:
    plan = Walk(
        f"rejected rows of {job}",
        "SELECT id, job_id, task_id, kind, key, reason, payload, at FROM rejected",
        ("id",),
        ("job_id = :job",),
        values={"job": await job_number(db, job)},
    )
    rows, following = await walk(db, plan, cursor, limit)
    items = [
        RejectedReport(
            id=row["id"],
            task=task_uuid(row["job_id"], row["task_id"]),
            kind=row["kind"],
            key=row["key"],
            reason=row["reason"],
            payload=loads(row["payload"]),
            at=at(row["at"]),
        )
        for row in rows
    ]
    return Page(items=items, next_cursor=following)
