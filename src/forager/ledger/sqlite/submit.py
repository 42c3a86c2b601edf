"""A small job is one transaction; a big one is written in chunks and cannot be leased until it is whole."""

import sqlite3
from collections.abc import Mapping, Sequence
from uuid import UUID, uuid4

import orjson

from forager.core.errors import Conflict
from forager.core.ids import task_uuid
from forager.core.ledger import NewJob, Submitted
from forager.core.states import JobState, TaskState
from forager.ledger.changelog import job_change
from forager.ledger.creation import (
    CHUNK,
    PLANNING_LEASE_MS,
    fingerprint,
    remembered_ms,
    require_room,
    require_same,
)
from forager.ledger.planned import Encoded
from forager.ledger.sqlite.bulk import MANY, TOGETHER, insert_many
from forager.ledger.sqlite.changes import write_changes
from forager.ledger.sqlite.memory import Memory, offer, wake


def find_repeat(db: sqlite3.Connection, job: NewJob, now: int) -> tuple[str, int, bool] | None:
    """The job that the same Idempotency-Key made within a day: (public id, total, whether it is still being written).

    One whose submission died is none: the sweep will remove it.
    """
    if job.idempotency_key is None:
        return None
    row = db.execute(
        "SELECT i.fingerprint, j.public_id, j.total, j.planning_until IS NOT NULL FROM idempotency i"
        " JOIN jobs j ON j.id = i.job_id"
        " WHERE i.key = ? AND i.expires_at > ? AND coalesce(j.planning_until >= ?, true)",
        (job.idempotency_key, now, now),
    ).fetchone()
    if row is None:
        return None
    require_same(job, row[0])
    return row[1], row[2], bool(row[3])


def check_room(db: sqlite3.Connection, job: NewJob, more: int) -> None:
    """Raise `Busy` if so many tasks more would be too many for the pipeline's queue."""
    if job.limits.most_queued is not None:
        (waiting,) = db.execute(_WAITING, (job.pipeline,)).fetchone()
        require_room(job, waiting, more)


def create_whole(db: sqlite3.Connection, memory: Memory, job: NewJob, plans: Sequence[Encoded]) -> Submitted:
    """A new job with all its tasks (no two alike): it can be leased as soon as this transaction is committed."""
    number, public_id = _insert_job(db, memory.now_ms(), job, len(plans))
    first = task_uuid(number, memory.next_task) if plans else None
    insert_tasks(db, memory, number, job.limits.turn, plans)
    return Submitted(UUID(public_id), len(plans), created=True, first=first)


def begin_planning(db: sqlite3.Connection, memory: Memory, job: NewJob) -> tuple[int, str]:
    """A new job whose tasks follow: nothing of it can be leased. Returns its number and its public id."""
    number, public_id = _insert_job(db, memory.now_ms(), job, None)
    memory.flows.park(number)
    return number, public_id


def _insert_job(db: sqlite3.Connection, now: int, job: NewJob, total: int | None) -> tuple[int, str]:
    """`total`: of how many tasks; none (a dry run) ends it here, None says that they are still to be planned."""
    state = JobState.PLANNING if total is None else JobState.QUEUED if total else JobState.COMPLETED
    limits = job.limits
    public_id = str(uuid4())
    number = (
        db.execute(
            "INSERT INTO jobs (public_id, pipeline, params, estimate, state, schedule, turn, batch_size, concurrency,"
            " max_cost, created_at, finished_at, planning_until, total, queued)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                public_id,
                job.pipeline,
                orjson.dumps(job.params, default=str).decode(),
                None if job.estimate is None else orjson.dumps(job.estimate, default=str).decode(),
                state.value,
                job.schedule,
                limits.turn,
                limits.batch_size,
                limits.concurrency,
                limits.max_cost,
                now,
                now if state.is_terminal else None,
                now + PLANNING_LEASE_MS if total is None else None,
                total or 0,
                total or 0,
            ),
        ).lastrowid
        or 0
    )
    if job.idempotency_key is not None:
        db.execute(
            "INSERT INTO idempotency (key, fingerprint, job_id, expires_at) VALUES (?1, ?2, ?3, ?4)"
            " ON CONFLICT (key) DO UPDATE SET fingerprint = ?2, job_id = ?3, expires_at = ?4",
            (job.idempotency_key, fingerprint(job), number, now + remembered_ms(job)),
        )
    if total is not None:
        write_changes(db, [job_change(number, public_id, "created", state, 1)], now)
    return number, public_id


def insert_tasks(
    db: sqlite3.Connection, memory: Memory, job: int, turn: int, plans: Sequence[Encoded]
) -> tuple[int, set[int]]:
    """Write those tasks that the job does not have yet; returns how many, and which tasks that some of them come
    after have already ended badly: nobody will release those followers."""
    first = memory.next_task
    memory.next_task = first + len(plans)
    dead_ends: set[int] = set()
    before = _before(db, job, first, plans, dead_ends) if any(plan.after is not None for plan in plans) else {}
    followed = {number for number, _ in before.values()}
    alone, ready = (None, int(TaskState.READY)), int(TaskState.READY)
    lanes = memory.lanes
    ready_lanes: set[int] = set()
    rows = []
    for number, (kind, key, name, rank, _, price, body) in enumerate(plans, first):
        lane = lanes.get(name) or memory.lane_id(db, name)
        after, state = before.get(number, alone) if before else alone
        if state == ready:
            ready_lanes.add(lane)
        rows.append((number, job, lane, kind, key, state, rank, after, price, body, number in followed))
    changed = db.total_changes
    insert_many(
        db,
        'tasks (id, job_id, lane_id, kind, key, state, rank, "after", price, body, followed)',
        rows,
        "ON CONFLICT (job_id, kind, key) DO NOTHING",
        together=MANY if len(rows) >= CHUNK else TOGETHER,
    )
    written = db.total_changes - changed
    db.executemany("UPDATE tasks SET followed = 1 WHERE id = ?", [(n,) for n in followed if n < first])
    if written < len(plans):
        numbered = dict(enumerate(plans, first))
        ready_lanes |= {memory.lane_id(db, name) for name in _follow_the_first(db, job, numbered, before, dead_ends)}
    for lane in ready_lanes:
        offer(db, memory, lane, job, turn)
    return written, dead_ends


def _before(
    db: sqlite3.Connection, job: int, first: int, plans: Sequence[Encoded], dead_ends: set[int]
) -> dict[int, tuple[int, int]]:
    """By the number of a task that comes after one: the number of that, and how it starts itself."""
    known: dict[tuple[str, str], int] = {}
    before, held = {}, int(TaskState.HELD)
    for number, plan in enumerate(plans, first):
        known[plan.kind, plan.key] = number
        if plan.after is not None:
            planned = known.get((plan.kind, plan.after))
            earlier = _predecessor(db, job, plan.kind, plan.after, dead_ends) if planned is None else (planned, held)
            before[number] = earlier
    return before


def still_planning(db: sqlite3.Connection, memory: Memory, job: int) -> None:
    """Keep a submission alive; one that was late is being removed, and must not go on."""
    now = memory.now_ms()
    _require_alive(
        db.execute(
            "UPDATE jobs SET planning_until = ? WHERE id = ? AND planning_until >= ?",
            (now + PLANNING_LEASE_MS, job, now),
        )
    )


def give_up_planning(db: sqlite3.Connection, job: int) -> None:
    """The sweep will remove what was written so far."""
    db.execute("UPDATE jobs SET planning_until = 0 WHERE id = ? AND planning_until IS NOT NULL", (job,))


def end_planning(db: sqlite3.Connection, memory: Memory, job: int, public_id: str, total: int) -> None:
    """The job is whole: let it be leased."""
    now = memory.now_ms()
    _require_alive(
        db.execute(
            "UPDATE jobs SET state = 'queued', total = ?1, queued = ?1, planning_until = NULL"
            " WHERE id = ?2 AND planning_until >= ?3",
            (total, job, now),
        )
    )
    write_changes(db, [job_change(job, public_id, "created", JobState.QUEUED, 1)], now)
    for lane in memory.flows.unpark(job):
        wake(db, lane, now)


def _require_alive(updated: sqlite3.Cursor) -> None:
    if not updated.rowcount:
        raise Conflict("Writing this job stood still for too long, so it was given up. Submit it again.")


def remove_unfinished(db: sqlite3.Connection, memory: Memory, job: int, limit: int = CHUNK) -> bool:
    """Take back, a page at a time, a job whose submission never ended. True when it is gone."""
    gone = db.execute(
        "DELETE FROM tasks WHERE id IN (SELECT id FROM tasks WHERE job_id = ? LIMIT ?)", (job, limit)
    ).rowcount
    if gone == limit:
        return False
    db.execute("DELETE FROM idempotency WHERE job_id = ?", (job,))
    db.execute("DELETE FROM jobs WHERE id = ?", (job,))
    memory.flows.forget(job)
    return True


def _follow_the_first(
    db: sqlite3.Connection,
    job: int,
    plans: Mapping[int, Encoded],
    before: Mapping[int, tuple[int, int]],
    dead_ends: set[int],
) -> set[str]:
    """Some tasks were there already under other numbers: their new followers come after those. Returns ready lanes."""
    there = {n for (n,) in db.execute("SELECT id FROM tasks WHERE id BETWEEN ? AND ?", (min(plans), max(plans)))}
    ready = set()
    for number, (after, _) in before.items():
        if number in there and after in plans and after not in there:
            plan = plans[number]
            first, state = _predecessor(db, job, plan.kind, plans[after].key, dead_ends)
            db.execute('UPDATE tasks SET "after" = ?, state = ? WHERE id = ?', (first, state, number))
            db.execute("UPDATE tasks SET followed = 1 WHERE id = ?", (first,))
            if state == TaskState.READY:
                ready.add(plan.lane)
    return ready


def _predecessor(db: sqlite3.Connection, job: int, kind: str, key: str, dead_ends: set[int]) -> tuple[int, int]:
    """The number of a task written earlier, and how its follower starts: at once if it has already ended well."""
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


_WAITING = "SELECT coalesce(sum(queued), 0) FROM jobs WHERE finished_at IS NULL AND pipeline = ?"
