"""Writing the log of attempts: those that ended here, and those that died with their worker."""

import sqlite3
from collections.abc import Sequence

import orjson

from forager.core.ledger import Settlement
from forager.core.reasons import ErrorType, Reason
from forager.ledger.shared.attempt_log import COLUMNS, DIED, GIVEN_BACK, LOST, attempt_rows
from forager.ledger.sqlite.writer_state import Memory

_KEEP = f"INSERT INTO attempts ({COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
# Of the kinds that keep every attempt, and of the one task that is given up now.
_LOST = f"""
INSERT INTO attempts ({COLUMNS})
SELECT id, attempt, claimed_at, max(0, ? - claimed_at), ?, ?, ?, ?, NULL FROM tasks
WHERE state = 3 AND session_id = ? AND (id = ? OR kind IN (SELECT value FROM json_each(?)))
"""


def keep_attempts(db: sqlite3.Connection, live: Sequence[Settlement]) -> None:
    if rows := attempt_rows(live):
        db.executemany(_KEEP, rows)


def keep_lost(
    db: sqlite3.Connection, memory: Memory, session: int, now: int, *, crashed: bool, given_up: int | None = None
) -> None:
    """Log the attempts that a dead session still held. `given_up` is the task that has crashed alone for the last
    time."""
    kinds = memory.catalog.with_attempts
    if kinds or given_up is not None:
        why = (LOST, Reason.CRASHED, ErrorType.INTERNAL, DIED) if crashed else (GIVEN_BACK, None, None, None)
        db.execute(_LOST, (now, *why, session, given_up, orjson.dumps(list(kinds)).decode()))
