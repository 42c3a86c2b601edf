"""Leases tasks: fairly between the jobs of a lane, within each job's budget, concurrency and batch size."""

import sqlite3
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson

from forager.core.ledger import Lease, LeaseBatch, Session, Want
from forager.core.states import BUDGET
from forager.ledger.rules.changes import Deltas, note
from forager.ledger.rules.scheduling import MOST_SUSPECTS, Suspect, choose, promoted_pages
from forager.ledger.sqlite.changes import write_deltas
from forager.ledger.sqlite.state import Memory, next_number

# In the order of a lease's fields; `?` is its claim.
_COLUMNS = "id, job_id, lane_id, ?, attempt + 1, price, kind, key, retries, waited, body"
_JOB, _PRICE = 1, 5
# `state = 0` is a literal so that ix_tasks_ready fits; its order is the order of work inside a job.
_NEXT = f"SELECT {_COLUMNS} FROM tasks WHERE state = 0 AND lane_id = ? AND job_id = ? ORDER BY rank, id LIMIT ?"
_THESE = f"SELECT {_COLUMNS} FROM tasks WHERE id IN (SELECT value FROM json_each(?))"
# Rows are read first and marked afterwards, all in one statement: RETURNING would copy every row again.
_TAKE = """
UPDATE tasks SET state = 3, attempt = attempt + 1, claim = ?, claimed_at = ?, session_id = ?
WHERE id IN (SELECT value FROM json_each(?))
"""
_SUSPECTS = """
SELECT t.id, t.lane_id, t.together, t.price, j.id, j.running, j.concurrency, j.max_cost, j.spent + j.reserved
FROM tasks t JOIN jobs j ON j.id = t.job_id JOIN lanes l ON l.id = t.lane_id
WHERE t.state = 8 AND l.owner = ? AND NOT l.paused AND j.state IN ('queued', 'running') AND j.drain IS NULL
ORDER BY t.together, t.id LIMIT ?
"""
_MARK = "UPDATE tasks SET begun = claim, waits = ? WHERE id = ? AND state = 3 AND claim = ? AND session_id = ?"
_STARTED = """
UPDATE jobs SET state = 'running', started_at = coalesce(started_at, ?) WHERE id = ? AND state = 'queued'
"""
_HELD = """
SELECT id, job_id, lane_id, claim, attempt, price, kind, key, retries, waited, body
FROM tasks WHERE state = 3 AND session_id = ?
"""
# In the order of their moments, a page at a time: after an outage a million may be due at once.
_PROMOTE = """
UPDATE tasks SET state = 0, due = NULL WHERE id IN
  (SELECT id FROM tasks WHERE state = 1 AND lane_id = ? AND due <= ? ORDER BY due LIMIT ?) RETURNING job_id
"""
_JOBS = """
SELECT j.id, j.running, j.concurrency, j.batch_size, j.max_cost, j.spent + j.reserved
FROM json_each(?) g JOIN jobs j ON j.id = g.value WHERE j.state IN ('queued', 'running') AND j.drain IS NULL
"""
# The prices of the next tasks: kinds of different prices may wait in one lane.
_PRICES = "SELECT price FROM tasks WHERE state = 0 AND lane_id = ? AND job_id = ? ORDER BY rank, id LIMIT ?"
# `+`: by the wanted numbers, never by ix_lanes_owner, which has all lanes of the session.
_OWN_LANES = "SELECT l.id FROM json_each(?) g JOIN lanes l ON l.id = g.value WHERE +l.owner = ? AND NOT l.paused"


@dataclass(slots=True)
class _Claim:
    session: Session
    number: int
    now: int
    taken: defaultdict[int, int] = field(default_factory=lambda: defaultdict(int))
    """Tasks leased until now, by job, over all lanes …"""
    reserved: defaultdict[int, int] = field(default_factory=lambda: defaultdict(int))
    """… and their price. The jobs' counters are written once, at the end."""
    rows: list[tuple[Any, ...]] = field(default_factory=list)
    """Leased rows, in `_COLUMNS` …"""
    marked: int = 0
    """… and the number of them that are marked as running; the others still look ready."""
    limited: set[int] = field(default_factory=set)
    """Lanes in which a job has more tasks than its limits allow."""
    jobs: dict[int, tuple[Any, ...] | None] = field(default_factory=dict)
    """Rows of jobs, read once for all lanes; None for one that is paused, ended or being drained."""

    def look_up(self, db: sqlite3.Connection, jobs: Sequence[int]) -> None:
        unknown = [job for job in jobs if job not in self.jobs]
        if unknown:
            self.jobs.update(dict.fromkeys(unknown))
            self.jobs.update((row[0], row) for row in db.execute(_JOBS, (orjson.dumps(unknown).decode(),)))

    def give(self, job: int, rows: list[tuple[Any, ...]]) -> None:
        self.rows += rows
        self.taken[job] += len(rows)
        self.reserved[job] += sum([row[_PRICE] for row in rows])

    def mark(self, db: sqlite3.Connection) -> None:
        """Mark the leased tasks as running."""
        if self.marked < len(self.rows):
            numbers = orjson.dumps([row[0] for row in self.rows[self.marked :]]).decode()
            db.execute(_TAKE, (self.number, self.now, self.session.id, numbers))
            self.marked = len(self.rows)

    def end(self, db: sqlite3.Connection, memory: Memory) -> list[Lease]:
        self.mark(db)
        deltas = Deltas()
        for job, count in self.taken.items():
            if count:
                deltas.add(job, queued=-count, running=count, reserved=self.reserved[job])
        write_deltas(db, deltas)
        for job in deltas.jobs():
            if db.execute(_STARTED, (self.now, job)).rowcount:
                note(job, "started")
        return memory.catalog.leases(self.rows)


def lease(db: sqlite3.Connection, memory: Memory, session: Session, wants: Sequence[Want]) -> LeaseBatch:
    """Lease tasks for the wanted lanes. The result contains the next due time of each lane that had fewer than
    wanted."""
    now = memory.now_ms()
    next_due: dict[int, int | None] = {}
    claim: _Claim | None = None
    numbers = orjson.dumps([want.lane for want in wants]).decode()
    own = {row[0] for row in db.execute(_OWN_LANES, (numbers, session.id))}
    _promote(db, memory, own, now)
    for want in wants:
        if want.lane not in own:  # paused, or lost meanwhile: nothing is due there for this session
            next_due[want.lane] = None
            continue
        if memory.flows.has_work(want.lane):
            claim = claim or _Claim(session, next_number(db, "claim"), now)
            if _lease_lane(db, memory, claim, want) == want.most:
                continue
        next_due[want.lane] = memory.flows.next_due.get(want.lane)
    if claim is None:
        return LeaseBatch([], next_due=next_due)
    return LeaseBatch(claim.end(db, memory), next_due=next_due, limited=claim.limited)


def lease_suspects(
    db: sqlite3.Connection, memory: Memory, session: Session, room: Mapping[int, int] | None
) -> list[Lease]:
    """Lease the smallest waiting group of suspects. They run together, and nothing else runs with them."""
    rows = db.execute(_SUSPECTS, (session.id, MOST_SUSPECTS)).fetchall()
    chosen, broke = choose((Suspect(*row) for row in rows), room)
    for job in broke:
        _end_for_budget(db, memory, job)
    if not chosen:
        return []
    claim = _Claim(session, next_number(db, "claim"), memory.now_ms())
    for row in db.execute(_THESE, (claim.number, orjson.dumps(chosen).decode())).fetchall():
        claim.give(row[_JOB], [row])
    leases = claim.end(db, memory)
    leases[0].alone = len(leases) == 1
    return leases


def mark_step(db: sqlite3.Connection, session: Session, lease: Lease, *, waits: bool) -> bool:
    """Record that the step of a suspect begins or continues. Returns False if the claim was lost."""
    return db.execute(_MARK, (waits, lease.task_id, lease.claim, session.id)).rowcount == 1


def held(db: sqlite3.Connection, memory: Memory, session: Session) -> list[Lease]:
    return memory.catalog.leases(db.execute(_HELD, (session.id,)).fetchall())


def has_suspects(db: sqlite3.Connection, session: Session) -> bool:
    """Return whether `lease_suspects` could return something for this session."""
    if db.execute("SELECT 1 FROM tasks WHERE state = 8 LIMIT 1").fetchone() is None:
        return False
    return db.execute(_SUSPECTS, (session.id, 1)).fetchone() is not None


def _lease_lane(db: sqlite3.Connection, memory: Memory, claim: _Claim, want: Want) -> int:
    """Lease in equal parts for the jobs of the lowest turn, then give the rest to those that have more, until the lane
    is full."""
    left = want.most
    limited: set[int] = set()
    while left > 0:
        jobs = _candidates(memory, want, limited)
        if not jobs:
            break
        claim.mark(db)  # a job that is served again must not return the same tasks
        part = -(-left // len(jobs))
        claim.look_up(db, jobs)
        for job in jobs:
            asked = min(part, left)
            if asked == 0:
                break
            most = _allowed(db, memory, want.lane, claim.jobs[job], asked, claim)
            rows = db.execute(_NEXT, (claim.number, want.lane, job, most)).fetchall() if most else []
            claim.give(job, rows)
            left -= len(rows)
            memory.flows.served(want.lane, job)
            if most < asked:
                limited.add(job)
                claim.limited.add(want.lane)
            elif len(rows) < most:
                memory.flows.drop(want.lane, job)
    return want.most - left


def _candidates(memory: Memory, want: Want, limited: set[int]) -> list[int]:
    if want.job is None:
        return memory.flows.next_jobs(want.lane, but=limited)
    return [want.job] if want.job not in limited and memory.flows.offers(want.lane, want.job) else []


def _allowed(
    db: sqlite3.Connection, memory: Memory, lane: int, row: tuple[Any, ...] | None, asked: int, claim: _Claim
) -> int:
    """Return how many of the wanted tasks a job may lease now. Without a row it is paused, ended or being drained."""
    if row is None:
        return 0
    job, running, concurrency, batch_size, max_cost, committed = row
    most: int = asked
    if batch_size is not None:
        most = min(most, batch_size - claim.taken[job])
    if concurrency is not None:
        most = min(most, concurrency - running - claim.taken[job])
    if max_cost is not None and most > 0:
        prices = [p for (p,) in db.execute(_PRICES, (lane, job, most))]
        affordable = _affordable(prices, max_cost - committed - claim.reserved[job])
        if prices and affordable == 0 and running + claim.taken[job] == 0:
            _end_for_budget(db, memory, job)
        if affordable < len(prices):
            most = affordable
    return max(most, 0)


def _affordable(prices: Sequence[int], left: int) -> int:
    """Return how many of the next tasks can be paid, in their order."""
    for count, price in enumerate(prices):
        left -= price
        if left < 0:
            return count
    return len(prices)


def _end_for_budget(db: sqlite3.Connection, memory: Memory, job: int) -> None:
    """End a job whose budget is spent: no further task can be paid, and no in-flight task can release units. Queued
    tasks will be skipped."""
    db.execute("UPDATE jobs SET drain = ?, reason = ? WHERE id = ? AND drain IS NULL", (BUDGET, BUDGET, job))
    memory.flows.park(job)
    memory.flows.drain(job)


def _promote(db: sqlite3.Connection, memory: Memory, lanes: Iterable[int], now: int) -> None:
    """Make due tasks ready: a page per transaction, those that have waited longest first."""
    next_due = memory.flows.next_due
    due = sorted((next_due[lane], lane) for lane in lanes if lane in next_due and next_due[lane] <= now)
    for lane, most in promoted_pages([lane for _, lane in due]):
        jobs = [row[0] for row in db.execute(_PROMOTE, (lane, now, most)).fetchall()]
        for job in set(jobs):
            (turn,) = db.execute("SELECT turn FROM jobs WHERE id = ?", (job,)).fetchone()
            memory.flows.add(lane, job, turn)
        (later,) = db.execute("SELECT min(due) FROM tasks WHERE state = 1 AND lane_id = ?", (lane,)).fetchone()
        if later is None:
            next_due.pop(lane, None)
        else:
            next_due[lane] = later
