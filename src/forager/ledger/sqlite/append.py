"""Adds tasks to a standing job: one transaction finds or creates it, adds the tasks that it does not have yet, and
reopens it."""

import sqlite3
from collections.abc import Mapping, Sequence
from uuid import UUID

import orjson

from forager.core.clock import Faults
from forager.core.ledger import NewJob, Submitted
from forager.core.states import AFTER_FAILED, TERMINAL_JOBS, TaskState
from forager.ledger.rules.changes import COUNTER_OF, Deltas
from forager.ledger.rules.jobs import Encoded, Whole, being_cancelled
from forager.ledger.rules.recheck import POSTPONED_MS, DueRow, RecheckPage, Taken
from forager.ledger.sqlite.changes import finish_jobs, log_job, logged_task_changes, write_changes, write_deltas
from forager.ledger.sqlite.state import Memory, offer, sleep_until
from forager.ledger.sqlite.submit import create_whole
from forager.ledger.sqlite.tasks import insert_tasks, join_open, predecessor, skip_followers, waiting_until

# Requeues tasks that have ended, with a new plan; their history stays.


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
    write_changes(db, logged_task_changes(db, memory, deltas), now)
    if state in TERMINAL_JOBS:
        db.execute("UPDATE jobs SET state = 'running', finished_at = NULL WHERE id = ?", (job,))
        log_job(db, job, "extended", now)
    finish_jobs(db, memory.flows, [job], now)  # if all of them were skipped at once


# Due records become tasks: their due times are cleared and the tasks added in one transaction.


# Updates by the row's id, and only if the record is unchanged since it was read: a step may have settled it since.
_SET = """
UPDATE {table} SET {due} = ?2 WHERE id IN (
  SELECT r.id FROM json_each(?1) g JOIN {table} r ON r.id = g.value ->> 0
  WHERE r.{due} IS g.value ->> 1 AND r.version = g.value ->> 2)
RETURNING id
"""
_NOTE = """
INSERT INTO rechecks (name, dispatched, last_at, error, error_at) VALUES (?1, ?2, ?3, ?4, ?5)
ON CONFLICT (name) DO UPDATE SET dispatched = dispatched + excluded.dispatched, last_at = excluded.last_at,
  error = excluded.error, error_at = excluded.error_at
"""


def dispatch(db: sqlite3.Connection, memory: Memory, page: RecheckPage, faults: Faults) -> Taken:
    name = page.recheck.name
    row = db.execute("SELECT paused FROM rechecks WHERE name = ?", (name,)).fetchone()
    if row is not None and row[0]:
        return Taken()
    statement = _SET.format(table=page.table, due=page.recheck.due)
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
