"""What the open tasks of a job wait for: the rows from which a reason is made. Bounded, whatever the job's size."""

from uuid import UUID

from forager.core.database import Database
from forager.core.states import QUEUED, TaskState
from forager.kit.queries import Row, at, job_number
from forager.ledger.reports.models import QueuedTask

LOOKED_AT = 200
"""Tasks at each end of a job that are looked at. A job of one lane, however long, is described by any of its tasks."""
_OPEN = ", ".join(str(int(state)) for state in QUEUED)


async def queued_tasks(db: Database, job: UUID) -> list[QueuedTask]:
    """Return some queued tasks of a job, the first and last of it by name. Empty if none of those is queued."""
    number = await job_number(db, job)
    for order in ("kind, key", "kind DESC, key DESC"):
        rows = await db.fetch(
            f"SELECT t.state, t.due, t.offered, t.error, t.reason, l.name AS lane"
            f" FROM (SELECT id FROM tasks WHERE job_id = :job ORDER BY {order} LIMIT {LOOKED_AT}) w"
            f" JOIN tasks_now t ON t.id = w.id JOIN lanes l ON l.id = t.lane_id WHERE t.state IN ({_OPEN})",
            {"job": number},
        )
        if rows:
            return [_queued(row) for row in rows]
    return []


async def queued_by_lane(db: Database, pipeline: str) -> list[tuple[str, TaskState, int]]:
    """Count the queued tasks of a pipeline's open jobs by lane and state. Reads each of them: for short queues only."""
    rows = await db.fetch(
        f"SELECT l.name AS lane, t.state, count(*) AS tasks FROM jobs j JOIN tasks_now t ON t.job_id = j.id"
        f" JOIN lanes l ON l.id = t.lane_id WHERE j.finished_at IS NULL AND j.pipeline = :pipeline"
        f" AND t.state IN ({_OPEN}) GROUP BY l.name, t.state",
        {"pipeline": pipeline},
    )
    return [(row["lane"], TaskState(row["state"]), int(row["tasks"])) for row in rows]


def _queued(row: Row) -> QueuedTask:
    known = {name: row[name] for name in ("lane", "error", "reason")}
    return QueuedTask(state=TaskState(row["state"]), due_at=at(row["due"]), is_offered=bool(row["offered"]), **known)
