"""The attempts of a task, as far as they are kept."""

from uuid import UUID

from forager.kit.queries import Database, Page, Walk, at, walk
from forager.ledger.reports.jobs import require_task
from forager.ledger.reports.models import AttemptReport

_COLUMNS = ", ".join(AttemptReport.model_fields)


async def list_attempts(db: Database, task: UUID, *, cursor: str | None, limit: int) -> Page[AttemptReport]:
    """In the order in which they ended."""
    number = (await require_task(db, task))["id"]
    source, where = f"SELECT id, {_COLUMNS} FROM attempts", ("task_id = :task",)
    plan = Walk(f"attempts of {task}", source, ("id",), where, values={"task": number})
    rows, following = await walk(db, plan, cursor, limit)
    attempts = [AttemptReport(**{**row, "started_at": at(row["started_at"])}) for row in rows]
    return Page(items=attempts, next_cursor=following)
