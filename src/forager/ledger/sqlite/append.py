"""Adds tasks to a standing job: one transaction finds or creates it, adds the tasks that it does not have yet, and
reopens it."""

import sqlite3
from collections.abc import Sequence
from uuid import UUID

from forager.core.ledger import NewJob, Submitted
from forager.core.states import TERMINAL_JOBS
from forager.ledger.shared.counting import Deltas
from forager.ledger.shared.job_creation import being_cancelled
from forager.ledger.shared.plan_encoding import Encoded, Whole
from forager.ledger.sqlite.again import place, reopen
from forager.ledger.sqlite.changes import write_changes
from forager.ledger.sqlite.counters import finish_jobs, say, write_deltas
from forager.ledger.sqlite.submit import create_whole
from forager.ledger.sqlite.tasks import insert_tasks
from forager.ledger.sqlite.tells import told_changes
from forager.ledger.sqlite.writer_state import Memory

_STANDING = """
SELECT j.id, j.public_id, j.state, j.drain, j.turn FROM idempotency i JOIN jobs j ON j.id = i.job_id WHERE i.key = ?
"""


def append(
    db: sqlite3.Connection, memory: Memory, job: NewJob, plans: Sequence[Encoded], *, again: bool = False
) -> Submitted:
    row = db.execute(_STANDING, (job.idempotency_key,)).fetchone()
    if row is None:
        (submitted,) = create_whole(db, memory, [Whole(job, plans)])
        return submitted
    number, public_id, state, drain, turn = row
    if drain is not None:
        raise being_cancelled(public_id)
    deltas = memory.catalog.deltas()
    reopened = reopen(db, memory, number, plans, deltas) if again else {}
    written = insert_tasks(db, memory, number, turn, plans, deltas)
    if reopened:
        place(db, memory, number, turn, reopened, deltas)
    count = written + len(reopened)
    if count:
        _go_on(db, memory, number, state, deltas)
    return Submitted(UUID(public_id), count, created=False)


def _go_on(db: sqlite3.Connection, memory: Memory, job: int, state: str, deltas: Deltas) -> None:
    now = memory.now_ms()
    write_deltas(db, deltas)
    write_changes(db, told_changes(db, memory, deltas), now)
    if state in TERMINAL_JOBS:
        db.execute("UPDATE jobs SET state = 'running', finished_at = NULL WHERE id = ?", (job,))
        say(db, job, "extended", now)
    finish_jobs(db, memory.flows, [job], now)  # if all of them were skipped at once
