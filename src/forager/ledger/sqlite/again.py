"""Requeues tasks that have ended, with a new plan; their history stays."""

import sqlite3
from collections.abc import Mapping, Sequence

import orjson

from forager.core.states import AFTER_FAILED, TaskState
from forager.ledger.shared.counting import COUNTER_OF, Deltas
from forager.ledger.shared.plan_encoding import Encoded
from forager.ledger.sqlite.followers import skip_followers
from forager.ledger.sqlite.joining import join_open
from forager.ledger.sqlite.tasks import predecessor, waiting_until
from forager.ledger.sqlite.writer_state import Memory, offer, sleep_until

# CROSS JOIN keeps the order: the planner would rather walk all tasks of the job, and the whole list for each of them.
_ENDED = """
SELECT t.id, t.state, g.key FROM json_each(?) g CROSS JOIN tasks t
ON t.job_id = ? AND t.kind = g.value ->> 0 AND t.key = g.value ->> 1 WHERE t.state IN (4, 5, 6, 7)
"""
_AGAIN = """
UPDATE tasks SET state = ?, due = ?, lane_id = ?, rank = ?, price = ?, retries = ?, body = ?, "after" = NULL,
  attempt = 0, crashes = 0, waiting_crashes = 0,
  together = NULL, hidden = 0, ended_at = NULL, error = NULL, reason = NULL,
  error_type = NULL, waited = NULL, waited_until = NULL WHERE id = ?
"""


def reopen(
    db: sqlite3.Connection, memory: Memory, job: int, plans: Sequence[Encoded], deltas: Deltas
) -> dict[int, Encoded]:
    """Requeue those of the planned tasks that have ended, and count them. Returns their plans by task number.

    `place` handles their predecessors once the new tasks among the plans are written as well.
    """
    names = orjson.dumps([(plan.kind, plan.key) for plan in plans]).decode()
    tasks: dict[int, Encoded] = {}
    now = memory.now_ms()
    for number, state, place in db.execute(_ENDED, (names, job)).fetchall():
        plan = tasks[number] = plans[place]
        at, due = (int(TaskState.READY), None) if plan.due is None else waiting_until(plan.due, now)
        lane = memory.lane_id(db, plan.lane, plan.kind)
        db.execute(_AGAIN, (at, due, lane, plan.rank, plan.price, plan.retries, plan.body, number))
        deltas.add(job, queued=1, **{COUNTER_OF[TaskState(state)]: -1})
        deltas.note_back([number], TaskState(state))
    return tasks


def place(
    db: sqlite3.Connection, memory: Memory, job: int, turn: int, tasks: Mapping[int, Encoded], deltas: Deltas
) -> int:
    """Hold those that come after another, skip those whose key another task has; returns how many were skipped."""
    dead_ends: set[int] = set()
    for number, plan in tasks.items():
        lane = memory.lane_id(db, plan.lane)
        if plan.after is not None:
            first, state = predecessor(db, job, plan.kind, plan.after, dead_ends)
            db.execute('UPDATE tasks SET "after" = ? WHERE id = ?', (first, number))
            if state == TaskState.HELD:
                db.execute("UPDATE tasks SET state = 2, due = ? WHERE id = ?", (plan.due, number))
                db.execute("UPDATE tasks SET followed = 1 WHERE id = ?", (first,))
                continue
        if plan.due is None or plan.due <= memory.now_ms():
            offer(db, memory, lane, job, turn)
        else:
            sleep_until(db, memory, lane, plan.due)
    for task in dead_ends:
        skip_followers(db, task, job, AFTER_FAILED, deltas, memory.now_ms())
    return join_open(db, memory, job, tasks, deltas)
