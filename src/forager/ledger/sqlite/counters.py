"""Job counters: summed over a group, written once per job, exact at every commit. A job without open tasks is ended
here."""

import sqlite3
from collections.abc import Iterable
from typing import Any

import orjson

from forager.core.states import JobState, ended_state
from forager.ledger.shared.changelog import job_change
from forager.ledger.shared.counting import COUNTED, Deltas
from forager.ledger.sqlite.changes import write_changes
from forager.ledger.sqlite.flows import Flows

_ADD = f"UPDATE jobs SET {', '.join(f'{c} = {c} + ?' for c in COUNTED)} WHERE id = ?"


def write_deltas(db: sqlite3.Connection, deltas: Deltas) -> None:
    db.executemany(_ADD, deltas.rows())


def finish_jobs(db: sqlite3.Connection, flows: Flows, jobs: Iterable[int], now: int) -> list[int]:
    """End those of `jobs` that have nothing queued and nothing running; each end is a change. Returns their numbers."""
    ended = db.execute(_WITHOUT_WORK, (orjson.dumps(list(jobs)).decode(),)).fetchall()
    changes = []
    for row in ended:
        job, public_id, completed, failed, skipped, cancelled_tasks, drain, version = row
        state = ended_state(completed=completed, failed=failed, drain=drain)
        db.execute(_END, (state.value, now, job))
        db.execute("DELETE FROM job_secrets WHERE job_id = ?", (job,))
        flows.forget(job)
        counts = {"completed": completed, "failed": failed, "skipped": skipped, "cancelled": cancelled_tasks}
        changes.append(job_change(job, public_id, "ended", state, version, counts))
    write_changes(db, changes, now)
    return [row[0] for row in ended]


def say(db: sqlite3.Connection, job: int, op: str, now: int, more: dict[str, Any] | None = None) -> None:
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
# The version of a job's change is its number of changes so far.
_WITHOUT_WORK = """
SELECT j.id, j.public_id, j.completed, j.failed, j.skipped, j.cancelled, j.drain,
       1 + coalesce((SELECT max(c.version) FROM changes c WHERE c.kind = 'job' AND c.key = j.public_id
         AND c.body IS NOT NULL), 0)
FROM json_each(?) g JOIN jobs j ON j.id = g.value
WHERE j.queued + j.running = 0 AND j.finished_at IS NULL AND j.state <> 'planning'
"""
