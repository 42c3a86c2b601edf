"""Submits jobs. A small job is one transaction; a big one is written in chunks and cannot be leased until it is
complete.

Small jobs that wait at the same time are written together: most of their cost is the statements, not the rows.
"""

import contextlib
import sqlite3
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import NamedTuple, Protocol, TypeVar
from uuid import UUID, uuid4

import orjson

from forager.core.clock import Faults
from forager.core.errors import NotFound, StoreError
from forager.core.ids import task_uuid
from forager.core.ledger import NewJob, PartsReceived, Submitted
from forager.core.pipeline import BULK_FROM
from forager.core.states import JobState
from forager.ledger.rules.changes import Deltas, job_change, job_created
from forager.ledger.rules.jobs import (
    CHUNK,
    IN_ONE_GO,
    JOB_VALUES,
    PLANNING_LEASE_MS,
    Encoded,
    Planned,
    PlanPart,
    Queue,
    Whole,
    fingerprint,
    first_state,
    job_values,
    limited_queues,
    remembered_ms,
    require_different_keys,
    require_room,
    require_same,
    sent_whole,
    stood_still,
)
from forager.ledger.sqlite.changes import finish_jobs, write_changes, write_deltas
from forager.ledger.sqlite.connection import insert_many
from forager.ledger.sqlite.state import Memory, sleep_until, wake
from forager.ledger.sqlite.tasks import TaskRows, insert_tasks, join_open, task_rows, write_rows


class RepeatedSubmission(NamedTuple):
    """The job that was created with the same Idempotency-Key and still has it."""

    public_id: str
    total: int
    being_written: bool

    def told(self) -> Submitted | None:
        """Return the answer to the repeated submission; None while the job is still being written."""
        return None if self.being_written else Submitted(UUID(self.public_id), self.total, created=False)


def find_repeat(db: sqlite3.Connection, job: NewJob, now: int) -> RepeatedSubmission | None:
    """Find a repeat. A job whose submission died does not count: the sweep will remove it. Nor does one that has ended,
    if the key is to name the new job until its end."""
    if job.idempotency_key is None:
        return None
    row = db.execute(
        "SELECT i.fingerprint, j.public_id, j.total, j.planning_until IS NOT NULL FROM idempotency i"
        " JOIN jobs j ON j.id = i.job_id"
        " WHERE i.key = ? AND i.expires_at > ? AND coalesce(j.planning_until >= ?, true)"
        " AND (j.finished_at IS NULL OR NOT ?)",
        (job.idempotency_key, now, now, job.until_end),
    ).fetchone()
    if row is None:
        return None
    require_same(job, row[0])
    return RepeatedSubmission(row[1], row[2], bool(row[3]))


def check_room(db: sqlite3.Connection, jobs: Sequence[tuple[NewJob, int]]) -> None:
    """Raise `Busy` if one of these jobs, given with its number of tasks, would exceed its pipeline's queue limit."""
    waiting: dict[str, Queue] = {}
    for name, limits in limited_queues(jobs).items():
        tasks = 0 if limits.tasks is None else db.execute(_WAITING_TASKS, (name,)).fetchone()[0]
        jobs_waiting = 0 if limits.jobs is None else db.execute(_WAITING_JOBS, (name, limits.jobs)).fetchone()[0]
        waiting[name] = Queue(tasks, jobs_waiting)
    require_room(jobs, waiting)


def submit_together(db: sqlite3.Connection, memory: Memory, asked: Sequence[Whole]) -> list[Submitted | None]:
    """Submit each job as if it came alone. Returns None for a job that is being written at this moment.

    Jobs are refused before anything is written, so that a refusal needs no rollback.
    """
    require_different_keys(job for job, _ in asked)
    now = memory.now_ms()
    repeats = [find_repeat(db, job, now) for job, _ in asked]
    new = [whole for whole, repeat in zip(asked, repeats, strict=True) if repeat is None]
    check_room(db, [(job, len(plans)) for job, plans in new])
    created = iter(create_whole(db, memory, new, hasten=True))
    return [next(created) if repeat is None else repeat.told() for repeat in repeats]


def create_whole(
    db: sqlite3.Connection, memory: Memory, new: Sequence[Whole], *, hasten: bool = False
) -> list[Submitted]:
    """Create jobs with all their tasks. They can be leased as soon as this transaction is committed. `hasten` as for
    `join_open`."""
    now, numbers = memory.now_ms(), _next_jobs(memory, len(new))
    tasks = [task_rows(db, memory, number, plans) for number, (_, plans) in zip(numbers, new, strict=True)]
    jobs = [(number, job, len(plans)) for number, (job, plans) in zip(numbers, new, strict=True)]
    public_ids = _insert_jobs(db, jobs, now)
    write_rows(db, [row for each in tasks for row in each.rows])
    awake: set[int] = set()
    for (number, job, _), each in zip(jobs, tasks, strict=True):
        awake |= {lane for lane in each.ready if memory.flows.add(lane, number, job.limits.turn)}
        for lane, due in each.due.items():
            sleep_until(db, memory, lane, due)
    for lane in awake:
        wake(db, memory, lane, now)
    if memory.catalog.one_open:
        _join(db, memory, [(number, each) for number, each in zip(numbers, tasks, strict=True)], hasten=hasten)
    return [
        Submitted(public_id, total, created=True, first=task_uuid(number, each.first) if total else None)
        for public_id, (number, _, total), each in zip(public_ids, jobs, tasks, strict=True)
    ]


def _join(db: sqlite3.Connection, memory: Memory, new: Sequence[tuple[int, TaskRows]], *, hasten: bool) -> None:
    deltas = Deltas()
    for job, tasks in new:
        join_open(db, memory, job, range(tasks.first, tasks.first + len(tasks.rows)), deltas, hasten=hasten)
    write_deltas(db, deltas)
    finish_jobs(db, memory.flows, deltas.jobs(), memory.now_ms())


def begin_planning(db: sqlite3.Connection, memory: Memory, job: NewJob) -> tuple[int, UUID]:
    """Create a job whose tasks follow in chunks; nothing of it can be leased yet. Returns its number and its public
    id."""
    (number,) = _next_jobs(memory, 1)
    (public_id,) = _insert_jobs(db, [(number, job, None)], memory.now_ms())
    memory.flows.park(number)
    return number, public_id


def _next_jobs(memory: Memory, count: int) -> range:
    first = memory.next_job
    memory.next_job += count
    return range(first, first + count)


def _insert_jobs(db: sqlite3.Connection, jobs: Sequence[tuple[int, NewJob, int | None]], now: int) -> list[UUID]:
    """Insert the rows of new jobs, given with their numbers of tasks (None: not known yet). Returns their public
    ids."""
    rows, keys, changes, public_ids = [], [], [], []
    secrets: list[tuple[int, str, str]] = []
    for number, job, total in jobs:
        state = first_state(total)
        ended = now if state.is_terminal else None
        planning_until = now + PLANNING_LEASE_MS if total is None else None
        public_ids.append(public_id := job.id or uuid4())
        secrets.extend((number, secret, sealed) for secret, sealed in job.secrets.items())
        name, count = str(public_id), total or 0
        rows.append((number, name, state.value, now, ended, planning_until, count, count, *job_values(job)))
        if job.idempotency_key is not None:
            keys.append((job.idempotency_key, fingerprint(job), number, now + remembered_ms(job)))
        if total is not None:
            changes.append(job_created(number, name, state, job, total))
    insert_many(db, _JOBS, rows)
    insert_many(db, "idempotency (key, fingerprint, job_id, expires_at)", keys, _INSTEAD)
    write_secrets(db, secrets)
    write_changes(db, changes, now)
    return public_ids


def write_secrets(db: sqlite3.Connection, secrets: Sequence[tuple[int, str, str]]) -> None:
    """Store sealed texts of jobs, as (number of the job, name, sealed); a text of the same name is replaced."""
    if secrets:
        db.executemany(
            "INSERT INTO job_secrets (job_id, name, sealed) VALUES (?, ?, ?)"
            " ON CONFLICT (job_id, name) DO UPDATE SET sealed = excluded.sealed",
            secrets,
        )


def write_chunk(
    db: sqlite3.Connection, memory: Memory, job: int, turn: int, plans: Sequence[Encoded], faults: Faults
) -> int:
    """Write further tasks of a job that is being planned. Returns how many were new."""
    still_planning(db, memory, job)
    deltas = Deltas()
    written = insert_tasks(db, memory, job, turn, plans, deltas, hasten=True)
    if skipped := deltas.of(job, "skipped"):  # the other counters are written when the job is whole
        db.execute("UPDATE jobs SET skipped = skipped + ? WHERE id = ?", (skipped, job))
    faults.at("chunk-written")
    return written


def still_planning(db: sqlite3.Connection, memory: Memory, job: int) -> None:
    """Keep a submission alive. Raises if it was late and is being removed."""
    now = memory.now_ms()
    _require_alive(
        db.execute(
            "UPDATE jobs SET planning_until = ? WHERE id = ? AND planning_until >= ?",
            (now + PLANNING_LEASE_MS, job, now),
        )
    )


def give_up_planning(db: sqlite3.Connection, job: int) -> None:
    """Give up a submission: the sweep will remove its tasks."""
    db.execute("UPDATE jobs SET planning_until = 0 WHERE id = ? AND planning_until IS NOT NULL", (job,))


def end_planning(db: sqlite3.Connection, memory: Memory, job: int, public_id: UUID, total: int) -> None:
    """Complete a submission: from now on the job can be leased."""
    now = memory.now_ms()
    _require_alive(
        db.execute(
            "UPDATE jobs SET state = 'queued', total = ?1, queued = ?1 - skipped, planning_until = NULL"
            " WHERE id = ?2 AND planning_until >= ?3",
            (total, job, now),
        )
    )
    write_changes(db, [job_change(job, str(public_id), "created", JobState.QUEUED, 1)], now)
    for lane in memory.flows.unpark(job):
        wake(db, memory, lane, now)
    finish_jobs(db, memory.flows, [job], now)  # if all of its tasks were skipped at once


def _require_alive(updated: sqlite3.Cursor) -> None:
    if not updated.rowcount:
        raise stood_still()


def remove_unfinished(db: sqlite3.Connection, memory: Memory, job: int, limit: int = CHUNK) -> bool:
    """Remove a job whose submission never ended, a page at a time. Returns True when it is gone."""
    gone = db.execute(
        "DELETE FROM tasks WHERE id IN (SELECT id FROM tasks WHERE job_id = ? LIMIT ?)", (job, limit)
    ).rowcount
    if gone == limit:
        return False
    db.execute("DELETE FROM idempotency WHERE job_id = ?", (job,))
    db.execute("DELETE FROM job_secrets WHERE job_id = ?", (job,))
    db.execute("DELETE FROM jobs WHERE id = ?", (job,))
    memory.flows.forget(job)
    return True


_WAITING_TASKS = f"""
SELECT coalesce(sum(queued), 0) FROM jobs WHERE finished_at IS NULL AND pipeline = ? AND total < {BULK_FROM}
"""
# The conditions are those of ix_jobs_waiting.
_WAITING_JOBS = """
SELECT count(*) FROM (SELECT 1 FROM jobs WHERE finished_at IS NULL AND started_at IS NULL AND pipeline = ? LIMIT ?)
"""
_JOBS = f"jobs (id, public_id, state, created_at, finished_at, planning_until, total, queued, {JOB_VALUES})"
_INSTEAD = (
    "ON CONFLICT (key) DO UPDATE"
    " SET fingerprint = excluded.fingerprint, job_id = excluded.job_id, expires_at = excluded.expires_at"
)


# Submits a big job in chunks, one transaction each. Nothing of it can be leased before the last one.


T = TypeVar("T")


class RunCommand(Protocol):
    """Runs a command in a transaction of the one writer."""

    def __call__(self, command: Callable[[sqlite3.Connection], T], /) -> Awaitable[T]: ...


async def submit_in_chunks(
    run: RunCommand, memory: Callable[[], Memory], job: NewJob, planned: Planned, faults: Faults
) -> Submitted | None:
    """Write the job, or return the earlier one with the same Idempotency-Key; None while that one is being written.

    `memory` returns the writer's current state: a rollback replaces it.
    """

    def begin(db: sqlite3.Connection) -> RepeatedSubmission | tuple[int, UUID]:
        repeat = find_repeat(db, job, memory().now_ms())
        if repeat is not None:
            return repeat
        check_room(db, [(job, IN_ONE_GO + 1)])  # the total is not known yet; it is at least this number
        return begin_planning(db, memory(), job)

    begun = await run(begin)
    if isinstance(begun, RepeatedSubmission):
        return begun.told()
    (number, public_id), total = begun, 0

    def write(chunk: Sequence[Encoded], db: sqlite3.Connection) -> int:
        return write_chunk(db, memory(), number, job.limits.turn, chunk, faults)

    try:
        async with contextlib.aclosing(planned.chunks()) as chunks:
            async for chunk in chunks:
                total += await run(partial(write, chunk))
        await run(lambda db: end_planning(db, memory(), number, public_id, total))
    except Exception:
        with contextlib.suppress(StoreError):
            await run(lambda db: give_up_planning(db, number))
        raise
    return Submitted(public_id, total, created=True)


# Receives a job in parts, each in one transaction. Nothing of it can be leased before the last part.


# One search of the unique index for each task of the part, not a scan of the job.
_LACKING = """
SELECT 1 FROM json_each(?2) g WHERE NOT EXISTS (
  SELECT 1 FROM tasks WHERE job_id = ?1 AND kind = g.value ->> 0 AND key = g.value ->> 1)
LIMIT 1
"""


def open_job(db: sqlite3.Connection, memory: Memory, job: NewJob) -> PartsReceived:
    repeat = find_repeat(db, job, memory.now_ms())
    if repeat is not None:
        return PartsReceived(UUID(repeat.public_id), repeat.total, is_open=repeat.being_written)
    _, public_id = begin_planning(db, memory, job)
    return PartsReceived(public_id, 0, is_open=True, created=True)


def add_part(db: sqlite3.Connection, memory: Memory, part: PlanPart, faults: Faults) -> PartsReceived:
    row = db.execute("SELECT id, state, total, turn FROM jobs WHERE public_id = ?", (str(part.job),)).fetchone()
    if row is None:
        raise NotFound(f"There is no job {part.job}.")
    number, state, total, turn = row
    if state != JobState.PLANNING:
        if db.execute(_LACKING, (number, _names(part))).fetchone():
            raise sent_whole(part.job, total)
        return PartsReceived(part.job, total, is_open=False)
    total += write_chunk(db, memory, number, turn, part.missing(total), faults)
    db.execute("UPDATE jobs SET total = ?1, queued = ?1 - skipped WHERE id = ?2", (total, number))
    if not part.more:
        end_planning(db, memory, number, part.job, total)
    return PartsReceived(part.job, total, is_open=part.more)


def _names(part: PlanPart) -> str:
    return orjson.dumps([(plan.kind, plan.key) for plan in part.plans]).decode()
