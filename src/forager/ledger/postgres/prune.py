"""Removes old data, a page per transaction. `shared/retention.py` explains what is walked, and why in this way.

Several processes may prune at once: one of them locks a job's row and removes it, and removed rows are not found again.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from forager.core.retention import Pruned
from forager.ledger.catalog import Catalog
from forager.ledger.postgres.connection import Db
from forager.ledger.shared.job_creation import FOR_EVER_MS
from forager.ledger.shared.retention import LOOKED_AT, PAGE, Limits, Removed, choose_jobs, internal_jobs

_OF_TASKS = ("evidence", "dead", "open_keys", "attempts")
_OF_JOB = ("rejected",)
_OLD_JOBS = f"""
SELECT id, total, coalesce(finished_at < $2, false)
  AND id NOT IN (SELECT job_id FROM idempotency WHERE expires_at > $3 + {FOR_EVER_MS // 2}), created_at
FROM jobs WHERE id > $1 ORDER BY id LIMIT {LOOKED_AT}
"""
# A job that is being retried at this moment is locked, or no longer finished when it is looked at again: it stays.
_MOVE = f"""
WITH old AS MATERIALIZED (SELECT id FROM jobs WHERE id = ANY($1::bigint[]) AND finished_at < $2 FOR UPDATE SKIP LOCKED),
gone AS (DELETE FROM jobs j USING old WHERE j.id = old.id RETURNING j.*)
INSERT INTO past_jobs (id, public_id, pipeline, finished_at, clearing)
SELECT id, public_id, pipeline, finished_at, total >= {PAGE} FROM gone RETURNING id, clearing
"""
_TASKS = f"""
DELETE FROM tasks WHERE id = ANY(ARRAY(SELECT id FROM tasks WHERE job_id = ANY($1::bigint[]) LIMIT {PAGE})) RETURNING id
"""
_CLEARING = "SELECT id FROM past_jobs WHERE clearing ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED"
_DONE = f"""
SELECT t.id, t.kind, t.key, t.cost, t.guessed, t.state, (t.state = 4 OR (t.state = 5 AND t.hidden)) AND t.ended_at < $1
  AND NOT EXISTS (SELECT 1 FROM queue q WHERE q.task_id = t.id) FROM tasks t
WHERE t.job_id = $2 AND (t.kind, t.key) > ($3, $4) ORDER BY t.kind, t.key LIMIT {LOOKED_AT}
"""
_FORGET = """
WITH gone AS (DELETE FROM tasks t WHERE t.id = ANY($1::bigint[]) AND t.state IN (4, 5)
  AND NOT EXISTS (SELECT 1 FROM queue q WHERE q.task_id = t.id) RETURNING t.id, t.state, t.cost, t.guessed),
sums AS (SELECT count(*) AS n, count(*) FILTER (WHERE state = 4) AS done, coalesce(sum(cost), 0) AS cost,
  coalesce(sum(guessed), 0) AS guessed FROM gone),
counted AS (UPDATE jobs j SET total = j.total - s.n, completed = j.completed - s.done,
  failed = j.failed - (s.n - s.done), spent = j.spent - s.cost, guessed = j.guessed - s.guessed
  FROM sums s WHERE j.id = $2)
SELECT id FROM gone
"""
_ATTEMPTS = f"""
DELETE FROM attempts WHERE id = ANY(ARRAY(SELECT id FROM attempts WHERE started_at < $1 ORDER BY started_at
  LIMIT {PAGE})) RETURNING id
"""
# The newest change of a job, or of a task, that is still there stays: the version of its next one is counted from it.
_CHANGES = f"""
SELECT c.id, c.at, c.id IN (SELECT change_id FROM set_aside) OR (c.kind IN ('job', 'task')
    AND EXISTS (SELECT 1 FROM jobs j WHERE j.id = c.job_id) AND NOT EXISTS (SELECT 1 FROM changes n
      WHERE n.key = c.key AND n.version > c.version AND n.body IS NOT NULL AND n.kind = c.kind))
FROM changes c WHERE c.id > $1 AND c.id <= $2 ORDER BY c.id LIMIT {PAGE}
"""
_PAST = f"""
SELECT p.id, EXISTS (SELECT 1 FROM changes c WHERE c.job_id = p.id) FROM past_jobs p
WHERE p.id > $1 AND NOT p.clearing ORDER BY p.id LIMIT {PAGE}
"""

Walk = Callable[[Db, Catalog, Limits, Any], Awaitable[Removed]]


async def jobs(db: Db, catalog: Catalog, limits: Limits, after: Any) -> Removed:
    """Finished jobs. The tasks of a small one go with it, those of a big one before the next job is looked at."""
    cleared = await clearing(db, catalog, limits, after)
    if cleared.after is not None:
        return Removed(cleared.pruned, after=after or 0)
    rows = await db.fetch(_OLD_JOBS, after or 0, limits.jobs, limits.now)
    going, following = choose_jobs([tuple(row) for row in rows], limits)
    moved = await db.fetch(_MOVE, [number for number, _ in going], limits.jobs) if going else []
    small = [row["id"] for row in moved if not row["clearing"]]
    tasks = await _clear(db, small) if small else 0
    return Removed(Pruned(jobs=len(moved), tasks=tasks), after=following)


async def clearing(db: Db, catalog: Catalog, limits: Limits, after: Any) -> Removed:
    """Remove the remaining tasks of removed big jobs."""
    job = await db.fetchval(_CLEARING)
    if job is None:
        return Removed(Pruned())
    gone = await _clear(db, [job])
    if gone < PAGE:
        await db.execute("UPDATE past_jobs SET clearing = false WHERE id = $1", job)
    return Removed(Pruned(tasks=gone), after=job)


async def _clear(db: Db, jobs: list[int]) -> int:
    """A page of tasks, and what belongs to them; what belongs to the jobs themselves goes with the last of them."""
    tasks = [row[0] for row in await db.fetch(_TASKS, jobs)]
    for table in _OF_TASKS:
        await db.execute(f"DELETE FROM {table} WHERE task_id = ANY($1::bigint[])", tasks)
    if len(tasks) < PAGE:
        for table in _OF_JOB:
            await db.execute(f"DELETE FROM {table} WHERE job_id = ANY($1::bigint[])", jobs)
    return len(tasks)


async def messages(db: Db, catalog: Catalog, limits: Limits, after: Any) -> Removed:
    """Remove the finished tasks of our own standing jobs, also from their counters."""
    job, kind, key = after or (0, "", "")
    number = await db.fetchval(f"{internal_jobs(catalog)} AND id >= $1 ORDER BY id LIMIT 1", job)
    if number is None:
        return Removed(Pruned())
    if number != job:
        job, kind, key = number, "", ""
    rows = await db.fetch(_DONE, limits.messages, job, kind, key)
    old = [row for row in rows if row[6]][:PAGE]
    gone = [row[0] for row in await db.fetch(_FORGET, [row[0] for row in old], job)] if old else []
    for table in _OF_TASKS:
        await db.execute(f"DELETE FROM {table} WHERE task_id = ANY($1::bigint[])", gone)
    if len(old) == PAGE:
        following = (job, old[-1][1], old[-1][2])
    else:
        following = (job, rows[-1][1], rows[-1][2]) if len(rows) == LOOKED_AT else (job + 1, "", "")
    return Removed(Pruned(messages=len(gone)), after=following)


async def rejected(db: Db, catalog: Catalog, limits: Limits, after: Any) -> Removed:
    rows = await db.fetch(f"SELECT id, at FROM rejected WHERE id > $1 ORDER BY id LIMIT {PAGE}", after or 0)
    old = [row[0] for row in rows if limits.rejected is not None and row[1] < limits.rejected]
    await db.execute("DELETE FROM rejected WHERE id = ANY($1::bigint[])", old)
    return Removed(Pruned(rejected=len(old)), after=old[-1] if len(old) == PAGE else None)


async def attempts(db: Db, catalog: Catalog, limits: Limits, after: Any) -> Removed:
    gone = await db.fetch(_ATTEMPTS, limits.attempts)
    return Removed(Pruned(attempts=len(gone)), after=True if len(gone) == PAGE else None)


async def changes(db: Db, catalog: Catalog, limits: Limits, after: Any) -> Removed:
    rows = await db.fetch(_CHANGES, after or 0, limits.passed)
    old = [row for row in rows if limits.changes is not None and row[1] < limits.changes]
    gone = [row[0] for row in old if not row[2]]
    await db.execute("DELETE FROM changes WHERE id = ANY($1::bigint[])", gone)
    return Removed(Pruned(changes=len(gone)), after=old[-1][0] if len(old) == PAGE else None)


async def records(db: Db, catalog: Catalog, limits: Limits, after: Any) -> Removed:
    """Remove the job-scoped records of removed jobs, table by table."""
    tables = [table.name for table in catalog.records.values() if table.per_job]
    if not tables:
        return Removed(Pruned())
    name, last = after or (tables[0], 0)
    rows = await db.fetch(
        f"SELECT r.id, p.finished_at < $1 AND r.first_seen_at < $1 FROM {name} r LEFT JOIN past_jobs p"
        f" ON p.id = r.job_id WHERE r.id > $2 ORDER BY r.id LIMIT {LOOKED_AT}",
        limits.records,
        last,
    )
    gone = [row[0] for row in rows if row[1]][:PAGE]
    await db.execute(f"DELETE FROM {name} WHERE id = ANY($1::bigint[])", gone)
    if len(gone) == PAGE:
        return Removed(Pruned(records=PAGE), after=(name, gone[-1]))
    if len(rows) == LOOKED_AT:
        return Removed(Pruned(records=len(gone)), after=(name, rows[-1][0]))
    following = tables[tables.index(name) + 1 :]
    return Removed(Pruned(records=len(gone)), after=(following[0], 0) if following else None)


async def past_jobs(db: Db, catalog: Catalog, limits: Limits, after: Any) -> Removed:
    """Names of removed jobs that nothing refers to any more. They are small, and no user would count them."""
    if limits.changes is None:  # then each has its changes
        return Removed(Pruned())
    rows = await db.fetch(_PAST, after or 0)
    free = [row[0] for row in rows if not row[1]]
    for table in catalog.records.values():
        if table.per_job and free:
            named = f"SELECT DISTINCT job_id FROM {table.name} WHERE job_id = ANY($1::bigint[])"
            used = {row[0] for row in await db.fetch(named, free)}
            free = [job for job in free if job not in used]
    await db.execute("DELETE FROM past_jobs WHERE id = ANY($1::bigint[])", free)
    return Removed(Pruned(), after=rows[-1][0] if len(rows) == PAGE else None)


WALKS: Mapping[str, Walk] = {
    "jobs": jobs,
    "clearing": clearing,
    "messages": messages,
    "rejected": rejected,
    "attempts": attempts,
    "changes": changes,
    "records": records,
    "past_jobs": past_jobs,
}
