"""At most one open task per key, over all jobs, for kinds that declare it: a second one is skipped and names the
first.

A first task that only waits for its own time (`Plan.due`) becomes due with a second one that was submitted, if that is
sooner. A watch, a child task or a retry leaves it as it is: it must not use up the time that a person chose.
"""

import sqlite3
from collections.abc import Iterable

import orjson

from forager.core.reasons import Reason
from forager.core.states import AFTER_FAILED, TaskState
from forager.ledger.shared.counting import Deltas
from forager.ledger.shared.joining import joined
from forager.ledger.sqlite.followers import skip_followers
from forager.ledger.sqlite.writer_state import Memory, sleep_until

# CROSS JOIN keeps the order: the planner would rather walk all tasks of the job, and the whole list for each of them.
_NEW = """
SELECT t.id FROM json_each(?) g CROSS JOIN tasks t ON t.id = g.value
WHERE t.job_id = ? AND t.kind IN (SELECT value FROM json_each(?)) AND t.state IN (0, 1, 2)
"""
_JOINS = """
SELECT n.id, n.followed, o.job_id, o.id, n.due, n.state FROM json_each(?) g JOIN tasks n ON n.id = g.value
JOIN open_keys k ON k.kind = n.kind AND k.key = n.key JOIN tasks o ON o.id = k.task_id
WHERE o.id <> n.id AND o.state IN (0, 1, 2, 3, 8)
"""
# Only a task that waits for its own time. A retry or a snooze keeps its delay.
_HASTEN = """
UPDATE tasks SET due = ?2 WHERE id = ?1 AND state = 1 AND attempt = 0 AND reason IS NULL AND due > ?2 RETURNING lane_id
"""
_TAKE = """
INSERT INTO open_keys (kind, key, task_id) SELECT t.kind, t.key, t.id FROM json_each(?) g JOIN tasks t ON t.id = g.value
WHERE true ON CONFLICT (kind, key) DO UPDATE SET task_id = excluded.task_id
"""
_END = """
UPDATE tasks SET state = 6, reason = ?, error = ?, error_type = NULL, facts = ?, ended_at = ?, due = NULL WHERE id = ?
"""


def join_open(
    db: sqlite3.Connection, memory: Memory, job: int, tasks: Iterable[int], deltas: Deltas, *, hasten: bool = False
) -> int:
    """Skip a job's newly queued tasks whose key has an open task already. Returns how many.

    `hasten`: the tasks were submitted, so that an open task which waits for its own time becomes due when the new one
    would have been, if that is sooner.
    """
    if not memory.catalog.one_open:
        return 0
    kinds = orjson.dumps(list(memory.catalog.one_open)).decode()
    new = [row[0] for row in db.execute(_NEW, (_json(tasks), job, kinds))]
    if not new:
        return 0
    now, joins = memory.now_ms(), db.execute(_JOINS, (_json(new),)).fetchall()
    for number, _, first_job, first, due, state in joins:
        if hasten and state != TaskState.HELD:  # a task behind a predecessor has no time of its own yet
            _make_due(db, memory, first, now if due is None else due)
        error, facts = joined(first_job, first)
        db.execute(_END, (Reason.JOINED, error, facts, now, number))
    deltas.add(job, queued=-len(joins), skipped=len(joins))
    second = {row[0] for row in joins}
    db.execute(_TAKE, (_json(number for number in new if number not in second),))
    for number, followed, *_ in joins:
        if followed:
            skip_followers(db, number, job, AFTER_FAILED, deltas, now)
    return len(joins)


def _make_due(db: sqlite3.Connection, memory: Memory, task: int, due: int) -> None:
    for (lane,) in db.execute(_HASTEN, (task, due)).fetchall():
        sleep_until(db, memory, lane, due)


def _json(numbers: Iterable[int]) -> str:
    return orjson.dumps(list(numbers)).decode()
