"""Removes old data, a page per command. `ledger/rules/upkeep.py` explains which tables are walked, and in which
order."""

import contextlib
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import orjson

from forager.core.errors import Conflict
from forager.core.states import TaskState
from forager.core.upkeep import LastNumbers, OldRecord, Pruned, RestoredJob
from forager.ledger.rules.upkeep import (
    JOB_COLUMNS,
    KEPT_COLUMNS,
    LOOKED_AT,
    PAGE,
    STANDING,
    TASK_COLUMNS,
    PageRemoved,
    PruneLimits,
    choose_jobs,
    internal_jobs,
    job_row,
    number_is_taken,
    record_row,
    task_rows,
)
from forager.ledger.schema.record_tables import RecordTable
from forager.ledger.sqlite.changes import finish_jobs
from forager.ledger.sqlite.connection import insert_many, translated
from forager.ledger.sqlite.state import Memory, offer

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

Walk = Callable[[sqlite3.Connection, Memory, PruneLimits, Any], PageRemoved]


def jobs(db: sqlite3.Connection, memory: Memory, limits: PruneLimits, after: Any) -> PageRemoved:
    """Finished jobs. The tasks of a small one go with it, those of a big one before the next job is read."""
    cleared = clearing(db, memory, limits, after)
    if cleared.after is not None:
        return PageRemoved(cleared.pruned, after=after or 0)
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
    return PageRemoved(Pruned(jobs=len(going), tasks=tasks), after=following)


def clearing(db: sqlite3.Connection, memory: Memory, limits: PruneLimits, after: Any) -> PageRemoved:
    """Remove the remaining tasks of removed big jobs."""
    row = db.execute("SELECT id FROM past_jobs WHERE clearing LIMIT 1").fetchone()
    if row is None:
        return PageRemoved(Pruned())
    gone = _clear(db, row[0], PAGE)
    if gone < PAGE:
        db.execute("UPDATE past_jobs SET clearing = false WHERE id = ?", row)
    return PageRemoved(Pruned(tasks=gone), after=row[0])


def _clear(db: sqlite3.Connection, job: int, limit: int) -> int:
    """Tasks of a job, and what belongs to them; what belongs to the job itself goes with the last of them."""
    tasks = [row[0] for row in db.execute("SELECT id FROM tasks WHERE job_id = ? LIMIT ?", (job, limit))]
    _forget_tasks(db, tasks)
    if len(tasks) < limit:
        for table in _OF_JOB:
            db.execute(f"DELETE FROM {table} WHERE job_id = ?", (job,))
    return len(tasks)


def messages(db: sqlite3.Connection, memory: Memory, limits: PruneLimits, after: Any) -> PageRemoved:
    """Remove the finished tasks of our own standing jobs, also from their counters."""
    job, kind, key = after or (0, "", "")
    row = db.execute(f"{internal_jobs(memory.catalog)} AND id >= ? ORDER BY id LIMIT 1", (job,)).fetchone()
    if row is None:
        return PageRemoved(Pruned())
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
    return PageRemoved(Pruned(messages=len(gone)), after=following)


def rejected(db: sqlite3.Connection, memory: Memory, limits: PruneLimits, after: Any) -> PageRemoved:
    rows = db.execute("SELECT id, at FROM rejected WHERE id > ? ORDER BY id LIMIT ?", (after or 0, PAGE)).fetchall()
    old = [number for number, at in rows if limits.rejected is not None and at < limits.rejected]
    _delete(db, "rejected", "id", old)
    return PageRemoved(Pruned(rejected=len(old)), after=old[-1] if len(old) == PAGE else None)


def attempts(db: sqlite3.Connection, memory: Memory, limits: PruneLimits, after: Any) -> PageRemoved:
    rows = db.execute(_ATTEMPTS, (limits.attempts,)).fetchall()
    _delete(db, "attempts", "id", [row[0] for row in rows])
    return PageRemoved(Pruned(attempts=len(rows)), after=True if len(rows) == PAGE else None)


def changes(db: sqlite3.Connection, memory: Memory, limits: PruneLimits, after: Any) -> PageRemoved:
    rows = db.execute(_CHANGES, (after or 0, limits.passed)).fetchall()
    old = [(number, stays) for number, at, stays in rows if limits.changes is not None and at < limits.changes]
    gone = [number for number, stays in old if not stays]
    _delete(db, "changes", "id", gone)
    return PageRemoved(Pruned(changes=len(gone)), after=old[-1][0] if len(old) == PAGE else None)


def records(db: sqlite3.Connection, memory: Memory, limits: PruneLimits, after: Any) -> PageRemoved:
    """Remove the job-scoped records of removed jobs, table by table."""
    tables = [table.name for table in memory.catalog.records.values() if table.per_job]
    name, last = after or (tables[0] if tables else "", 0)
    if not tables:
        return PageRemoved(Pruned())
    rows = db.execute(
        f"SELECT r.id, p.finished_at < ?1 AND r.first_seen_at < ?1 FROM {name} r LEFT JOIN past_jobs p"
        f" ON p.id = r.job_id WHERE r.id > ?2 ORDER BY r.id LIMIT {LOOKED_AT}",
        (limits.records, last),
    ).fetchall()
    gone = [number for number, is_old in rows if is_old][:PAGE]
    _delete(db, name, "id", gone)
    if len(gone) == PAGE:
        return PageRemoved(Pruned(records=PAGE), after=(name, gone[-1]))
    if len(rows) == LOOKED_AT:
        return PageRemoved(Pruned(records=len(gone)), after=(name, rows[-1][0]))
    following = tables[tables.index(name) + 1 :]
    return PageRemoved(Pruned(records=len(gone)), after=(following[0], 0) if following else None)


def past_jobs(db: sqlite3.Connection, memory: Memory, limits: PruneLimits, after: Any) -> PageRemoved:
    """Names of removed jobs that nothing refers to any more. They are small, and no user would count them."""
    if limits.changes is None:  # then each has its changes
        return PageRemoved(Pruned())
    tables = [table.name for table in memory.catalog.records.values() if table.per_job]
    rows = db.execute(_PAST, (after or 0,)).fetchall()
    free = [job for job, is_named in rows if not is_named and not any(_has(db, table, job) for table in tables)]
    _delete(db, "past_jobs", "id", free)
    return PageRemoved(Pruned(), after=rows[-1][0] if len(rows) == PAGE else None)


def space(db: sqlite3.Connection, memory: Memory, limits: PruneLimits, after: Any) -> PageRemoved:
    """Return free pages of the file to the system, a few at a time. A store created before this was supported keeps its
    free pages and reuses them."""
    db.execute(f"PRAGMA incremental_vacuum({VACUUMED})").fetchall()
    (free,), (mode,) = (db.execute(f"PRAGMA {name}").fetchone() for name in ("freelist_count", "auto_vacuum"))
    return PageRemoved(Pruned(), after=True if mode == INCREMENTAL and free > 0 else None)


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


# Removes records that are in a file of the archive, and keeps their keys. `core/upkeep.py` explains the protocol.


_COUNTS = "UPDATE archives SET state = 'moved' WHERE id = ? AND state = 'writing'"
_KEEP = """
INSERT INTO archived (kind, key, version, archive_id, archived_at) VALUES (?, ?, ?, ?, ?)
ON CONFLICT (kind, key) DO UPDATE SET version = excluded.version, archive_id = excluded.archive_id,
  archived_at = excluded.archived_at
"""
_VERSIONS = "SELECT a.key, a.version FROM json_each(?) g JOIN archived a ON a.kind = ? AND a.key = g.value"


def archive(db: sqlite3.Connection, memory: Memory, file: int, kind: str, records: Sequence[OldRecord]) -> None:
    """Remove these records and let their file count. Raises `Conflict`, so that nothing happens, if one of them is not
    as it was read or the file was forgotten."""
    table = memory.catalog.records[kind]
    if not db.execute(_COUNTS, (file,)).rowcount:
        raise Conflict("The file was considered abandoned.")
    as_read = [(record.id, record.version, record.seen_at) for record in records]
    gone = db.executemany(f"DELETE FROM {table.name} WHERE id = ? AND version = ? AND last_seen_at = ?", as_read)
    if gone.rowcount != len(records):
        raise Conflict("Some of the records were seen or changed meanwhile.")
    now = memory.now_ms()
    db.executemany(_KEEP, [(kind, record.key, record.version, file, now) for record in records])
    memory.archived.add(kind)


def archived_versions(
    db: sqlite3.Connection, memory: Memory, table: RecordTable, keys: Sequence[str]
) -> dict[str, int]:
    """Return the last version of each of these keys that is in the archive. A record that comes back continues from
    there: to a sink, the higher version is the later state."""
    if table.record.kind not in memory.archived or not keys:
        return {}
    return dict(db.execute(_VERSIONS, (orjson.dumps(keys).decode(), table.record.kind)).fetchall())


# Writes a job back as a mirror shows it: its row, its tasks in their states, its records. One transaction.


_GO_ON_FROM = """
UPDATE tail SET change = max(change, ?), claim = max(claim, ?), last_job = max(last_job, ?),
  last_task = max(last_task, ?)
"""


def restore(
    db: sqlite3.Connection, memory: Memory, job: RestoredJob, lanes: Mapping[int, str], last: LastNumbers
) -> bool:
    """Write a job. Returns False, and changes nothing, if it is there already. Raises `Conflict` if its number is
    another job's."""
    if db.execute("SELECT 1 FROM jobs WHERE public_id = ?", (str(job.id),)).fetchone():
        return False
    if db.execute("SELECT 1 FROM jobs WHERE id = ?", (job.number,)).fetchone():
        raise number_is_taken(job)
    db.execute(_GO_ON_FROM, (last.change, last.claim, last.job, last.task))
    memory.next_job, memory.next_task = max(memory.next_job, last.job + 1), max(memory.next_task, last.task + 1)
    kinds = {task.number: task.kind for task in job.tasks}
    numbers = {task: memory.lane_id(db, name, kinds[task]) for task, name in lanes.items()}
    insert_many(db, f"jobs ({', '.join(JOB_COLUMNS)})", [job_row(job)])
    if job.tasks:
        columns = ", ".join(f'"{name}"' for name in TASK_COLUMNS)
        insert_many(db, f"tasks ({columns})", task_rows(job, numbers))
    _write_records(db, memory, job)
    if not job.is_finished:
        _offer(db, memory, job, numbers)
    return True


def _write_records(db: sqlite3.Connection, memory: Memory, job: RestoredJob) -> None:
    for kind in sorted({each.record.kind for each in job.records}):
        table = memory.catalog.records[kind]
        own = [each for each in job.records if each.record.kind == kind]
        columns = ", ".join(f'"{name}"' for name in (*KEPT_COLUMNS, *table.fields))
        insert_many(db, f"{table.name} ({columns})", [record_row(table, job.number, each) for each in own])
        identity = table.record.identity
        aliases = [(identity, alias, each.record.key()) for each in own for alias in each.aliases] if identity else []
        if aliases and identity:
            insert_many(db, "aliases (identity, alias, key)", aliases, "ON CONFLICT (identity, alias) DO NOTHING")
            memory.aliased.add(identity)


def _offer(db: sqlite3.Connection, memory: Memory, job: RestoredJob, lanes: Mapping[int, int]) -> None:
    """Let the job's ready tasks be leased, unless it is paused; end what is to be drained; end a job without work."""
    if job.state == "paused" or job.drain is not None:
        memory.flows.park(job.number)
    if job.drain is not None:
        memory.flows.drain(job.number)
    for lane in sorted({lanes[task.number] for task in job.tasks if task.state is TaskState.READY}):
        offer(db, memory, lane, job.number, job.turn)
    finish_jobs(db, memory.flows, [job.number], memory.now_ms())


# Rewrites the file of an embedded store without its free space. No other process may have it open.


def compact(path: Path) -> tuple[int, int]:
    """Rewrite the file, laid out so that retention can return space from now on. Returns its size before and after.

    Needs as much free space on the disk as the store has data. A kill leaves the store as it was.
    """
    before = path.stat().st_size
    try:
        with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as db:
            db.execute("PRAGMA synchronous=FULL")
            db.execute("PRAGMA auto_vacuum=INCREMENTAL")
            db.execute("VACUUM")
            db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    except sqlite3.Error as error:
        raise translated(error) from error
    return before, path.stat().st_size
