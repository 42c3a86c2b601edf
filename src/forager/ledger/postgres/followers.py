"""Followers: tasks that come after others. They are released when their predecessor is completed, and skipped, with
their own followers, if it is not."""

from collections.abc import Sequence

from forager.core.states import TaskState
from forager.ledger.postgres.connection import Db
from forager.ledger.postgres.flows import Flow
from forager.ledger.postgres.tasks import TaskName
from forager.ledger.shared.counting import Deltas

_RELEASE = """
WITH t AS (UPDATE tasks SET state = 0 WHERE state = 2 AND "after" = ANY($1::bigint[]) RETURNING id)
UPDATE queue q SET state = CASE WHEN q.due > $2 THEN 1 ELSE 0 END, due = CASE WHEN q.due > $2 THEN q.due END
FROM t WHERE q.task_id = t.id AND q.state = 2 RETURNING q.lane_id, q.job_id, q.due
"""
_SKIP_FOLLOWERS = """
WITH t AS (UPDATE tasks SET state = 6, error = $2, reason = $4, error_type = NULL, ended_at = $3
           WHERE state = 2 AND "after" = ANY($1::bigint[])
           RETURNING id, job_id, followed),
q AS (DELETE FROM queue USING t WHERE queue.task_id = t.id)
SELECT id, job_id, followed FROM t
"""
# Only queued tasks: one that another session is leasing at this moment is left to it.
_SKIP = """
WITH q AS (DELETE FROM queue WHERE task_id = ANY(ARRAY(
    SELECT q.task_id FROM unnest($1::bigint[], $2::text[], $3::text[]) AS x(job_id, kind, key)
    JOIN tasks t ON t.job_id = x.job_id AND t.kind = x.kind AND t.key = x.key
    JOIN queue q ON q.task_id = t.id WHERE q.state <> 3 ORDER BY q.task_id FOR UPDATE OF q))
  AND state <> 3 RETURNING task_id, attempt)
UPDATE tasks t SET state = 6, error = $4, reason = $6, error_type = NULL, ended_at = $5,
  attempt = q.attempt FROM q WHERE t.id = q.task_id
RETURNING t.id, t.job_id, t.followed
"""


async def release_followers(db: Db, tasks: Sequence[int], now: int) -> tuple[set[Flow], dict[int, int]]:
    """Release followers. Returns the flows with ready work, and by lane when the first of the others is due."""
    ready: set[Flow] = set()
    first_due: dict[int, int] = {}
    for lane, job, due in await db.fetch(_RELEASE, sorted(tasks), now):
        if due is None:
            ready.add((lane, job))
        else:
            first_due[lane] = min(due, first_due.get(lane, due))
    return ready, first_due


async def skip_tasks(db: Db, names: Sequence[TaskName], reason: str, message: str, deltas: Deltas, now: int) -> None:
    """Skip queued tasks and their followers. `message` is their error message."""
    columns = [n[0] for n in names], [n[1] for n in names], [n[2] for n in names]
    rows = await db.fetch(_SKIP, *columns, message, now, reason)
    for row in rows:
        deltas.add(row[1], queued=-1, skipped=1)
    followers = await skip_followers(db, [row[0] for row in rows if row[2]], reason, deltas, now, message=message)
    deltas.note([*(row[0] for row in rows), *followers], TaskState.SKIPPED)


async def skip_followers(
    db: Db, tasks: Sequence[int], reason: str, deltas: Deltas, now: int, *, message: str | None = None
) -> list[int]:
    """Skip the followers of tasks that were not completed, and their followers: nothing would ever release them.

    `message` is their error message; without it, the reason. Returns the tasks that were skipped.
    """
    ended, skipped = list(tasks), list[int]()
    while ended:
        rows = await db.fetch(_SKIP_FOLLOWERS, ended, message or reason, now, reason)
        for row in rows:
            deltas.add(row[1], queued=-1, skipped=1)
        skipped.extend(row[0] for row in rows)
        ended = [row[0] for row in rows if row[2]]
    return skipped
