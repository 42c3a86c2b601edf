"""Tasks in the change log: reading those that were noted, and giving their rows a version."""

import sqlite3

import orjson

from forager.ledger.shared.changelog import NewChange
from forager.ledger.shared.counting import Deltas
from forager.ledger.shared.tells import TOLD_TASK, ToldTask, task_change, worth_telling
from forager.ledger.sqlite.writer_state import Memory

_TASKS = f"SELECT {TOLD_TASK} FROM tasks WHERE id IN (SELECT value FROM json_each(?))"
_VERSIONS = """
SELECT g.value, 1 + coalesce((SELECT max(c.version) FROM changes c WHERE c.kind = 'task' AND c.key = g.value
  AND c.body IS NOT NULL), 0)
FROM json_each(?) g
"""


def told_changes(db: sqlite3.Connection, memory: Memory, deltas: Deltas) -> list[NewChange]:
    """The rows of the log for the tasks that this transaction has ended or brought back."""
    if not deltas.told:
        return []
    rows = db.execute(_TASKS, (orjson.dumps(list(deltas.told)).decode(),)).fetchall()
    told = worth_telling(memory.catalog, deltas.told, [ToldTask(*row) for row in rows])
    versions = dict(db.execute(_VERSIONS, (orjson.dumps(list(told)).decode(),)))
    return [task_change(name, row, versions[name]) for name, row in told.items()]
