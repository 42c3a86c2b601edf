"""Settles tasks in one transaction: state, followers, children, records, changes, counters, cost.

Every settlement must pass the fence first: the task must still be running under the claim that the settlement carries.
A worker can be late without knowing it (a paused machine, a long garbage collection, a lost connection), and meanwhile
its session is rescued and another worker runs the task under a new claim. The late outcome must then have no effect at
all, or records, costs and children would count twice. So the fence is checked inside the same transaction that writes
the effects; a check before it could be out of date by the commit.
"""

import sqlite3
from collections import defaultdict
from collections.abc import Sequence

import orjson

from forager.core.ledger import Settlement
from forager.core.states import AFTER_FAILED, CANCELLED, JobState, TaskState
from forager.ledger.shared.changelog import NewChange
from forager.ledger.shared.counting import COUNTER_OF, Deltas
from forager.ledger.shared.evidence import body_of, screenshot_of
from forager.ledger.shared.job_creation import SPARED
from forager.ledger.shared.patience import in_vain, wait_or_give_up
from forager.ledger.shared.plan_encoding import encode
from forager.ledger.shared.spending import day_and_hour
from forager.ledger.shared.text import clean
from forager.ledger.sqlite.aftermath import close
from forager.ledger.sqlite.attempts import keep_attempts
from forager.ledger.sqlite.counters import say
from forager.ledger.sqlite.followers import skip_followers
from forager.ledger.sqlite.records import store_records
from forager.ledger.sqlite.tasks import insert_tasks
from forager.ledger.sqlite.unseen import keep_rejected, store_in_order
from forager.ledger.sqlite.writer_state import Memory, offer, sleep_until, wake

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
# One row per day, which also holds what was spent in its last hour: caps per hour cost no row of their own.
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
    """End tasks. Most tasks of a job end alike, so each statement covers all that do."""
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
    """Fail tasks that have waited in vain for long enough, and store how long the others have. Tasks of a cancelled job
    do not wait any more."""
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
        say(db, job, "paused", memory.now_ms(), {"reason": reason} if reason else None)
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
