"""Settles tasks in one transaction: state, followers, children, records, changes, counters, cost.

Every settlement must pass the fence first: the task must still be running under the claim that the settlement carries.
A worker can be late without knowing it (a paused machine, a long garbage collection, a lost connection), and meanwhile
its session is rescued and another worker runs the task under a new claim. The late outcome must then have no effect at
all, or records, costs and children would count twice. So the fence is checked inside the same transaction that writes
the effects; a check before it could be out of date by the commit.
"""

import sqlite3
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

import orjson

from forager.core.errors import Rejected
from forager.core.ledger import Settlement
from forager.core.states import AFTER_FAILED, CANCELLED, ErrorType, JobState, Reason, TaskState
from forager.core.table import Effect
from forager.ledger.catalog import body_of, screenshot_of
from forager.ledger.rules.changes import COUNTER_OF, Deltas, NewChange, day_and_hour
from forager.ledger.rules.end_hooks import (
    COLUMNS,
    DIED,
    ENDED_JOB,
    ENDED_TASK,
    GIVEN_BACK,
    LOST,
    EndedJob,
    EndedTask,
    after_jobs,
    after_tasks,
    attempt_rows,
    log_refused,
    refuse_foreign,
)
from forager.ledger.rules.jobs import SPARED, encode
from forager.ledger.rules.records import Unseen, clean
from forager.ledger.rules.scheduling import in_vain, wait_or_give_up
from forager.ledger.sqlite.changes import finish_jobs, log_job, logged_task_changes, write_changes, write_deltas
from forager.ledger.sqlite.records import keep_rejected, store_in_order, store_records, update_unseen
from forager.ledger.sqlite.state import Memory, offer, sleep_until, wake
from forager.ledger.sqlite.tasks import insert_tasks, skip_followers
from forager.sdk.queries import folded

_Why = tuple[str | None, str | None, str | None]
_Alike = tuple[int, int, int, int, int, _Why | None, str | None]
_WELL: _Why = (None, None, None)
_RUNNING = "SELECT t.id, t.claim, t.followed FROM json_each(?) g JOIN tasks t ON t.id = g.value WHERE t.state = 3"
_SPARED = SPARED.format(job="?1", succeeded="?2")
_JOB = "SELECT drain, turn FROM jobs WHERE id = ?"
_END = """
UPDATE tasks SET state = ?, cost = cost + ?, guessed = guessed + ?, error = ?, reason = ?, error_type = ?, facts = ?,
  ended_at = ?, together = NULL, session_id = NULL WHERE id IN (SELECT value FROM json_each(?))
"""
_WAITED = """
SELECT t.id, t.waited, t.waited_until FROM json_each(?) g JOIN tasks t ON t.id = g.value
"""
_PUT_BACK = """
UPDATE tasks SET state = ?, due = ?, attempt = attempt - ?, cost = cost + ?, guessed = guessed + ?, error = ?,
  reason = ?, error_type = ?, facts = ?, ended_at = ?, together = NULL, session_id = NULL WHERE id = ?
"""
_RELEASE = """
UPDATE tasks SET state = CASE WHEN due > ?2 THEN 1 ELSE 0 END, due = CASE WHEN due > ?2 THEN due END
WHERE state = 2 AND "after" IN (SELECT value FROM json_each(?1)) RETURNING lane_id, job_id, due
"""
_SKIP = """
UPDATE tasks SET state = 6, error = ?, reason = ?, error_type = NULL, ended_at = ?, due = NULL
WHERE job_id = ? AND kind = ? AND key = ? AND state IN (0, 1, 2, 8) RETURNING id, followed
"""
# One row per day. It also holds the spending of the last hour with spending, so that caps per hour need no rows of
# their own.
_ADD_SPENDING = """
INSERT INTO spending (lane_id, day, spent, hour, spent_hour) VALUES (?1, ?2, ?3, ?4, ?3)
ON CONFLICT (lane_id, day) DO UPDATE SET spent = spent + excluded.spent, hour = excluded.hour,
  spent_hour = excluded.spent_hour + CASE WHEN hour = excluded.hour THEN spent_hour ELSE 0 END
"""


def settle(db: sqlite3.Connection, memory: Memory, settlements: Sequence[Settlement]) -> list[int]:
    """Settle a group. Returns the ids of the tasks whose settlement was refused."""
    if not settlements:
        return []
    live, followed, fenced = _pass_the_fence(db, settlements)
    if live:
        _apply(db, memory, live, followed)
    return fenced


def _pass_the_fence(db: sqlite3.Connection, all_: Sequence[Settlement]) -> tuple[list[Settlement], set[int], list[int]]:
    """Return the settlements that pass, which of their tasks have followers by now (the lease may be older), and those
    refused."""
    rows = db.execute(_RUNNING, (orjson.dumps([s.lease.task_id for s in all_]).decode(),)).fetchall()
    claims = {number: claim for number, claim, _ in rows}
    live, fenced = [], []
    for settlement in all_:
        lease = settlement.lease
        if claims.get(lease.task_id) == lease.claim:
            del claims[lease.task_id]
            live.append(settlement)
        else:
            fenced.append(lease.task_id)
    return live, {number for number, _, followed in rows if followed}, fenced


def _apply(db: sqlite3.Connection, memory: Memory, live: list[Settlement], followed: set[int]) -> None:
    """Write all effects of the settlements that passed the fence.

    The order matters in two places. Tasks get their new state first, because followers, children and skips look at it.
    Records come before `close`, which writes the counters, the change log and the ends of jobs: a reader of the log
    that sees the end of a job has seen all its records.
    """
    now = memory.now_ms()
    deltas = memory.catalog.deltas()
    back: list[Settlement] = []
    ended: list[Settlement] = []
    for s in live:
        (ended if s.state is TaskState.COMPLETED or s.state in COUNTER_OF else back).append(s)
    ended += _give_up(db, back, now)
    _end(db, ended, deltas, now)
    _put_back(db, memory, [s for s in back if s.state not in COUNTER_OF], deltas, now)
    _settle_neighbours(db, memory, live, followed, deltas, now)
    _spend(db, live, now)
    _keep_evidence(db, live, now + memory.catalog.evidence_ms)
    keep_attempts(db, live)
    rare = [s for s in live if s.extras is not None]
    changes = _store(db, memory, live, rare, deltas, now)
    effects = [effect for s in rare if s.extras is not None for effect in s.extras.effects]
    close(db, memory, deltas, now, changes=changes, effects=effects)


def _store(
    db: sqlite3.Connection, memory: Memory, live: list[Settlement], rare: list[Settlement], deltas: Deltas, now: int
) -> list[NewChange]:
    """Store the records. `rare` are settlements with more than records to store."""
    if rare:
        keep_rejected(db, rare, deltas, now)
        return store_in_order(db, memory, live, deltas, now)
    seen = [(s.lease.job_id, record) for s in live for record in s.records]
    return store_records(db, memory, seen, deltas, now) if seen else []


def _end(db: sqlite3.Connection, ended: list[Settlement], deltas: Deltas, now: int) -> None:
    """End tasks. Most tasks of a job end in the same way, so one statement covers each such group."""
    alike: defaultdict[_Alike, list[int]] = defaultdict(list)
    for s in ended:
        lease = s.lease
        facts = orjson.dumps(s.facts).decode() if s.facts else None
        why = None if s.error is None and s.reason is None else (s.error, s.reason, s.error_type)
        alike[lease.job_id, lease.price, int(s.state), s.cost, s.guessed, why, facts].append(lease.task_id)
    ends: defaultdict[tuple[object, ...], list[int]] = defaultdict(list)
    for (job, price, state, cost, guessed, why, facts), tasks in alike.items():
        ends[state, cost, guessed, *(why or _WELL), facts] += tasks
        deltas.ended(job, COUNTER_OF[TaskState(state)], price, cost, guessed, len(tasks))
        deltas.note(tasks, TaskState(state))
    for how, tasks in ends.items():
        db.execute(_END, (*how, now, orjson.dumps(tasks).decode()))


def _give_up(db: sqlite3.Connection, back: list[Settlement], now: int) -> list[Settlement]:
    """Fail tasks whose patience is used up, and store how long the others have waited. Tasks of a cancelled job do not
    wait any more."""
    vain = [s for s in in_vain(back) if db.execute(_JOB, (s.lease.job_id,)).fetchone()[0] != CANCELLED]
    if not vain:
        return []
    rows = db.execute(_WAITED, (orjson.dumps([s.lease.task_id for s in vain]).decode(),))
    waits = wait_or_give_up(vain, {number: (waited, until) for number, waited, until in rows}, now)
    db.executemany("UPDATE tasks SET waited = ?, waited_until = ? WHERE id = ?", waits)
    return [s for s in vain if s.state is TaskState.FAILED]


def _put_back(db: sqlite3.Connection, memory: Memory, back: list[Settlement], deltas: Deltas, now: int) -> None:
    """Return retries, snoozes and halts to the queue, unless their job was cancelled meanwhile."""
    for s in back:
        lease = s.lease
        if s.halt is not None and not _is_spared(db, s):
            pause_job(db, memory, lease.job_id, s.halt)
        drain, turn = db.execute(_JOB, (lease.job_id,)).fetchone()
        due: int | None = None
        state, ended = TaskState.READY, None
        why = (s.error, s.reason, s.error_type)
        if drain == CANCELLED:
            state, why, ended = TaskState.CANCELLED, (CANCELLED, CANCELLED, None), now
            deltas.note([lease.task_id], state)
        elif drain is not None:
            memory.flows.drain(lease.job_id)
        elif s.wait > 0:
            state, due = TaskState.WAITING, now + round(s.wait * 1000)
            memory.flows.sleep_until(lease.lane, due)
            wake(db, memory, lease.lane, due)
        else:
            offer(db, memory, lease.lane, lease.job_id, turn)
        facts = orjson.dumps(s.facts).decode() if s.facts else None
        row = (int(state), due, 0 if s.burned else 1, s.cost, s.guessed, *why, facts, ended, lease.task_id)
        db.execute(_PUT_BACK, row)
        to = "cancelled" if state is TaskState.CANCELLED else "queued"
        deltas.ended(lease.job_id, to, lease.price, s.cost, s.guessed)
        deltas.add(lease.job_id, retries=int(s.burned))


def _settle_neighbours(
    db: sqlite3.Connection, memory: Memory, live: list[Settlement], followed: set[int], deltas: Deltas, now: int
) -> None:
    """Skip tasks that need not run, release or skip followers, add children."""
    done: list[int] = []
    for s in live:
        lease = s.lease
        job = lease.job_id
        for skip in s.skip:
            why = (skip.message or skip.reason, skip.reason)
            for row in db.execute(_SKIP, (*why, now, job, lease.kind, clean(skip.key))).fetchall():
                deltas.add(job, queued=-1, skipped=1)
                deltas.note([row[0]], TaskState.SKIPPED)
                if row[1]:
                    skipped = skip_followers(db, row[0], job, skip.reason, deltas, now, message=skip.message)
                    deltas.note(skipped, TaskState.SKIPPED)
        if s.tasks:
            _add_children(db, memory, s, deltas)
        if lease.task_id not in followed:
            continue
        if s.state is TaskState.COMPLETED:
            done.append(lease.task_id)
        elif s.state in COUNTER_OF:
            deltas.note(skip_followers(db, lease.task_id, job, AFTER_FAILED, deltas, now), TaskState.SKIPPED)
    if done:
        _release_followers(db, memory, done)


def _add_children(db: sqlite3.Connection, memory: Memory, s: Settlement, deltas: Deltas) -> None:
    job = s.lease.job_id
    drain, turn = db.execute(_JOB, (job,)).fetchone()
    insert_tasks(db, memory, job, turn, encode(s.tasks, memory.catalog), deltas)
    if drain is not None:  # its job is being ended, and so are they
        memory.flows.drain(job)


def _release_followers(db: sqlite3.Connection, memory: Memory, done: list[int]) -> None:
    """Release the followers of all completed tasks in one statement: most of a group has one."""
    rows = db.execute(_RELEASE, (orjson.dumps(done).decode(), memory.now_ms())).fetchall()
    for lane, job, due in dict.fromkeys(rows):
        if due is not None:
            sleep_until(db, memory, lane, due)
            continue
        _, turn = db.execute(_JOB, (job,)).fetchone()
        offer(db, memory, lane, job, turn)


def _is_spared(db: sqlite3.Connection, s: Settlement) -> bool:
    """Return whether the job of a halt is one that it does not pause."""
    if s.spares == "none":
        return False
    return db.execute(_SPARED, (s.lease.job_id, s.spares == "succeeded")).fetchone() is not None


def pause_job(db: sqlite3.Connection, memory: Memory, job: int, reason: str | None) -> bool:
    paused = db.execute(
        "UPDATE jobs SET state = ?, reason = ? WHERE id = ? AND state IN ('queued', 'running') AND drain IS NULL",
        (JobState.PAUSED.value, reason, job),
    ).rowcount
    if paused:
        memory.flows.park(job)
        log_job(db, job, "paused", memory.now_ms(), {"reason": reason} if reason else None)
    return bool(paused)


def _spend(db: sqlite3.Connection, live: list[Settlement], now: int) -> None:
    spent: defaultdict[int, int] = defaultdict(int)
    for s in live:
        if s.cost:
            spent[s.lease.lane] += s.cost
    add_spending(db, spent, now)


def add_spending(db: sqlite3.Connection, spent: dict[int, int], now: int) -> None:
    day, hour = day_and_hour(now)
    db.executemany(_ADD_SPENDING, [(lane, day, amount, hour) for lane, amount in spent.items()])


def _keep_evidence(db: sqlite3.Connection, live: list[Settlement], until: int) -> None:
    db.executemany(
        "INSERT OR REPLACE INTO evidence (task_id, content_type, body, screenshot, kept_until) VALUES (?, ?, ?, ?, ?)",
        [
            (s.lease.task_id, e.content_type, body_of(e), screenshot_of(e), until)
            for s in live
            if (e := s.evidence) is not None
        ],
    )


# Writing the log of attempts: those that ended here, and those that died with their worker.


_KEEP = f"INSERT INTO attempts ({COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
# Selects kinds that keep every attempt, and the one task that is given up now.
_LOST = f"""
INSERT INTO attempts ({COLUMNS})
SELECT id, attempt, claimed_at, max(0, ? - claimed_at), ?, ?, ?, ?, NULL FROM tasks
WHERE state = 3 AND session_id = ? AND (id = ? OR kind IN (SELECT value FROM json_each(?)))
"""


def keep_attempts(db: sqlite3.Connection, live: Sequence[Settlement]) -> None:
    if rows := attempt_rows(live):
        db.executemany(_KEEP, rows)


def keep_lost(
    db: sqlite3.Connection, memory: Memory, session: int, now: int, *, crashed: bool, given_up: int | None = None
) -> None:
    """Log the attempts that a dead session still held. `given_up` is the task that has crashed alone for the last
    time."""
    kinds = memory.catalog.with_attempts
    if kinds or given_up is not None:
        why = (LOST, Reason.CRASHED, ErrorType.INTERNAL, DIED) if crashed else (GIVEN_BACK, None, None, None)
        db.execute(_LOST, (now, *why, session, given_up, orjson.dumps(list(kinds)).decode()))


# End hooks: the consequences of ended tasks and jobs, and the effects of settlements on plain tables.


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
    more += logged_task_changes(db, memory, deltas)
    write_deltas(db, deltas)
    write_changes(db, [*changes, *more] if more else changes, now)
    if effects:
        refuse_foreign(memory.catalog, effects)
        _write_effects(db, effects)
    if hooked:
        _write_effects_or_log(db, memory, hooked)
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
    _write_effects_or_log(db, memory, after_jobs(memory.catalog, ended, now))


def _write_effects(db: sqlite3.Connection, effects: Iterable[Effect]) -> None:
    for write in folded(effects):
        db.execute(write.sql, write.values)


def _write_effects_or_log(db: sqlite3.Connection, memory: Memory, effects: Sequence[Effect]) -> None:
    """Write all effects together. If the store refuses one, write them one by one and log each refusal."""
    try:
        refuse_foreign(memory.catalog, effects)
        with _savepoint(db):
            _write_effects(db, effects)
    except (*_REFUSED, Rejected):
        for effect in effects:
            try:
                refuse_foreign(memory.catalog, [effect])
                with _savepoint(db):
                    _write_effects(db, [effect])
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
