"""What follows from the end of tasks and jobs, and the effects that settlements have on plain tables."""

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

import orjson

from forager.core.errors import Rejected
from forager.core.table import Effect
from forager.kit.queries import folded
from forager.ledger.shared.aftermath import (
    ENDED_JOB,
    ENDED_TASK,
    EndedJob,
    EndedTask,
    after_jobs,
    after_tasks,
    log_refused,
    refuse_foreign,
)
from forager.ledger.shared.changelog import NewChange
from forager.ledger.shared.counting import Deltas
from forager.ledger.shared.unseen import Unseen
from forager.ledger.sqlite.changes import write_changes
from forager.ledger.sqlite.counters import finish_jobs, write_deltas
from forager.ledger.sqlite.tells import told_changes
from forager.ledger.sqlite.unseen import update_unseen
from forager.ledger.sqlite.writer_state import Memory

_TASKS = f"SELECT {ENDED_TASK} FROM tasks WHERE id IN (SELECT value FROM json_each(?))"
_JOBS = f"SELECT {ENDED_JOB} FROM jobs WHERE id IN (SELECT value FROM json_each(?))"
_REFUSED = (sqlite3.IntegrityError, sqlite3.DataError, sqlite3.InterfaceError, OverflowError)


def close(
    db: sqlite3.Connection,
    memory: Memory,
    deltas: Deltas,
    now: int,
    *,
    changes: Sequence[NewChange] = (),
    effects: Sequence[Effect] = (),
) -> None:
    """The last part of a transaction that ends tasks: hooks, counters, the change log, effects, the ends of jobs."""
    more, hooked = _after_tasks(db, memory, deltas, now) if deltas.ends else ([], [])
    more += told_changes(db, memory, deltas)
    write_deltas(db, deltas)
    write_changes(db, [*changes, *more] if more else changes, now)
    if effects:
        refuse_foreign(memory.catalog, effects)
        _apply(db, effects)
    if hooked:
        _apply_or_log(db, memory, hooked)
    ended = finish_jobs(db, memory.flows, deltas.jobs(), now)
    if ended and memory.catalog.on_job_end:
        _after_jobs(db, memory, ended, now)


def _after_tasks(
    db: sqlite3.Connection, memory: Memory, deltas: Deltas, now: int
) -> tuple[list[NewChange], list[Effect]]:
    rows = db.execute(_TASKS, (orjson.dumps(deltas.ends).decode(),)).fetchall()
    ended = [EndedTask(*row) for row in rows if row[2] in memory.catalog.on_end]
    followed = after_tasks(memory.catalog, ended, now)
    unseen = [Unseen(job, record, None) for job, aftermath in followed for record in aftermath.updates]
    changes = update_unseen(db, memory, unseen, now) if unseen else []
    return changes, [effect for _, aftermath in followed for effect in aftermath.effects]


def _after_jobs(db: sqlite3.Connection, memory: Memory, jobs: Iterable[int], now: int) -> None:
    rows = db.execute(_JOBS, (orjson.dumps(list(jobs)).decode(),)).fetchall()
    ended = [EndedJob(*row) for row in rows if row[2] in memory.catalog.on_job_end]
    _apply_or_log(db, memory, after_jobs(memory.catalog, ended, now))


def _apply(db: sqlite3.Connection, effects: Iterable[Effect]) -> None:
    for write in folded(effects):
        db.execute(write.sql, write.values)


def _apply_or_log(db: sqlite3.Connection, memory: Memory, effects: Sequence[Effect]) -> None:
    """All of them; if the store refuses one, the others one by one."""
    try:
        refuse_foreign(memory.catalog, effects)
        with _savepoint(db):
            _apply(db, effects)
    except (*_REFUSED, Rejected):
        for effect in effects:
            try:
                refuse_foreign(memory.catalog, [effect])
                with _savepoint(db):
                    _apply(db, [effect])
            except (*_REFUSED, Rejected) as error:
                log_refused(effect, error)


@contextmanager
def _savepoint(db: sqlite3.Connection) -> Iterator[None]:
    db.execute("SAVEPOINT aftermath")
    try:
        yield
    except BaseException:
        db.execute("ROLLBACK TO aftermath")
        raise
    finally:
        db.execute("RELEASE aftermath")
