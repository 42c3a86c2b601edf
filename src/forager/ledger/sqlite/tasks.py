"""Writes tasks: those of new jobs, further chunks of a big job, and tasks that a task or an append adds to a running
job."""

import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from operator import attrgetter
from typing import Any, NamedTuple

import orjson

from forager.core.errors import Conflict
from forager.core.states import AFTER_FAILED, Reason, TaskState
from forager.ledger.rules.changes import Deltas
from forager.ledger.rules.jobs import CHUNK, Encoded, joined
from forager.ledger.sqlite.connection import MANY, TOGETHER, insert_many
from forager.ledger.sqlite.state import Memory, offer, sleep_until

# Followers: tasks that come after others. They are skipped, with their own followers, if their predecessor is not
# completed.


_SKIP_FOLLOWERS = """
UPDATE tasks SET state = 6, error = ?, reason = ?, error_type = NULL, ended_at = ? WHERE state = 2 AND "after" = ?
RETURNING id, followed
"""


def skip_followers(
    db: sqlite3.Connection, task: int, job: int, reason: str, deltas: Deltas, now: int, *, message: str | None = None
) -> list[int]:
    """Skip the followers of a task that was not completed, and their followers: nothing would ever release them.

    `message` is their error message; without it, the reason. Returns the tasks that were skipped.
    """
    ended, skipped = [task], list[int]()
    while ended:
        rows = db.execute(_SKIP_FOLLOWERS, (message or reason, reason, now, ended.pop())).fetchall()
        deltas.add(job, queued=-len(rows), skipped=len(rows))
        skipped.extend(number for number, _ in rows)
        ended.extend(number for number, followed in rows if followed)
    return skipped


# At most one open task per key, over all jobs, for kinds that declare it: a second one is skipped and names the first.
#
# A first task that only waits for its own time (`Plan.due`) becomes due with a second one that was submitted, if that
# is sooner. A recheck, a child task or a retry leaves it as it is: it must not use up the time that a person chose.


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

    `hasten`: the tasks were submitted by a job. An open task that waits for its due time then becomes due when the new
    task would have been, if that is sooner.
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


_AFTER = attrgetter("after")


class TaskRows(NamedTuple):
    """Tasks on their way into the table."""

    first: int
    """The number of the first of them."""
    rows: list[tuple[Any, ...]]
    ready: set[int]
    """The lanes of those that can run at once."""
    due: dict[int, int]
    """The earliest due time of waiting tasks, by lane."""
    before: dict[int, tuple[int, int]]
    """Followers by number: the number of their predecessor, and their own initial state."""
    followed: set[int]
    dead_ends: set[int]
    """Predecessors that have ended without being completed: their followers will never be released."""


def insert_tasks(
    db: sqlite3.Connection,
    memory: Memory,
    job: int,
    turn: int,
    plans: Sequence[Encoded],
    deltas: Deltas,
    *,
    hasten: bool = False,
) -> int:
    """Write those tasks that the job does not have yet, and count them. Returns how many.

    A task whose predecessor has failed is skipped at once, and so is one whose key another open task has; `hasten` as
    for `join_open`.
    """
    first, rows, ready, due, before, followed, dead_ends = task_rows(db, memory, job, plans)
    changed = db.total_changes
    write_rows(db, rows)
    written = db.total_changes - changed
    db.executemany("UPDATE tasks SET followed = 1 WHERE id = ?", [(n,) for n in followed if n < first])
    if written < len(plans):
        numbered = dict(enumerate(plans, first))
        ready |= {memory.lane_id(db, name) for name in _follow_the_first(db, memory, job, numbered, before, dead_ends)}
    for lane in ready:
        offer(db, memory, lane, job, turn)
    for lane, at in due.items():
        sleep_until(db, memory, lane, at)
    deltas.add(job, total=written, queued=written)
    for task in dead_ends:
        skip_followers(db, task, job, AFTER_FAILED, deltas, memory.now_ms())
    join_open(db, memory, job, range(first, memory.next_task), deltas, hasten=hasten)
    return written


def task_rows(db: sqlite3.Connection, memory: Memory, job: int, plans: Sequence[Encoded]) -> TaskRows:
    """Assign numbers and initial states to tasks. Writes nothing except new lanes."""
    first = memory.next_task
    memory.next_task = first + len(plans)
    dead_ends: set[int] = set()
    follow = list(map(_AFTER, plans)).count(None) < len(plans)
    before = _before(db, job, first, plans, dead_ends) if follow else {}
    followed = {number for number, _ in before.values()}
    alone, ready = (None, int(TaskState.READY)), int(TaskState.READY)
    lanes, now = memory.lanes, memory.now_ms()
    ready_lanes: set[int] = set()
    first_due: dict[int, int] = {}
    rows = []
    for number, (kind, key, name, rank, _, price, body, due, retries) in enumerate(plans, first):
        lane = lanes.get(name) or memory.lane_id(db, name, kind)
        after, state = before.get(number, alone) if before else alone
        if due is not None and state == ready:
            state, due = waiting_until(due, now)
            if due is not None:
                first_due[lane] = min(due, first_due.get(lane, due))
        if state == ready:
            ready_lanes.add(lane)
        followed_too = number in followed
        rows.append((number, job, lane, kind, key, state, rank, after, price, body, followed_too, due, retries))
    return TaskRows(first, rows, ready_lanes, first_due, before, followed, dead_ends)


def waiting_until(due: int, now: int) -> tuple[int, int | None]:
    """Return the initial state of a task with this due time, and the time itself if it is in the future."""
    return (int(TaskState.WAITING), due) if due > now else (int(TaskState.READY), None)


def write_rows(db: sqlite3.Connection, rows: Sequence[tuple[Any, ...]]) -> None:
    insert_many(
        db,
        'tasks (id, job_id, lane_id, kind, key, state, rank, "after", price, body, followed, due, retries)',
        rows,
        "ON CONFLICT (job_id, kind, key) DO NOTHING",
        together=MANY if len(rows) >= CHUNK else TOGETHER,
    )


def _before(
    db: sqlite3.Connection, job: int, first: int, plans: Sequence[Encoded], dead_ends: set[int]
) -> dict[int, tuple[int, int]]:
    known: dict[tuple[str, str], int] = {}
    before, held = {}, int(TaskState.HELD)
    for number, plan in enumerate(plans, first):
        known[plan.kind, plan.key] = number
        if plan.after is not None:
            planned = known.get((plan.kind, plan.after))
            earlier = predecessor(db, job, plan.kind, plan.after, dead_ends) if planned is None else (planned, held)
            before[number] = earlier
    return before


def _follow_the_first(
    db: sqlite3.Connection,
    memory: Memory,
    job: int,
    plans: Mapping[int, Encoded],
    before: Mapping[int, tuple[int, int]],
    dead_ends: set[int],
) -> set[str]:
    """Attach new followers to predecessors that existed already under other numbers. Returns lanes with ready tasks."""
    there = {n for (n,) in db.execute("SELECT id FROM tasks WHERE id BETWEEN ? AND ?", (min(plans), max(plans)))}
    ready = set()
    for number, (after, _) in before.items():
        if number in there and after in plans and after not in there:
            plan = plans[number]
            first, state = predecessor(db, job, plan.kind, plans[after].key, dead_ends)
            due = plan.due
            if due is not None and state == TaskState.READY:
                state, due = waiting_until(due, memory.now_ms())
                if due is not None:
                    sleep_until(db, memory, memory.lane_id(db, plan.lane), due)
            db.execute('UPDATE tasks SET "after" = ?, state = ?, due = ? WHERE id = ?', (first, state, due, number))
            db.execute("UPDATE tasks SET followed = 1 WHERE id = ?", (first,))
            if state == TaskState.READY:
                ready.add(plan.lane)
    return ready


def predecessor(db: sqlite3.Connection, job: int, kind: str, key: str, dead_ends: set[int]) -> tuple[int, int]:
    """Return the number of an existing predecessor, and the initial state of its follower: ready if it is completed."""
    row = db.execute(
        "SELECT id, state FROM tasks WHERE job_id = ? AND kind = ? AND key = ?", (job, kind, key)
    ).fetchone()
    if row is None:
        raise Conflict(
            f"A task of kind {kind!r} comes after {key!r}, which its job does not have. Plan that one first."
        )
    number, state = row
    if state in (TaskState.FAILED, TaskState.SKIPPED, TaskState.CANCELLED):
        dead_ends.add(number)
    return number, int(TaskState.READY if state == TaskState.COMPLETED else TaskState.HELD)
