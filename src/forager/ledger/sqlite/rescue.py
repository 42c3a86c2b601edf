"""Rescues what a dead session held: its running tasks become suspects, and its lanes are released.

A suspect may be the task that killed its worker. It runs again in a group of at most half the size of the one that
crashed, so that after a few crashes the culprit runs alone. Only a crash while alone counts against a task, and only if
its step had begun (`mark_step`); all others burn no attempt. Counting every crash instead would make dead letters of
innocent tasks that happened to run beside it, or that were only leased when the process was killed.
"""

import sqlite3
from collections import defaultdict
from typing import Any

from forager.core.lane_names import WITHOUT_TASKS
from forager.core.reasons import ErrorType, Reason
from forager.core.states import AFTER_FAILED, CANCELLED, TaskState
from forager.ledger.shared.suspects import crash_error, group_size, is_given_up
from forager.ledger.sqlite.aftermath import close
from forager.ledger.sqlite.attempts import keep_lost
from forager.ledger.sqlite.followers import skip_followers
from forager.ledger.sqlite.settle import add_spending
from forager.ledger.sqlite.writer_state import Memory, wake

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
    memory.flows.grew = True  # suspects are work, too: wake the workers that wait for some
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
