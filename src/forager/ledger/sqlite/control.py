"""Operations on jobs and dead letters: pause, resume, cancel, retry, discard."""

import sqlite3
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

import orjson

from forager.core.errors import Conflict, NotFound
from forager.core.ids import WITHOUT_TASKS, task_numbers
from forager.core.pipeline import AGED_AFTER
from forager.core.states import AFTER_FAILED, CANCELLED, ErrorType, JobState, Reason, TaskState
from forager.ledger.rules.changes import has_ended, no_dead_letter, note, was_cancelled
from forager.ledger.rules.jobs import CUT_OFF
from forager.ledger.rules.scheduling import crash_error, group_size, is_given_up
from forager.ledger.sqlite.changes import finish_jobs, log_job, logged_task_changes, write_changes, write_deltas
from forager.ledger.sqlite.settle import add_spending, close, keep_lost, pause_job
from forager.ledger.sqlite.state import Memory, offer, wake
from forager.ledger.sqlite.submit import write_secrets
from forager.ledger.sqlite.tasks import join_open, skip_followers

PAGE = 5_000
_PAGE = "SELECT id, kind, key FROM tasks WHERE job_id = ? AND (kind, key) > (?, ?) ORDER BY kind, key LIMIT ?"
_LEFT_OVER = "SELECT id FROM jobs WHERE finished_at IS NULL AND drain IS NOT NULL AND queued > 0"
_DRAIN = """
UPDATE tasks SET state = ?1, error = ?2, reason = ?2, error_type = NULL, ended_at = ?3, due = NULL
WHERE id IN (SELECT value FROM json_each(?4)) AND state IN (0, 1, 2, 8) RETURNING id
"""


def pause(db: sqlite3.Connection, memory: Memory, job: UUID, reason: str | None) -> None:
    number, state = _job(db, job)
    if state is JobState.PAUSED:
        return
    if state.is_terminal or not pause_job(db, memory, number, reason):
        raise Conflict(f"Job {job} is {_doing(db, number, state)}: only a queued or running job can be paused.")


def prioritise(db: sqlite3.Connection, memory: Memory, job: UUID, turn: int) -> None:
    number, state = _job(db, job)
    if state.is_terminal:
        raise has_ended(job, state)
    db.execute("UPDATE jobs SET turn = ? WHERE id = ?", (turn, number))
    memory.flows.turn_to(number, turn)


_CUT_OFF = CUT_OFF.format(job="?")


def resume(db: sqlite3.Connection, memory: Memory, job: UUID) -> None:
    number, state = _job(db, job)
    if state is not JobState.PAUSED:
        if state.is_terminal:
            raise has_ended(job, state)
        if _drain(db, number) == CANCELLED:
            raise was_cancelled(job)
        return
    _queue_again(db, memory, number, [row[0] for row in db.execute(_CUT_OFF, (number,))])
    now = memory.now_ms()
    db.execute(
        "UPDATE jobs SET state = CASE WHEN started_at IS NULL THEN 'queued' ELSE 'running' END, reason = NULL"
        " WHERE id = ?",
        (number,),
    )
    for lane in memory.flows.unpark(number):
        wake(db, memory, lane, now)
    for (lane,) in db.execute(
        "SELECT DISTINCT lane_id FROM tasks WHERE state = 8 AND job_id = ?", (number,)
    ).fetchall():
        wake(db, memory, lane, now)
    memory.flows.grew = True
    log_job(db, number, "resumed", now)


def cancel(db: sqlite3.Connection, memory: Memory, job: UUID) -> None:
    """Cancel a job. No more of its tasks are leased; queued ones are ended in pages, and running ones finish."""
    number, state = _job(db, job)
    if state is JobState.CANCELLED:
        return
    if state.is_terminal:
        raise Conflict(f"Job {job} is {state.public()} already: there is nothing left to cancel.")
    if state is JobState.PLANNING:
        raise Conflict(f"Job {job} is still being written. Cancel it in a moment.")
    db.execute(
        "UPDATE jobs SET drain = ?, reason = NULL, state = CASE WHEN state = 'paused' THEN 'running' ELSE state END"
        " WHERE id = ?",
        (CANCELLED, number),
    )
    note(number, "cancelling")
    memory.flows.park(number)
    memory.flows.drain(number)
    drain(db, memory, PAGE)


def drain(db: sqlite3.Connection, memory: Memory, limit: int) -> int:
    """End the queued tasks among the next `limit` tasks of jobs that are cancelled or out of budget. Returns how many.

    Tasks are walked in the order of their names. Searching for queued ones only would scan all ended tasks again for
    every page.
    """
    now = memory.now_ms()
    draining = memory.flows.draining
    ended = 0
    for job, done in sorted(draining.items()):
        if not limit:
            break
        row = db.execute("SELECT drain, queued FROM jobs WHERE id = ? AND drain IS NOT NULL", (job,)).fetchone()
        if row is None:
            del draining[job]
            continue
        why, queued = row
        page = db.execute(_PAGE, (job, *done, limit)).fetchall()
        state, counter = (TaskState.CANCELLED, "cancelled") if why == CANCELLED else (TaskState.SKIPPED, "skipped")
        numbers = orjson.dumps([task for task, _, _ in page]).decode()
        drained = db.execute(_DRAIN, (int(state), why, now, numbers)).fetchall()
        count = len(drained)
        ended += count
        deltas = memory.catalog.deltas()
        deltas.add(job, queued=-count, **{counter: count})
        deltas.note([number for (number,) in drained], state)
        close(db, memory, deltas, now)
        if len(page) == limit and count < queued:
            _, kind, key = page[-1]
            draining[job] = (kind, key)
        else:
            del draining[job]
        limit -= len(page)
    return ended


def drain_left_over(db: sqlite3.Connection, memory: Memory) -> None:
    """Walk a job again that is being ended and still has queued tasks after its walk."""
    for (job,) in db.execute(_LEFT_OVER).fetchall():
        if job not in memory.flows.draining:
            memory.flows.drain(job)


def retry(db: sqlite3.Connection, memory: Memory, job: UUID, secrets: Mapping[str, str]) -> int:
    number, _ = _job(db, job)
    failed = [r[0] for r in db.execute("SELECT id FROM tasks WHERE job_id = ? AND state = 5", (number,))]
    queued = _queue_again(db, memory, number, failed)
    write_secrets(db, [(number, name, sealed) for name, sealed in secrets.items()] if queued else [])
    return queued


def retry_tasks(db: sqlite3.Connection, memory: Memory, tasks: Sequence[UUID]) -> int:
    job, numbers = _dead_letters(db, tasks)
    return _queue_again(db, memory, job, numbers)


def discard(db: sqlite3.Connection, task: UUID) -> None:
    _, numbers = _dead_letters(db, [task])
    db.execute("UPDATE tasks SET hidden = 1 WHERE id = ?", numbers)


def _followers(db: sqlite3.Connection, job: int, failed: list[int]) -> list[int]:
    """Return the tasks that were skipped because of these failures, and their followers. Followers of a dropped task do
    not count."""
    skipped: dict[int, list[int]] = {}
    rows = db.execute(
        'SELECT "after", id FROM tasks WHERE job_id = ? AND state = 6 AND reason = ?', (job, AFTER_FAILED)
    )
    for after, follower in rows:
        skipped.setdefault(after, []).append(follower)
    followers: list[int] = []
    reached = list(failed)
    while reached:
        direct = skipped.get(reached.pop(), [])
        followers.extend(direct)
        reached.extend(direct)
    return followers


def _queue_again(db: sqlite3.Connection, memory: Memory, job: int, failed: list[int]) -> int:
    public_id, state, drain = db.execute("SELECT public_id, state, drain FROM jobs WHERE id = ?", (job,)).fetchone()
    if CANCELLED in (state, drain):
        raise was_cancelled(public_id)
    if not failed:
        return 0
    followers = _followers(db, job, failed)
    now = memory.now_ms()
    again = (
        "attempt = 0, crashes = 0, waiting_crashes = 0,"
        " together = NULL, hidden = 0, ended_at = NULL, error = NULL, reason = NULL,"
        " error_type = NULL, waited = NULL, waited_until = NULL"
    )
    db.executemany(f"UPDATE tasks SET state = 0, {again} WHERE id = ?", [(n,) for n in failed])
    db.executemany(f"UPDATE tasks SET state = 2, {again} WHERE id = ?", [(n,) for n in followers])
    count = len(failed) + len(followers)
    deltas = memory.catalog.deltas()
    deltas.add(job, queued=count, failed=-len(failed), skipped=-len(followers))
    deltas.note_back(failed, TaskState.FAILED)
    deltas.note_back(followers, TaskState.SKIPPED)
    count -= join_open(db, memory, job, [*failed, *followers], deltas)
    write_deltas(db, deltas)
    write_changes(db, logged_task_changes(db, memory, deltas), now)
    (turn,) = db.execute(
        "UPDATE jobs SET state = CASE WHEN state = 'paused' THEN state ELSE 'running' END, finished_at = NULL"
        " WHERE id = ? RETURNING turn",
        (job,),
    ).fetchone()
    numbers = orjson.dumps(failed).decode()
    for (lane,) in db.execute(_LANES_OF, (numbers,)).fetchall():
        offer(db, memory, lane, job, turn)
    if drain is not None:
        memory.flows.drain(job)
    log_job(db, job, "retried", now)
    finish_jobs(db, memory.flows, [job], now)  # if all of them were skipped at once
    return count


_LANES_OF = "SELECT DISTINCT t.lane_id FROM json_each(?) g JOIN tasks t ON t.id = g.value"


def _doing(db: sqlite3.Connection, job: int, state: JobState) -> str:
    """Describe the state of a job that is being ended."""
    drain = _drain(db, job)
    return "being cancelled" if drain == CANCELLED else "at its budget's end" if drain else state.public()


def _drain(db: sqlite3.Connection, job: int) -> str | None:
    (drain,) = db.execute("SELECT drain FROM jobs WHERE id = ?", (job,)).fetchone()
    return None if drain is None else str(drain)


def _job(db: sqlite3.Connection, job: UUID) -> tuple[int, JobState]:
    row = db.execute("SELECT id, state FROM jobs WHERE public_id = ?", (str(job),)).fetchone()
    if row is None:
        raise NotFound(f"There is no job {job}. See `forager jobs list`.")
    return row[0], JobState(row[1])


def age(db: sqlite3.Connection, memory: Memory, now: int) -> int:
    """Set the turn of jobs that have waited long enough to 0."""
    rows = db.execute(
        "UPDATE jobs SET turn = 0 WHERE finished_at IS NULL AND turn > 0 AND created_at <= ? RETURNING id",
        (now - round(AGED_AFTER * 1000),),
    ).fetchall()
    for (job,) in rows:
        memory.flows.turn_to(job, 0)
    return len(rows)


def _dead_letters(db: sqlite3.Connection, tasks: Sequence[UUID]) -> tuple[int, list[int]]:
    """Return the job of these tasks, and the numbers of those that are dead letters. Raises `NotFound` if none is."""
    asked = orjson.dumps([numbers for task in tasks if (numbers := task_numbers(task)) is not None]).decode()
    rows = db.execute(
        "SELECT t.job_id, t.id FROM json_each(?) g CROSS JOIN tasks t ON t.id = g.value ->> 1"
        " AND t.job_id = g.value ->> 0 JOIN jobs j ON j.id = t.job_id WHERE t.state = 5",
        (asked,),
    ).fetchall()
    if not rows:
        raise no_dead_letter(tasks)
    return rows[0][0], [number for _, number in rows]


# Rescues what a dead session held: its running tasks become suspects, and its lanes are released.
#
# A suspect may be the task that killed its worker. It runs again in a group of at most half the size of the one that
# crashed, so that after a few crashes the culprit runs alone. Only a crash while alone counts against a task, and only
# if its step had begun (`mark_step`); all others burn no attempt. Counting every crash instead would make dead letters
# of innocent tasks that happened to run at the same time, or were only leased when the process was killed.


_BEGUN = 8
"""The column of a row: whether the step had begun under this claim, as a suspect."""


def rescue_sessions(db: sqlite3.Connection, memory: Memory, sessions: list[int], *, crashed: bool) -> int:
    """Take back everything that these sessions held. Their reserved cost counts as spent, because the requests may have
    been sent."""
    now = memory.now_ms()
    rescued = 0
    for session in sessions:
        rows = db.execute(
            "SELECT t.id, t.job_id, t.lane_id, t.price, t.crashes, t.followed, j.drain, j.turn,"
            " t.begun IS t.claim, t.waits, t.waiting_crashes FROM tasks t"
            " JOIN jobs j ON j.id = t.job_id WHERE t.state = 3 AND t.session_id = ?",
            (session,),
        ).fetchall()
        dead = _given_up(rows, crashed=crashed)
        keep_lost(db, memory, session, now, crashed=crashed, given_up=dead)
        _rescue(db, memory, rows, now, dead, crashed=crashed)
        rescued += len(rows)
        lanes = db.execute("UPDATE lanes SET owner = NULL WHERE owner = ? RETURNING id, name", (session,)).fetchall()
        for lane, name in lanes:
            if not name.startswith(WITHOUT_TASKS):  # such a lane never has tasks: a worker must not take it
                wake(db, memory, lane, now)
        db.execute("DELETE FROM sessions WHERE id = ?", (session,))
    return rescued


def _given_up(rows: list[tuple[Any, ...]], *, crashed: bool) -> int | None:
    """Return the task whose step ran alone at a crash, if that has happened often enough."""
    if not _is_blamed(rows, crashed=crashed):
        return None
    number, _, _, _, crashes, _, drain, _, _, waits, waiting = rows[0]
    return number if drain != CANCELLED and is_given_up(crashes, waiting, waits=waits) else None


def _is_blamed(rows: list[tuple[Any, ...]], *, crashed: bool) -> bool:
    """Return whether the crash counts against the one task that was in flight."""
    return crashed and len(rows) == 1 and bool(rows[0][_BEGUN])


def _rescue(
    db: sqlite3.Connection, memory: Memory, rows: list[tuple[Any, ...]], now: int, dead: int | None, *, crashed: bool
) -> None:
    if not rows:
        return
    deltas = memory.catalog.deltas()
    spent: defaultdict[int, int] = defaultdict(int)
    blamed = _is_blamed(rows, crashed=crashed)
    for number, job, lane, price, crashes, followed, drain, turn, _, waits, waiting in rows:
        spent[lane] += price
        deltas.add(job, running=-1, reserved=-price, spent=price, guessed=price)
        counted = (int(blamed and not waits), int(blamed and bool(waits)))
        if drain == CANCELLED:
            _end(db, number, price, TaskState.CANCELLED, (CANCELLED, CANCELLED, None), now, counted)
            deltas.add(job, cancelled=1)
            deltas.note([number], TaskState.CANCELLED)
        elif number == dead:
            why = (crash_error(crashes + waiting + 1), Reason.CRASHED, ErrorType.INTERNAL)
            _end(db, number, price, TaskState.FAILED, why, now, counted)
            deltas.add(job, failed=1)
            deltas.note([number], TaskState.FAILED)
            if followed:
                deltas.note(skip_followers(db, number, job, AFTER_FAILED, deltas, now), TaskState.SKIPPED)
        else:
            state = TaskState.SUSPECT if crashed else TaskState.READY
            together = group_size(len(rows)) if crashed else None
            db.execute(
                "UPDATE tasks SET state = ?, together = ?, crashes = crashes + ?,"
                " waiting_crashes = waiting_crashes + ?, cost = cost + ?, guessed = guessed + ?,"
                " attempt = attempt - 1, session_id = NULL WHERE id = ?",
                (int(state), together, *counted, price, price, number),
            )
            deltas.add(job, queued=1)
            if drain is not None:
                memory.flows.drain(job)
            elif not crashed:
                memory.flows.add(lane, job, turn)
        wake(db, memory, lane, now)
    memory.flows.grew = True  # suspects are work as well: wake the workers that wait for some
    add_spending(db, spent, now)
    close(db, memory, deltas, now)


def _end(
    db: sqlite3.Connection,
    task: int,
    price: int,
    state: TaskState,
    why: tuple[str, str, str | None],
    now: int,
    counted: tuple[int, int],
) -> None:
    """End a task. `why`: error, reason and error type. `counted`: what to add to its two counts of crashes."""
    db.execute(
        "UPDATE tasks SET state = ?, error = ?, reason = ?, error_type = ?, ended_at = ?, cost = cost + ?,"
        " guessed = guessed + ?, crashes = crashes + ?, waiting_crashes = waiting_crashes + ?, session_id = NULL"
        " WHERE id = ?",
        (int(state), *why, now, price, price, *counted, task),
    )
