"""Offered tasks: reported to a message broker, and left for a minute to the consumer that gets the message.

An offered task is a waiting one that is due in a minute, so every other worker takes it then, without any query that
knows of offers: a lost message costs a minute, never a task. Until then a consumer may claim it by its number. A claim
that a limit, a pause or another owner of the lane forbids ends the offer: the task is due at once, for any lease. So
after one call a consumer is done with each of its messages.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from forager.core.ledger import Want
from forager.ledger.postgres.connection import NOW, Db
from forager.ledger.postgres.lanes import wake
from forager.ledger.postgres.lease import JOB_COLUMNS, LEASE_COLUMNS, Round, lock_limited

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
