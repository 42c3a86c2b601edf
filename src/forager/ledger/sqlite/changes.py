"""Writes the change log. There is one writer, so numbers are dense and in commit order without further measures."""

import sqlite3
from collections.abc import Sequence

from forager.ledger.shared.changelog import NewChange
from forager.ledger.sqlite.bulk import insert_many
from forager.ledger.sqlite.writer_state import next_number


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
