"""Handing out work: fair between the jobs of a lane, within each job's budget, concurrency and batch size."""

import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from forager.core.ledger import Lease, Session, Want
from forager.core.states import BUDGET
from forager.ledger.sqlite.counters import Deltas
from forager.ledger.sqlite.memory import Memory, next_number

# `state = 0` is a literal so that ix_tasks_ready fits; its order is the order of work inside a job.
_TAKE = """
UPDATE tasks SET state = 3, attempt = attempt + 1, claim = ?, claimed_at = ?, session_id = ?
WHERE id IN (SELECT id FROM tasks WHERE state = 0 AND lane_id = ? AND job_id = ? ORDER BY rank, id LIMIT ?)
RETURNING id, job_id, lane_id, attempt, price, kind, key, body, followed, rank
"""
_TAKE_THESE = """
UPDATE tasks SET state = 3, attempt = attempt + 1, claim = ?, claimed_at = ?, session_id = ?
WHERE id IN (SELECT value FROM json_each(?))
RETURNING id, job_id, lane_id, attempt, price, kind, key, body, followed, rank
"""
_SUSPECTS = """
SELECT t.id, t.together, t.price, j.id, j.running, j.max_cost, j.spent + j.reserved
FROM tasks t JOIN jobs j ON j.id = t.job_id JOIN lanes l ON l.id = t.lane_id
WHERE t.state = 8 AND l.owner = ? AND NOT l.paused AND j.state IN ('queued', 'running')
ORDER BY t.together, t.id LIMIT 4096
"""
_PROMOTE = "UPDATE tasks SET state = 0, due = NULL WHERE state = 1 AND lane_id = ? AND due <= ? RETURNING job_id"
_JOBS = """
SELECT j.id, j.state, j.running, j.concurrency, j.batch_size, j.max_cost, j.spent + j.reserved
FROM json_each(?) g JOIN jobs j ON j.id = g.value
"""
# What the next task costs; the ready tasks of one job in one lane have one price.
_PRICE = "SELECT price FROM tasks WHERE state = 0 AND lane_id = ? AND job_id = ? ORDER BY rank, id LIMIT 1"


@dataclass(slots=True)
class _Claim:
    session: Session
    number: int
    now: int


def lease(
    db: sqlite3.Connection, memory: Memory, session: Session, wants: Sequence[Want]
) -> tuple[list[Lease], dict[int, int | None]]:
    """Leases for the wanted lanes, and for each lane that came back short when it has more."""
    now = memory.now_ms()
    leases: list[Lease] = []
    next_due: dict[int, int | None] = {}
    claim: _Claim | None = None
    for want in wants:
        _promote(db, memory, want.lane, now)
        if memory.flows.has_work(want.lane):
            claim = claim or _Claim(session, next_number(db, "claim"), now)
            got = _lease_lane(db, memory, claim, want)
            leases.extend(got)
            if len(got) == want.most:
                continue
        next_due[want.lane] = memory.flows.next_due.get(want.lane)
    _write(db, leases, now)
    return leases, next_due


def lease_suspects(db: sqlite3.Connection, memory: Memory, session: Session) -> list[Lease]:
    """The smallest waiting group: as many as may run together, and nothing beside them."""
    chosen: list[int] = []
    group: int | None = None
    committed: dict[int, int] = {}
    for number, together, price, job, running, max_cost, spent in db.execute(_SUSPECTS, (session.id,)).fetchall():
        if group is not None and (together != group or len(chosen) >= group):
            break
        now_committed = committed.get(job, spent) + price
        if max_cost is not None and now_committed > max_cost:
            if running == 0 and job not in committed:
                _end_for_budget(db, memory, job)
            continue
        committed[job] = now_committed
        group = together
        chosen.append(number)
    if not chosen:
        return []
    now = memory.now_ms()
    claim = next_number(db, "claim")
    rows = db.execute(_TAKE_THESE, (claim, now, session.id, orjson.dumps(chosen).decode())).fetchall()
    leases = [_lease(memory, claim, row) for row in rows]
    _write(db, leases, now)
    return leases


def held(db: sqlite3.Connection, memory: Memory, session: Session) -> list[Lease]:
    rows = db.execute(
        "SELECT id, job_id, lane_id, attempt, price, kind, key, body, followed, claim FROM tasks"
        " WHERE state = 3 AND session_id = ?",
        (session.id,),
    ).fetchall()
    return [_lease(memory, row[9], row) for row in rows]


def _lease_lane(db: sqlite3.Connection, memory: Memory, claim: _Claim, want: Want) -> list[Lease]:
    """Equal parts for the jobs whose turn it is, then the rest for whoever has more, until the lane is full."""
    got: list[Lease] = []
    limited: set[int] = set()
    while len(got) < want.most:
        jobs = memory.flows.next_jobs(want.lane, but=limited)
        if not jobs:
            break
        part = -(-(want.most - len(got)) // len(jobs))
        rows = {row[0]: row for row in db.execute(_JOBS, (orjson.dumps(jobs).decode(),))}
        for job in jobs:
            asked = min(part, want.most - len(got))
            most = _allowed(db, memory, want.lane, rows.get(job), asked, got)
            taken = _take(db, memory, claim, want.lane, job, most)
            got.extend(taken)
            if most < asked:
                limited.add(job)
            elif len(taken) < most:
                memory.flows.drop(want.lane, job)
    return got


def _allowed(
    db: sqlite3.Connection, memory: Memory, lane: int, row: tuple[Any, ...] | None, asked: int, got: list[Lease]
) -> int:
    """How many of the asked a job may have now. `got`: what this very lease gave out already."""
    if row is None or row[1] not in ("queued", "running"):
        return 0
    job, _, running, concurrency, batch_size, max_cost, committed = row
    if concurrency is None and batch_size is None and max_cost is None:
        return asked
    mine = [lease for lease in got if lease.job_id == job]
    most: int = asked
    if batch_size is not None:
        most = min(most, batch_size - len(mine))
    if concurrency is not None:
        most = min(most, concurrency - running - len(mine))
    if max_cost is not None:
        (price,) = db.execute(_PRICE, (lane, job)).fetchone() or (0,)
        if price:
            affordable = (max_cost - committed - sum(lease.price for lease in mine)) // price
            if affordable <= 0 and running + len(mine) == 0:
                _end_for_budget(db, memory, job)
            most = min(most, affordable)
    return max(most, 0)


def _end_for_budget(db: sqlite3.Connection, memory: Memory, job: int) -> None:
    """Nothing more can be paid and nothing in flight can give anything back: what is queued will be skipped."""
    db.execute("UPDATE jobs SET drain = ? WHERE id = ? AND drain IS NULL", (BUDGET, job))
    memory.flows.draining.add(job)


def _take(db: sqlite3.Connection, memory: Memory, claim: _Claim, lane: int, job: int, most: int) -> list[Lease]:
    if most <= 0:
        return []
    rows = db.execute(_TAKE, (claim.number, claim.now, claim.session.id, lane, job, most)).fetchall()
    if len(rows) > 1:
        rows.sort(key=lambda r: (r[9], r[0]))
    return [_lease(memory, claim.number, row) for row in rows]


def _lease(memory: Memory, claim: int, row: tuple[Any, ...]) -> Lease:
    number, job, lane, attempt, price, kind, key, body, followed, _ = row
    task = memory.catalog.decode(kind, body)
    return Lease(number, job, lane, claim, attempt, price, kind, key, task, bool(followed))


def _promote(db: sqlite3.Connection, memory: Memory, lane: int, now: int) -> None:
    """Waiting tasks that are due become ready."""
    due = memory.flows.next_due.get(lane)
    if due is None or due > now:
        return
    jobs = {row[0] for row in db.execute(_PROMOTE, (lane, now)).fetchall()}
    for job in jobs:
        (turn,) = db.execute("SELECT turn FROM jobs WHERE id = ?", (job,)).fetchone()
        memory.flows.add(lane, job, turn)
    (later,) = db.execute("SELECT min(due) FROM tasks WHERE state = 1 AND lane_id = ?", (lane,)).fetchone()
    if later is None:
        memory.flows.next_due.pop(lane, None)
    else:
        memory.flows.next_due[lane] = later


def _write(db: sqlite3.Connection, leases: Sequence[Lease], now: int) -> None:
    deltas = Deltas()
    for lease in leases:
        deltas.add(lease.job_id, queued=-1, running=1, reserved=lease.price)
    deltas.write(db)
    db.executemany(
        "UPDATE jobs SET state = 'running', started_at = coalesce(started_at, ?) WHERE id = ? AND state = 'queued'",
        [(now, job) for job in deltas.jobs()],
    )
