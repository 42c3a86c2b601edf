"""Removes old data, a page per command. `shared/retention.py` explains what is walked, and why in this way."""

import sqlite3
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import orjson

from forager.core.retention import Pruned
from forager.ledger.shared.retention import LOOKED_AT, PAGE, STANDING, Limits, Removed, choose_jobs, internal_jobs
from forager.ledger.sqlite.writer_state import Memory

VACUUMED = 500
"""Database pages that are returned to the system at once: 2 MB."""

INCREMENTAL = 2

_OF_TASKS = ("evidence", "open_keys", "attempts")
_OF_JOB = ("rejected",)
_OLD_JOBS = f"""
SELECT id, total, coalesce(finished_at < :jobs, false) AND id NOT IN ({STANDING}), created_at FROM jobs
WHERE id > :after ORDER BY id LIMIT {LOOKED_AT}
"""
_MOVE = """
INSERT INTO past_jobs (id, public_id, pipeline, finished_at, clearing)
SELECT id, public_id, pipeline, finished_at, ? FROM jobs WHERE id = ?
"""
_DONE = f"""
SELECT id, kind, key, cost, guessed, state, (state = 4 OR (state = 5 AND hidden)) AND ended_at < ? FROM tasks
WHERE job_id = ? AND (kind, key) > (?, ?) ORDER BY kind, key LIMIT {LOOKED_AT}
"""
_FORGET = """
UPDATE jobs SET total = total - ?, completed = completed - ?, failed = failed - ?, spent = spent - ?,
  guessed = guessed - ? WHERE id = ?
"""
_ATTEMPTS = f"SELECT id FROM attempts WHERE started_at < ? ORDER BY started_at LIMIT {PAGE}"
# The newest change of a job, or of a task, that is still there stays: the version of its next one is counted from it.
_CHANGES = f"""
SELECT c.id, c.at, c.id IN (SELECT change_id FROM set_aside) OR (c.kind IN ('job', 'task')
    AND EXISTS (SELECT 1 FROM jobs j WHERE j.id = c.job_id) AND NOT EXISTS (SELECT 1 FROM changes n
      WHERE n.key = c.key AND n.version > c.version AND n.body IS NOT NULL AND n.kind = c.kind))
FROM changes c WHERE c.id > ? AND c.id <= ? ORDER BY c.id LIMIT {PAGE}
"""
_PAST = f"""
SELECT p.id, EXISTS (SELECT 1 FROM changes c WHERE c.job_id = p.id) FROM past_jobs p
WHERE p.id > ? AND NOT p.clearing ORDER BY p.id LIMIT {PAGE}
"""

Walk = Callable[[sqlite3.Connection, Memory, Limits, Any], Removed]


def jobs(db: sqlite3.Connection, memory: Memory, limits: Limits, after: Any) -> Removed:
    """Finished jobs. The tasks of a small one go with it, those of a big one before the next job is looked at."""
    cleared = clearing(db, memory, limits, after)
    if cleared.after is not None:
        return Removed(cleared.pruned, after=after or 0)
    rows = db.execute(_OLD_JOBS, {"jobs": limits.jobs, "now": limits.now, "after": after or 0}).fetchall()
    going, following = choose_jobs(rows, limits)
    tasks = 0
    for number, total in going:
        db.execute(_MOVE, (total >= PAGE, number))
        tasks += _clear(db, number, PAGE) if total < PAGE else 0
        db.execute("DELETE FROM jobs WHERE id = ?", (number,))
    if going:  # a number is never given again, also not after a restart
        highest = (memory.next_job - 1, memory.next_task - 1)
        db.execute("UPDATE tail SET last_job = max(last_job, ?), last_task = max(last_task, ?)", highest)
    return Removed(Pruned(jobs=len(going), tasks=tasks), after=following)


def clearing(db: sqlite3.Connection, memory: Memory, limits: Limits, after: Any) -> Removed:
    """Remove the remaining tasks of removed big jobs."""
    row = db.execute("SELECT id FROM past_jobs WHERE clearing LIMIT 1").fetchone()
    if row is None:
        return Removed(Pruned())
    gone = _clear(db, row[0], PAGE)
    if gone < PAGE:
        db.execute("UPDATE past_jobs SET clearing = false WHERE id = ?", row)
    return Removed(Pruned(tasks=gone), after=row[0])


def _clear(db: sqlite3.Connection, job: int, limit: int) -> int:
    """Tasks of a job, and what belongs to them; what belongs to the job itself goes with the last of them."""
    tasks = [row[0] for row in db.execute("SELECT id FROM tasks WHERE job_id = ? LIMIT ?", (job, limit))]
    _forget_tasks(db, tasks)
    if len(tasks) < limit:
        for table in _OF_JOB:
            db.execute(f"DELETE FROM {table} WHERE job_id = ?", (job,))
    return len(tasks)


def messages(db: sqlite3.Connection, memory: Memory, limits: Limits, after: Any) -> Removed:
    """Remove the finished tasks of our own standing jobs, also from their counters."""
    job, kind, key = after or (0, "", "")
    row = db.execute(f"{internal_jobs(memory.catalog)} AND id >= ? ORDER BY id LIMIT 1", (job,)).fetchone()
    if row is None:
        return Removed(Pruned())
    if row[0] != job:
        (job,), kind, key = row, "", ""
    rows = db.execute(_DONE, (limits.messages, job, kind, key)).fetchall()
    gone = [task for task in rows if task[6]][:PAGE]
    _forget_tasks(db, [task[0] for task in gone])
    done = sum(task[5] == 4 for task in gone)
    cost, guessed = sum(task[3] for task in gone), sum(task[4] for task in gone)
    db.execute(_FORGET, (len(gone), done, len(gone) - done, cost, guessed, job))
    if len(gone) == PAGE:
        following = (job, *gone[-1][1:3])
    else:
        following = (job, *rows[-1][1:3]) if len(rows) == LOOKED_AT else (job + 1, "", "")
    return Removed(Pruned(messages=len(gone)), after=following)


def rejected(db: sqlite3.Connection, memory: Memory, limits: Limits, after: Any) -> Removed:
    rows = db.execute("SELECT id, at FROM rejected WHERE id > ? ORDER BY id LIMIT ?", (after or 0, PAGE)).fetchall()
    old = [number for number, at in rows if limits.rejected is not None and at < limits.rejected]
    _delete(db, "rejected", "id", old)
    return Removed(Pruned(rejected=len(old)), after=old[-1] if len(old) == PAGE else None)


def attempts(db: sqlite3.Connection, memory: Memory, limits: Limits, after: Any) -> Removed:
    rows = db.execute(_ATTEMPTS, (limits.attempts,)).fetchall()
    _delete(db, "attempts", "id", [row[0] for row in rows])
    return Removed(Pruned(attempts=len(rows)), after=True if len(rows) == PAGE else None)


def changes(db: sqlite3.Connection, memory: Memory, limits: Limits, after: Any) -> Removed:
    rows = db.execute(_CHANGES, (after or 0, limits.passed)).fetchall()
    old = [(number, stays) for number, at, stays in rows if limits.changes is not None and at < limits.changes]
    gone = [number for number, stays in old if not stays]
    _delete(db, "changes", "id", gone)
    return Removed(Pruned(changes=len(gone)), after=old[-1][0] if len(old) == PAGE else None)


def records(db: sqlite3.Connection, memory: Memory, limits: Limits, after: Any) -> Removed:
    """Remove the job-scoped records of removed jobs, table by table."""
    tables = [table.name for table in memory.catalog.records.values() if table.per_job]
    name, last = after or (tables[0] if tables else "", 0)
    if not tables:
        return Removed(Pruned())
    rows = db.execute(
        f"SELECT r.id, p.finished_at < ?1 AND r.first_seen_at < ?1 FROM {name} r LEFT JOIN past_jobs p"
        f" ON p.id = r.job_id WHERE r.id > ?2 ORDER BY r.id LIMIT {LOOKED_AT}",
        (limits.records, last),
    ).fetchall()
    gone = [number for number, is_old in rows if is_old][:PAGE]
    _delete(db, name, "id", gone)
    if len(gone) == PAGE:
        return Removed(Pruned(records=PAGE), after=(name, gone[-1]))
    if len(rows) == LOOKED_AT:
        return Removed(Pruned(records=len(gone)), after=(name, rows[-1][0]))
    following = tables[tables.index(name) + 1 :]
    return Removed(Pruned(records=len(gone)), after=(following[0], 0) if following else None)


def past_jobs(db: sqlite3.Connection, memory: Memory, limits: Limits, after: Any) -> Removed:
    """Names of removed jobs that nothing refers to any more. They are small, and no user would count them."""
    if limits.changes is None:  # then each has its changes
        return Removed(Pruned())
    tables = [table.name for table in memory.catalog.records.values() if table.per_job]
    rows = db.execute(_PAST, (after or 0,)).fetchall()
    free = [job for job, is_named in rows if not is_named and not any(_has(db, table, job) for table in tables)]
    _delete(db, "past_jobs", "id", free)
    return Removed(Pruned(), after=rows[-1][0] if len(rows) == PAGE else None)


def space(db: sqlite3.Connection, memory: Memory, limits: Limits, after: Any) -> Removed:
    """Return free pages of the file to the system, a few at a time. A store created before this was supported keeps its
    free pages and reuses them."""
    db.execute(f"PRAGMA incremental_vacuum({VACUUMED})").fetchall()
    (free,), (mode,) = (db.execute(f"PRAGMA {name}").fetchone() for name in ("freelist_count", "auto_vacuum"))
    return Removed(Pruned(), after=True if mode == INCREMENTAL and free > 0 else None)


WALKS: Mapping[str, Walk] = {
    "jobs": jobs,
    "clearing": clearing,
    "messages": messages,
    "rejected": rejected,
    "attempts": attempts,
    "changes": changes,
    "records": records,
    "past_jobs": past_jobs,
    "space": space,
}


def _forget_tasks(db: sqlite3.Connection, tasks: Sequence[int]) -> None:
    for table in _OF_TASKS:
        _delete(db, table, "task_id", tasks)
    _delete(db, "tasks", "id", tasks)


def _has(db: sqlite3.Connection, table: str, job: int) -> bool:
    return db.execute(f"SELECT 1 FROM {table} WHERE job_id = ? LIMIT 1", (job,)).fetchone() is not None


def _delete(db: sqlite3.Connection, table: str, column: str, numbers: Sequence[int]) -> None:
    if numbers:
        db.execute(
            f"DELETE FROM {table} WHERE {column} IN (SELECT value FROM json_each(?))", (orjson.dumps(numbers).decode(),)
        )
