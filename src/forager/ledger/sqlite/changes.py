"""Writes the change log. There is one writer, so numbers are dense and in commit order without further measures."""

import sqlite3
from collections.abc import Iterable, Sequence
from typing import Any

import orjson

from forager.core.states import JobState, Reason, ended_state
from forager.ledger.rules.changes import (
    COUNTED,
    TOLD_TASK,
    Deltas,
    LoggedTask,
    NewChange,
    job_change,
    task_change,
    with_logged_state,
)
from forager.ledger.sqlite.connection import insert_many
from forager.ledger.sqlite.state import Flows, Memory, next_number


def write_changes(db: sqlite3.Connection, changes: Sequence[NewChange], now: int) -> None:
    if not changes:
        return
    first = next_number(db, "change", len(changes))
    insert_many(
        db,
        "changes (id, kind, key, op, version, job_id, at, body)",
        [
            (number, kind, key, op, version, job, now, body and body.decode())
            for number, (kind, key, op, version, job, body) in enumerate(changes, first)
        ],
    )


# Job counters: summed over a group, written once per job, exact at every commit. A job without open tasks is ended
# here.


_ADD = f"UPDATE jobs SET {', '.join(f'{c} = {c} + ?' for c in COUNTED)} WHERE id = ?"


def write_deltas(db: sqlite3.Connection, deltas: Deltas) -> None:
    db.executemany(_ADD, deltas.rows())


def finish_jobs(db: sqlite3.Connection, flows: Flows, jobs: Iterable[int], now: int) -> list[int]:
    """End those of `jobs` that have nothing queued and nothing running; each end is a change. Returns their numbers."""
    ended = db.execute(_WITHOUT_WORK, (orjson.dumps(list(jobs)).decode(),)).fetchall()
    changes = []
    for row in ended:
        job, public_id, completed, failed, skipped, cancelled_tasks, drain, refused, version = row
        state = ended_state(completed=completed, failed=failed, drain=drain, refused=bool(refused))
        db.execute(_END, (state.value, now, job))
        db.execute("DELETE FROM job_secrets WHERE job_id = ?", (job,))
        flows.forget(job)
        counts = {"completed": completed, "failed": failed, "skipped": skipped, "cancelled": cancelled_tasks}
        changes.append(job_change(job, public_id, "ended", state, version, counts))
    write_changes(db, changes, now)
    return [row[0] for row in ended]


def log_job(db: sqlite3.Connection, job: int, op: str, now: int, more: dict[str, Any] | None = None) -> None:
    """Write a change of a job in its present state."""
    public_id, state, version = db.execute(_LAST_WORD, (job,)).fetchone()
    write_changes(db, [job_change(job, public_id, op, JobState(state), version, more)], now)


# A job that ends while paused is no longer paused, so its pause reason is removed.
_END = """
UPDATE jobs SET state = ?, finished_at = ?, drain = NULL, reason = CASE WHEN state = 'paused' THEN NULL ELSE reason END
WHERE id = ?
"""
_LAST_WORD = """
SELECT public_id, state, 1 + coalesce((SELECT max(version) FROM changes WHERE kind = 'job' AND key = public_id
  AND body IS NOT NULL), 0)
FROM jobs WHERE id = ?
"""
# The version of a job's change is the number of its changes.
_WITHOUT_WORK = f"""
SELECT j.id, j.public_id, j.completed, j.failed, j.skipped, j.cancelled, j.drain,
       CASE WHEN j.completed = 0 AND j.failed = 0 AND j.skipped > 0 THEN EXISTS (
         SELECT 1 FROM tasks t WHERE t.job_id = j.id AND t.reason = '{Reason.ROBOTS.value}') ELSE 0 END,
       1 + coalesce((SELECT max(c.version) FROM changes c WHERE c.kind = 'job' AND c.key = j.public_id
         AND c.body IS NOT NULL), 0)
FROM json_each(?) g JOIN jobs j ON j.id = g.value
WHERE j.queued + j.running = 0 AND j.finished_at IS NULL AND j.state <> 'planning'
"""


# Tasks in the change log: reading those that were noted, and giving their rows a version.


_TASKS = f"SELECT {TOLD_TASK} FROM tasks WHERE id IN (SELECT value FROM json_each(?))"
_VERSIONS = """
SELECT g.value, 1 + coalesce((SELECT max(c.version) FROM changes c WHERE c.kind = 'task' AND c.key = g.value
  AND c.body IS NOT NULL), 0)
FROM json_each(?) g
"""


def logged_task_changes(db: sqlite3.Connection, memory: Memory, deltas: Deltas) -> list[NewChange]:
    """Return the rows of the log for the tasks that this transaction has ended or requeued."""
    if not deltas.logged:
        return []
    rows = db.execute(_TASKS, (orjson.dumps(list(deltas.logged)).decode(),)).fetchall()
    told = with_logged_state(memory.catalog, deltas.logged, [LoggedTask(*row) for row in rows])
    versions = dict(db.execute(_VERSIONS, (orjson.dumps(list(told)).decode(),)))
    return [task_change(name, row, versions[name]) for name, row in told.items()]
