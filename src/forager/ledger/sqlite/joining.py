"""At most one open task per key, over all jobs, for kinds that declare it: a second one is skipped and names the
first."""

import sqlite3
from collections.abc import Iterable

import orjson

from forager.core.reasons import Reason
from forager.core.states import AFTER_FAILED
from forager.ledger.shared.counting import Deltas
from forager.ledger.shared.joining import joined
from forager.ledger.sqlite.followers import skip_followers
from forager.ledger.sqlite.writer_state import Memory

# CROSS JOIN keeps the order: the planner would rather walk all tasks of the job, and the whole list for each of them.
_NEW = """
SELECT t.id FROM json_each(?) g CROSS JOIN tasks t ON t.id = g.value
WHERE t.job_id = ? AND t.kind IN (SELECT value FROM json_each(?)) AND t.state IN (0, 1, 2)
"""
_JOINS = """
SELECT n.id, n.followed, o.job_id, o.id FROM json_each(?) g JOIN tasks n ON n.id = g.value
JOIN open_keys k ON k.kind = n.kind AND k.key = n.key JOIN tasks o ON o.id = k.task_id
WHERE o.id <> n.id AND o.state IN (0, 1, 2, 3, 8)
"""
_TAKE = """
INSERT INTO open_keys (kind, key, task_id) SELECT t.kind, t.key, t.id FROM json_each(?) g JOIN tasks t ON t.id = g.value
WHERE true ON CONFLICT (kind, key) DO UPDATE SET task_id = excluded.task_id
"""
_END = """
UPDATE tasks SET state = 6, reason = ?, error = ?, error_type = NULL, facts = ?, ended_at = ?, due = NULL WHERE id = ?
"""


def join_open(db: sqlite3.Connection, memory: Memory, job: int, tasks: Iterable[int], deltas: Deltas) -> int:
    """Skip a job's newly queued tasks whose key has an open task already. Returns how many."""
    if not memory.catalog.one_open:
        return 0
    kinds = orjson.dumps(list(memory.catalog.one_open)).decode()
    new = [row[0] for row in db.execute(_NEW, (_json(tasks), job, kinds))]
    if not new:
        return 0
    now, joins = memory.now_ms(), db.execute(_JOINS, (_json(new),)).fetchall()
    for number, _, first_job, first in joins:
        error, facts = joined(first_job, first)
        db.execute(_END, (Reason.JOINED, error, facts, now, number))
    deltas.add(job, queued=-len(joins), skipped=len(joins))
    second = {row[0] for row in joins}
    db.execute(_TAKE, (_json(number for number in new if number not in second),))
    for number, followed, _, _ in joins:
        if followed:
            skip_followers(db, number, job, AFTER_FAILED, deltas, now)
    return len(joins)


def _json(numbers: Iterable[int]) -> str:
    return orjson.dumps(list(numbers)).decode()
