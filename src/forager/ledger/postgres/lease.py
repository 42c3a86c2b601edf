"""Leases tasks: fairly between the jobs of a lane, within each job's budget, concurrency and batch size.

A lease serves all its lanes at once, in rounds: equal parts for the jobs of the lowest turn, then the rest for those
that have more. Jobs with a limit are locked before their tasks are counted, so that several sessions cannot exceed the
limit together.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from forager.core.ledger import Lease, Session, Want
from forager.ledger.catalog import Catalog
from forager.ledger.postgres.changes import end_for_budget, lock_jobs
from forager.ledger.postgres.connection import NOW, Db, TryAgain, pairs
from forager.ledger.postgres.lanes import Flow, remove_exhausted, wake
from forager.ledger.postgres.settle import PendingWrites
from forager.ledger.rules.scheduling import MOST_SUSPECTS, Suspect, choose, promoted_pages

MOST_JOBS = 32
"""Maximum jobs that share one round of a lane; the others come in the next rounds."""


@dataclass(slots=True)
class Round:
    """The state of one lease over its rounds."""

    session: Session
    claim: int
    effect: PendingWrites
    last: dict[int, int]
    """The job that was served last, by lane. It belongs to the lane's owner; losing it is harmless."""
    left: dict[int, int] = field(default_factory=dict)
    """Tasks still wanted, by lane."""
    only: dict[int, int] = field(default_factory=dict)
    """Lanes in which tasks of one job are wanted, with that job."""
    rows: list[Any] = field(default_factory=list)
    """Leased rows, in `LEASE_COLUMNS`."""
    closed: set[Flow] = field(default_factory=set)
    """Flows that give no more in this transaction: exhausted, or at a limit."""
    limited: set[int] = field(default_factory=set)
    """Lanes in which a job has more tasks than its limits allow."""
    limits: dict[int, Any] = field(default_factory=dict)
    """Rows of jobs with a limit, locked."""
    taken: defaultdict[int, int] = field(default_factory=lambda: defaultdict(int))
    """Tasks requested or leased until now, by job, over all lanes …"""
    reserved: defaultdict[int, int] = field(default_factory=lambda: defaultdict(int))
    """… the price of those requested …"""
    paid: defaultdict[int, int] = field(default_factory=lambda: defaultdict(int))
    """… and of those leased."""


async def lease(db: Db, round_: Round, wants: Sequence[Want], own: Collection[int]) -> dict[int, int | None]:
    """Lease tasks in the wanted lanes. Returns, for each lane that had fewer than wanted, when its next task is due.
    `own`: the session's lanes that are not paused."""
    round_.left = {w.lane: w.most for w in wants if w.lane in own and w.most > 0}
    round_.only = {w.lane: w.job for w in wants if w.job is not None}
    short: dict[int, int | None] = dict.fromkeys(w.lane for w in wants if w.lane not in own)
    open_lanes = set(round_.left)
    while open_lanes:
        open_lanes = await _serve(db, round_, open_lanes)
    count_leases(round_.effect, round_.rows)
    hungry = sorted(lane for lane, left in round_.left.items() if left > 0)
    if hungry:
        short |= dict.fromkeys(hungry)
        short |= pairs(await db.fetch(_NEXT_DUE, hungry))
    return short


async def promote(db: Db, lanes: Sequence[int], now: int) -> set[Flow]:
    """Make due tasks ready: a page per transaction, lanes that have waited longest first. Returns their flows, to be
    added together with those of a settlement: flows are locked in one walk, before lanes and records."""
    due = [row[0] for row in await db.fetch(_DUE, lanes, now)]
    pages = dict(promoted_pages(due))
    rows = await db.fetch(_PROMOTE, list(pages), list(pages.values()), now) if pages else []
    return {(row[0], row[1]) for row in rows}


def count_leases(effect: PendingWrites, rows: Sequence[Any]) -> None:
    counts: defaultdict[int, int] = defaultdict(int)
    prices: defaultdict[int, int] = defaultdict(int)
    for row in rows:
        counts[row[_JOB]] += 1
        prices[row[_JOB]] += row[_PRICE]
    for job, count in counts.items():
        effect.deltas.add(job, queued=-count, running=count, reserved=prices[job])


async def _serve(db: Db, round_: Round, lanes: set[int]) -> set[int]:
    """Run one round. Returns the lanes that want more and may have more."""
    rows = await _candidates(db, round_, lanes)
    by_lane: defaultdict[int, list[Any]] = defaultdict(list)
    for row in rows:
        by_lane[row["lane_id"]].append(row)
    await lock_limited(db, round_, rows)
    asks: dict[Flow, int] = {}
    more: set[int] = set()
    for lane, candidates in by_lane.items():
        turn = candidates[0]["turn"]
        same = [row for row in candidates if row["turn"] == turn]
        await _share(db, round_, lane, same, asks)
        if len(candidates) >= MOST_JOBS or len(same) < len(candidates):
            more.add(lane)  # jobs of the next turn, or further ones of this turn, have not been served yet
    exhausted = await _take(db, round_, asks)
    await remove_exhausted(db, exhausted)
    round_.closed |= exhausted
    more |= {lane for lane, job in asks if (lane, job) not in round_.closed}
    return {lane for lane in more if round_.left[lane] > 0}


async def _candidates(db: Db, round_: Round, lanes: set[int]) -> list[Any]:
    closed = [lane for lane, _ in round_.closed], [job for _, job in round_.closed]
    shared = sorted(lanes - round_.only.keys())
    rows: list[Any] = []
    if shared:
        rows += await db.fetch(_CANDIDATES, shared, [round_.last.get(lane, 0) for lane in shared], *closed)
    if one_job := sorted(lanes & round_.only.keys()):
        rows += await db.fetch(_CANDIDATES_OF_ONE_JOB, one_job, [round_.only[lane] for lane in one_job], *closed)
    return rows


async def _share(db: Db, round_: Round, lane: int, candidates: Sequence[Any], asks: dict[Flow, int]) -> None:
    """Divide the lane's request into equal parts for its jobs. What a limit leaves over goes to the other jobs."""
    left = round_.left[lane]
    for index, row in enumerate(candidates):
        part = -(-left // (len(candidates) - index))
        if part == 0:
            break
        job = row["job_id"]
        most = await _allowed(db, round_, row, part)
        if most < part:
            round_.closed.add((lane, job))
            round_.limited.add(lane)
        if most > 0:
            asks[lane, job] = most
            round_.taken[job] += most
            left -= most
        round_.last[lane] = job


async def _allowed(db: Db, round_: Round, row: Any, asked: int) -> int:
    """Return how many of the wanted tasks a job may lease now, counting what this transaction has settled and
    leased."""
    job, effect = row["job_id"], round_.effect
    if not row["open"] or job in effect.halted or job in effect.draining:
        return 0
    if not row["limited"]:
        return asked if row["batch_size"] is None else min(asked, row["batch_size"] - round_.taken[job])
    limit = round_.limits.get(job)
    if limit is None or limit["drain"] is not None:
        return 0  # another session has locked it: it is served in the next transaction
    taken = round_.taken[job]
    running: int = limit["running"] + effect.deltas.of(job, "running") + taken
    most = asked
    if limit["batch_size"] is not None:
        most = min(most, limit["batch_size"] - taken)
    if limit["concurrency"] is not None:
        most = min(most, limit["concurrency"] - running)
    if limit["max_cost"] is not None and most > 0:
        most = await _affordable(db, round_, row, limit, most, running)
    return max(most, 0)


async def _affordable(db: Db, round_: Round, row: Any, limit: Any, most: int, running: int) -> int:
    """Return how many of the next tasks can be paid, in their order: tasks of one lane may have different prices."""
    job, deltas = row["job_id"], round_.effect.deltas
    prices = [r[0] for r in await db.fetch(_PRICES, row["lane_id"], job, most)]
    left = limit["max_cost"] - limit["committed"] - deltas.of(job, "spent") - deltas.of(job, "reserved")
    left -= round_.reserved[job]
    for count, price in enumerate(prices):
        if left < price:
            if count == 0 and running == 0:
                await end_for_budget(db, job)
                round_.effect.draining.add(job)
            return count
        left -= price
        round_.reserved[job] += price
    return most


async def lock_limited(db: Db, round_: Round, rows: Sequence[Any]) -> None:
    """Lock the jobs of these rows that have a limit: in the first round wait for them, in the common order; later, skip
    those that are locked."""
    wanted = {row["job_id"] for row in rows if row["limited"]} - round_.limits.keys()
    if not wanted:
        return
    first = not round_.limits
    settled = set(round_.effect.deltas.jobs()) if first else set()
    for row in await db.fetch(_LOCK_AND_WAIT if first else _LOCK_IF_FREE, sorted(wanted | settled)):
        round_.limits[row["id"]] = row
    for job in wanted - round_.limits.keys():
        round_.closed |= {(row["lane_id"], job) for row in rows if row["job_id"] == job}


async def _take(db: Db, round_: Round, asks: Mapping[Flow, int]) -> set[Flow]:
    """Lease the requested tasks of all lanes in one statement. Returns the flows that had fewer."""
    if not asks:
        return set()
    rows = await db.fetch(
        _TAKE,
        [lane for lane, _ in asks],
        [job for _, job in asks],
        list(asks.values()),
        round_.session.id,
        round_.claim,
        round_.effect.now,
    )
    round_.rows += rows
    got = Counter([(row[_LANE], row[_JOB]) for row in rows])
    for (lane, _), count in got.items():
        round_.left[lane] -= count
    paid: defaultdict[int, int] = defaultdict(int)
    for row in rows if round_.limits else ():
        if row[_JOB] in round_.limits:
            paid[row[_JOB]] += row[_PRICE]
    exhausted = {flow for flow, asked in asks.items() if got[flow] < asked}
    for flow in exhausted:
        round_.taken[flow[1]] -= asks[flow] - got[flow]
    _check_paid(round_, paid)
    return exhausted


def _check_paid(round_: Round, paid: Mapping[int, int]) -> None:
    """Check the budget: the leased tasks are those that were priced, unless another transaction had locked some of
    them."""
    for job, amount in paid.items():
        if amount > round_.reserved[job] - round_.paid[job] and round_.limits[job]["max_cost"] is not None:
            raise TryAgain(f"job {job} would pass its budget")
        round_.paid[job] += amount


_JOB, _LANE, _PRICE = 1, 2, 5
LEASE_COLUMNS = (
    "q.task_id, q.job_id, q.lane_id, q.claim, q.attempt, t.price, t.kind, t.key, t.retries, t.waited, t.body"
)
JOB_COLUMNS = """
j.state IN ('queued', 'running') AND j.drain IS NULL AS open, j.batch_size,
j.max_cost IS NOT NULL OR j.concurrency IS NOT NULL AS limited
"""
"""The columns of `jobs j` from which the limits of a job are computed."""
# Sessions and claims are numbered from one sequence.
NEXT_CLAIM = "nextval('sessions_id_seq')"
_DUE = """
SELECT x.id FROM unnest($1::bigint[]) AS x(id)
CROSS JOIN LATERAL (SELECT due FROM queue WHERE lane_id = x.id AND state = 1 AND due <= $2 ORDER BY due LIMIT 1) q
ORDER BY q.due
"""
# In the order of their moments, a page at a time: after an outage a million may be due at once. Rows that another
# transaction (a skip, a drain) has locked are left to it.
_PROMOTE = """
UPDATE queue q SET state = 0, due = NULL, offered = false WHERE q.task_id = ANY(ARRAY(
  SELECT y.task_id FROM unnest($1::bigint[], $2::int[]) AS x(lane_id, most) CROSS JOIN LATERAL (
    SELECT w.task_id FROM queue w WHERE w.lane_id = x.lane_id AND w.state = 1 AND w.due <= $3
    ORDER BY w.due LIMIT x.most FOR UPDATE SKIP LOCKED) y)) AND q.state = 1
RETURNING q.lane_id, q.job_id
"""
_NEXT_DUE = """
SELECT x.id, (SELECT min(q.due) FROM queue q WHERE q.lane_id = x.id AND q.state = 1)
FROM unnest($1::bigint[]) AS x(id)
"""
# Jobs after the one that was served last, then from the beginning; lower turns first.
_CANDIDATES = f"""
SELECT l.lane_id, f.job_id, f.turn, {JOB_COLUMNS}
FROM unnest($1::bigint[], $2::bigint[]) AS l(lane_id, last)
CROSS JOIN LATERAL (
  SELECT z.job_id, z.turn, z.lap FROM (
    (SELECT f.job_id, 0 AS lap, f.turn FROM flows f
     WHERE f.lane_id = l.lane_id AND NOT f.paused AND f.job_id > l.last AND NOT EXISTS (
       SELECT 1 FROM unnest($3::bigint[], $4::bigint[]) AS c(lane, job) WHERE c.lane = l.lane_id AND c.job = f.job_id)
     ORDER BY f.turn, f.job_id LIMIT {MOST_JOBS})
    UNION ALL
    (SELECT f.job_id, 1, f.turn FROM flows f
     WHERE f.lane_id = l.lane_id AND NOT f.paused AND f.job_id <= l.last AND NOT EXISTS (
       SELECT 1 FROM unnest($3::bigint[], $4::bigint[]) AS c(lane, job) WHERE c.lane = l.lane_id AND c.job = f.job_id)
     ORDER BY f.turn, f.job_id LIMIT {MOST_JOBS})) z
  ORDER BY z.turn, z.lap, z.job_id LIMIT {MOST_JOBS}) f
JOIN jobs j ON j.id = f.job_id
ORDER BY l.lane_id, f.turn, f.lap, f.job_id
"""
_CANDIDATES_OF_ONE_JOB = f"""
SELECT f.lane_id, f.job_id, f.turn, {JOB_COLUMNS}
FROM unnest($1::bigint[], $2::bigint[]) AS l(lane_id, job_id)
JOIN flows f ON f.lane_id = l.lane_id AND f.job_id = l.job_id AND NOT f.paused
JOIN jobs j ON j.id = f.job_id
WHERE NOT EXISTS (
  SELECT 1 FROM unnest($3::bigint[], $4::bigint[]) AS c(lane, job) WHERE c.lane = f.lane_id AND c.job = f.job_id)
"""
_LIMITS = """
SELECT id, running, concurrency, batch_size, max_cost, spent + reserved AS committed, drain FROM jobs
WHERE id = ANY($1::bigint[]) AND (max_cost IS NOT NULL OR concurrency IS NOT NULL) ORDER BY id FOR NO KEY UPDATE
"""
_LOCK_AND_WAIT = _LIMITS
_LOCK_IF_FREE = f"{_LIMITS} SKIP LOCKED"
_PRICES = """
SELECT t.price FROM (SELECT task_id, rank FROM queue WHERE lane_id = $1 AND job_id = $2 AND state = 0
  ORDER BY rank, task_id LIMIT $3) q JOIN tasks t ON t.id = q.task_id ORDER BY q.rank, q.task_id
"""
# `state = 0` is a literal so that ix_queue_ready fits; its order is the order of work inside a job. Rows that another
# transaction (a lease, a skip, a drain) has locked are skipped: a lease never waits. The update finds the rows by their
# physical position, since they are locked; a row that was moved meanwhile is skipped as well, and found within a
# second.
_TAKE = f"""
WITH pick AS MATERIALIZED (
  SELECT y.place FROM unnest($1::bigint[], $2::bigint[], $3::int[]) AS a(lane_id, job_id, n)
  CROSS JOIN LATERAL (SELECT q.ctid AS place FROM queue q
    WHERE q.lane_id = a.lane_id AND q.job_id = a.job_id AND q.state = 0
    ORDER BY q.rank, q.task_id LIMIT a.n FOR UPDATE SKIP LOCKED) y),
q AS (UPDATE queue q SET state = 3, attempt = q.attempt + 1, session_id = $4, claim = $5, claimed_at = $6
  WHERE q.ctid = ANY(ARRAY(SELECT place FROM pick)) RETURNING q.*)
SELECT {LEASE_COLUMNS} FROM q JOIN tasks t ON t.id = q.task_id ORDER BY q.lane_id, q.rank, q.task_id
"""


# Offered tasks: reported to a message broker, and left for a minute to the consumer that gets the message.
#
# An offered task is a waiting one that is due in a minute. Every other worker takes it then, by the ordinary queries: a
# lost message costs a minute, never a task. Until then a consumer may claim it by its number. A claim that a limit, a
# pause or another owner of the lane forbids ends the offer: the task is due at once, for any lease. So after one call a
# consumer is done with each of its messages.


_CAN_BE_CLAIMED = "(q.state = 0 OR q.state = 1 AND q.offered)"
_NAMED = f"""
SELECT q.task_id, q.lane_id, q.job_id, t.price, {JOB_COLUMNS}
FROM unnest($1::bigint[]) WITH ORDINALITY AS x(id, place) JOIN queue q ON q.task_id = x.id
JOIN tasks t ON t.id = q.task_id JOIN jobs j ON j.id = q.job_id WHERE {_CAN_BE_CLAIMED} ORDER BY x.place
"""
# Rows that another transaction has locked are being leased or ended by it.
_CLAIM = f"""
WITH pick AS MATERIALIZED (
  SELECT q.task_id FROM queue q WHERE q.task_id = ANY($1::bigint[]) AND {_CAN_BE_CLAIMED} FOR UPDATE SKIP LOCKED),
q AS (UPDATE queue q SET state = 3, due = NULL, offered = false, attempt = q.attempt + 1, session_id = $2, claim = $3,
    claimed_at = $4
  WHERE q.task_id = ANY(ARRAY(SELECT task_id FROM pick)) RETURNING q.*)
SELECT {LEASE_COLUMNS} FROM q JOIN tasks t ON t.id = q.task_id ORDER BY q.task_id
"""
_END = """
UPDATE queue q SET due = $2, offered = false WHERE q.task_id = ANY(ARRAY(
  SELECT w.task_id FROM queue w WHERE w.task_id = ANY($1::bigint[]) AND w.state = 1 AND w.offered
  ORDER BY w.task_id FOR UPDATE SKIP LOCKED))
RETURNING q.lane_id
"""


async def claim_by_number(db: Db, round_: Round, wants: Sequence[Want], own: set[int]) -> list[Want]:
    """Lease the tasks that are wanted by their numbers, within the limits of any lease, and end the other offers.
    Returns what is still wanted."""
    numbers = [number for want in wants for number in want.tasks]
    rows = await db.fetch(_NAMED, numbers)
    await lock_limited(db, round_, rows)
    left = {want.lane: want.most for want in wants if want.lane in own}
    chosen = [row["task_id"] for row in rows if _take_place(round_, row, left)]
    taken = await db.fetch(_CLAIM, chosen, round_.session.id, round_.claim, round_.effect.now) if chosen else []
    round_.rows += taken
    got = {row["task_id"] for row in taken}
    for row in rows:
        if row["task_id"] in chosen and row["task_id"] not in got:
            _give_place_back(round_, row, left)
    await _end(db, [number for number in numbers if number not in got], round_.effect.now, own)
    return [replace(want, most=left.get(want.lane, want.most), tasks=()) for want in wants]


async def end_offers(db: Db, tasks: Sequence[int]) -> None:
    """End the offers of these tasks: any lease may take them now."""
    await _end(db, tasks, await db.fetchval(f"SELECT {NOW}"), set())


async def _end(db: Db, tasks: Sequence[int], now: int, own: set[int]) -> None:
    lanes = {row[0] for row in await db.fetch(_END, tasks, now)} if tasks else set()
    await wake(db, {lane: now for lane in lanes if lane not in own})


def _take_place(round_: Round, row: Any, left: dict[int, int]) -> bool:
    """Count one task in, if its lane and its job allow it."""
    job, price, lane = row["job_id"], row["price"], row["lane_id"]
    effect, taken = round_.effect, round_.taken[job]
    if left.get(lane, 0) <= 0 or not row["open"] or job in effect.halted or job in effect.draining:
        return False
    if row["batch_size"] is not None and taken >= row["batch_size"]:
        return False
    if row["limited"]:
        limit = round_.limits.get(job)
        if limit is None or limit["drain"] is not None:
            return False
        running = limit["running"] + effect.deltas.of(job, "running") + taken
        if limit["concurrency"] is not None and running >= limit["concurrency"]:
            return False
        spent = limit["committed"] + effect.deltas.of(job, "spent") + effect.deltas.of(job, "reserved")
        if limit["max_cost"] is not None and spent + round_.reserved[job] + price > limit["max_cost"]:
            return False
    left[lane] -= 1
    round_.taken[job] += 1
    round_.reserved[job] += price
    round_.paid[job] += price
    return True


def _give_place_back(round_: Round, row: Any, left: dict[int, int]) -> None:
    left[row["lane_id"]] += 1
    round_.taken[row["job_id"]] -= 1
    round_.reserved[row["job_id"]] -= row["price"]
    round_.paid[row["job_id"]] -= row["price"]


# Leasing suspects: tasks that were in flight when a worker died. The smallest group first.


_FROM = """
FROM lanes l JOIN queue q ON q.lane_id = l.id AND q.state = 8
JOIN tasks t ON t.id = q.task_id JOIN jobs j ON j.id = q.job_id
WHERE l.owner IN ($1, 0) AND NOT l.paused AND j.state IN ('queued', 'running') AND j.drain IS NULL
"""
HAS_SUSPECTS = f"EXISTS (SELECT 1 FROM queue WHERE state = 8) AND EXISTS (SELECT 1 {_FROM})"
_SUSPECTS = f"""
SELECT q.task_id, q.lane_id, t.together, t.price, j.id AS job_id, j.running, j.concurrency, j.max_cost,
       j.spent + j.reserved AS committed {_FROM} ORDER BY t.together, q.task_id LIMIT $2
"""
_TAKE_THESE = f"""
WITH q AS (UPDATE queue q SET state = 3, attempt = q.attempt + 1, session_id = $2, claim = $3, claimed_at = $4
  WHERE q.task_id = ANY($1::bigint[]) AND q.state = 8 RETURNING q.*)
SELECT {LEASE_COLUMNS} FROM q JOIN tasks t ON t.id = q.task_id ORDER BY q.task_id
"""
_HELD = f"""
SELECT {LEASE_COLUMNS} FROM queue q JOIN tasks t ON t.id = q.task_id
WHERE q.session_id = $1 AND q.state = 3 ORDER BY q.task_id
"""


_MARK = """
UPDATE tasks t SET begun = q.claim, waits = $4 FROM queue q
WHERE t.id = $1 AND q.task_id = t.id AND q.state = 3 AND q.claim = $2 AND q.session_id = $3 RETURNING t.id
"""


async def lease_suspects(
    db: Db, catalog: Catalog, session: Session, claim: int, room: Mapping[int, int] | None, effect: PendingWrites
) -> list[Lease]:
    rows = await db.fetch(_SUSPECTS, session.id, MOST_SUSPECTS)
    if not rows:
        return []
    await lock_jobs(db, (row["job_id"] for row in rows))
    locked = await db.fetch(_SUSPECTS, session.id, MOST_SUSPECTS)
    chosen, broke = choose((Suspect(*row) for row in locked), room)
    for job in broke:
        await end_for_budget(db, job)
        effect.draining.add(job)
    if not chosen:
        return []
    taken = await db.fetch(_TAKE_THESE, chosen, session.id, claim, effect.now)
    count_leases(effect, taken)
    leases = catalog.leases(taken)
    for lease in leases:
        lease.alone = len(leases) == 1
    return leases


async def mark_step(db: Db, session: Session, lease: Lease, *, waits: bool) -> bool:
    """Record that the step of a suspect begins or continues. Returns False if the claim was lost."""
    return await db.fetchval(_MARK, lease.task_id, lease.claim, session.id, waits) is not None


async def held(db: Db, catalog: Catalog, session: Session) -> list[Lease]:
    return catalog.leases(await db.fetch(_HELD, session.id))
