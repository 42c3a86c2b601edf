"""Due records become tasks: their due times are cleared and the tasks added in one transaction."""

import sqlite3
from collections.abc import Sequence

import orjson

from forager.core.faults import Faults
from forager.ledger.shared.watch_page import POSTPONED_MS, DueRow, Taken, WatchPage
from forager.ledger.sqlite.append import append
from forager.ledger.sqlite.writer_state import Memory

# By the row's id, and only if the record is as it was read: a step may have settled it since.
_SET = """
UPDATE {table} SET {due} = ?2 WHERE id IN (
  SELECT r.id FROM json_each(?1) g JOIN {table} r ON r.id = g.value ->> 0
  WHERE r.{due} IS g.value ->> 1 AND r.version = g.value ->> 2)
RETURNING id
"""
_NOTE = """
INSERT INTO watches (name, dispatched, last_at, error, error_at) VALUES (?1, ?2, ?3, ?4, ?5)
ON CONFLICT (name) DO UPDATE SET dispatched = dispatched + excluded.dispatched, last_at = excluded.last_at,
  error = excluded.error, error_at = excluded.error_at
"""


def dispatch(db: sqlite3.Connection, memory: Memory, page: WatchPage, faults: Faults) -> Taken:
    name = page.watch.name
    row = db.execute("SELECT paused FROM watches WHERE name = ?", (name,)).fetchone()
    if row is not None and row[0]:
        return Taken()
    statement = _SET.format(table=page.table, due=page.watch.due)
    taken = _set(db, statement, list(page.rows.values()), None)
    plans = page.plans_of(taken)
    tasks = append(db, memory, page.job, plans, again=True).total if plans else 0
    postponed = _set(db, statement, page.postponed, page.now + POSTPONED_MS)
    if taken or postponed:
        db.execute(_NOTE, (name, len(taken), page.now, page.error, page.error_at))
    faults.at("dispatched")
    return Taken(len(taken), tasks, len(postponed))


def _set(db: sqlite3.Connection, statement: str, rows: Sequence[DueRow], due: int | None) -> list[int]:
    """Write this due time into those records that have not changed. Returns their ids, in the order of `rows`."""
    if not rows:
        return []
    changed = {
        number
        for (number,) in db.execute(statement, (orjson.dumps([tuple(row) for row in rows]).decode(), due)).fetchall()
    }
    return [row.id for row in rows if row.id in changed]
