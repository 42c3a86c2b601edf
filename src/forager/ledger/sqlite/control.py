"""What people do to jobs and dead letters: pause, resume, cancel, retry, discard."""

import sqlite3
from uuid import UUID

from forager.core.errors import Conflict, NotFound
from forager.core.ids import task_numbers
from forager.core.states import AFTER_FAILED, BUDGET, CANCELLED, JobState, TaskState
from forager.ledger.sqlite.changes import write_changes
from forager.ledger.sqlite.counters import Deltas, finish_jobs, job_change
from forager.ledger.sqlite.memory import Memory, wake
from forager.ledger.sqlite.settle import pause_job

PAGE = 5_000


def pause(db: sqlite3.Connection, memory: Memory, job: UUID, reason: str | None) -> None:
    number, state = _job(db, job)
    if state is JobState.PAUSED:
        return
    if state.is_terminal or not pause_job(db, memory, number, reason):
        raise Conflict(f"Job {job} is {state.public()}: only a queued or running job can be paused.")
    _say(db, number, job, "paused", JobState.PAUSED, memory.now_ms())


def resume(db: sqlite3.Connection, memory: Memory, job: UUID) -> None:
    number, state = _job(db, job)
    if state is not JobState.PAUSED:
        if state.is_terminal:
            raise Conflict(
                f"Job {job} is {state.public()}: it cannot be resumed. `forager jobs retry` runs failures again."
            )
        return
    now = memory.now_ms()
    db.execute(
        "UPDATE jobs SET state = CASE WHEN started_at IS NULL THEN 'queued' ELSE 'running' END, reason = NULL"
        " WHERE id = ?",
        (number,),
    )
    for lane in memory.flows.unpark(number):
        wake(db, lane, now)
    for (lane,) in db.execute(
        "SELECT DISTINCT lane_id FROM tasks WHERE state = 8 AND job_id = ?", (number,)
    ).fetchall():
        wake(db, lane, now)
    memory.flows.grew = True
    _say(db, number, job, "resumed", JobState.RUNNING, now)


def cancel(db: sqlite3.Connection, memory: Memory, job: UUID) -> None:
    """No task of it is leased from now on; queued ones are ended in pages, running ones end by themselves."""
    number, state = _job(db, job)
    if state is JobState.CANCELLED:
        return
    if state.is_terminal:
        raise Conflict(f"Job {job} is {state.public()} already: there is nothing left to cancel.")
    db.execute(
        "UPDATE jobs SET drain = ?, state = CASE WHEN state = 'paused' THEN 'running' ELSE state END WHERE id = ?",
        (CANCELLED, number),
    )
    memory.flows.park(number)
    memory.flows.draining.add(number)
    drain(db, memory, PAGE)


def drain(db: sqlite3.Connection, memory: Memory, limit: int) -> int:
    """End a page of the queued tasks of jobs that are cancelled or out of budget. Returns how many were ended."""
    now = memory.now_ms()
    ended = 0
    for job in sorted(memory.flows.draining):
        row = db.execute("SELECT drain FROM jobs WHERE id = ? AND drain IS NOT NULL", (job,)).fetchone()
        if row is None:
            memory.flows.draining.discard(job)
            continue
        state, counter = (TaskState.CANCELLED, "cancelled") if row[0] == CANCELLED else (TaskState.SKIPPED, "skipped")
        count = db.execute(
            "UPDATE tasks SET state = ?, error = ?, ended_at = ?, due = NULL WHERE id IN"
            " (SELECT id FROM tasks WHERE job_id = ? AND state IN (0, 1, 2, 8) LIMIT ?)",
            (int(state), row[0], now, job, limit - ended),
        ).rowcount
        ended += count
        deltas = Deltas()
        deltas.add(job, queued=-count, **{counter: count})
        deltas.write(db)
        finish_jobs(db, memory.flows, [job], now)
        if ended >= limit:
            break
        if row[0] == BUDGET:
            db.execute("UPDATE jobs SET drain = NULL, reason = ? WHERE id = ?", (BUDGET, job))
        memory.flows.draining.discard(job)
    return ended


def retry(db: sqlite3.Connection, memory: Memory, job: UUID) -> int:
    number, state = _job(db, job)
    if state is JobState.CANCELLED:
        raise Conflict(f"Job {job} was cancelled. Create it again instead.")
    failed = [r[0] for r in db.execute("SELECT id FROM tasks WHERE job_id = ? AND state = 5", (number,))]
    followers = [
        r[0]
        for r in db.execute("SELECT id FROM tasks WHERE job_id = ? AND state = 6 AND error = ?", (number, AFTER_FAILED))
    ]
    return _queue_again(db, memory, number, failed, followers)


def retry_task(db: sqlite3.Connection, memory: Memory, task: UUID) -> int:
    job, number = _task(db, task)
    skipped: dict[int, list[int]] = {}
    rows = db.execute('SELECT "after", id FROM tasks WHERE job_id = ? AND state = 6 AND error = ?', (job, AFTER_FAILED))
    for after, follower in rows:
        skipped.setdefault(after, []).append(follower)
    followers: list[int] = []
    reached = [number]
    while reached:
        found = skipped.get(reached.pop(), [])
        followers.extend(found)
        reached.extend(found)
    return _queue_again(db, memory, job, [number], followers)


def discard(db: sqlite3.Connection, task: UUID) -> None:
    _, number = _task(db, task)
    db.execute("UPDATE tasks SET hidden = 1 WHERE id = ?", (number,))


def _queue_again(db: sqlite3.Connection, memory: Memory, job: int, failed: list[int], followers: list[int]) -> int:
    now = memory.now_ms()
    again = "attempt = 0, crashes = 0, together = NULL, hidden = 0, ended_at = NULL, error = NULL"
    db.executemany(f"UPDATE tasks SET state = 0, {again} WHERE id = ?", [(n,) for n in failed])
    db.executemany(f"UPDATE tasks SET state = 2, {again} WHERE id = ?", [(n,) for n in followers])
    count = len(failed) + len(followers)
    if not failed:
        return 0
    deltas = Deltas()
    deltas.add(job, queued=count, failed=-len(failed), skipped=-len(followers))
    deltas.write(db)
    public_id, turn = db.execute(
        "UPDATE jobs SET state = CASE WHEN state = 'paused' THEN state ELSE 'running' END, finished_at = NULL"
        " WHERE id = ? RETURNING public_id, turn",
        (job,),
    ).fetchone()
    marks = ", ".join("?" * len(failed[:500]))
    lanes = db.execute(f"SELECT DISTINCT lane_id FROM tasks WHERE id IN ({marks})", failed[:500]).fetchall()
    for (lane,) in lanes:
        memory.flows.add(lane, job, turn)
        wake(db, lane, now)
    _say(db, job, UUID(public_id), "retried", JobState.RUNNING, now)
    return count


def _say(db: sqlite3.Connection, number: int, job: UUID, op: str, state: JobState, now: int) -> None:
    (version,) = db.execute(
        "SELECT 1 + coalesce(max(version), 0) FROM changes WHERE kind = 'job' AND key = ?", (str(job),)
    ).fetchone()
    write_changes(db, [job_change(number, str(job), op, state, version)], now)


def _job(db: sqlite3.Connection, job: UUID) -> tuple[int, JobState]:
    row = db.execute("SELECT id, state FROM jobs WHERE public_id = ?", (str(job),)).fetchone()
    if row is None:
        raise NotFound(f"There is no job {job}. `forager jobs list` shows those there are.")
    return row[0], JobState(row[1])


def _task(db: sqlite3.Connection, task: UUID) -> tuple[int, int]:
    """(job, task) of a dead letter."""
    numbers = task_numbers(task)
    row = (
        numbers
        and db.execute(
            "SELECT job_id, id FROM tasks WHERE id = ? AND job_id = ? AND state = 5", (numbers[1], numbers[0])
        ).fetchone()
    )
    if not row:
        raise NotFound(f"There is no dead letter {task}. `forager dead list` shows those there are.")
    return row[0], row[1]
