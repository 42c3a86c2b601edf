"""Repairs states that should never occur but would otherwise last for ever: ready work that no session will find."""

from forager.core.pipeline import AGED_AFTER
from forager.ledger.postgres.connection import NOW, Db
from forager.ledger.postgres.flows import add_flows
from forager.ledger.postgres.lanes import wake
from forager.ledger.side_tables.robots import OF_USE_MS, PRUNED_AT_ONCE

# A loose scan of ix_queue_ready: one probe per (lane, job), not one per ready task.
_READY = """
WITH RECURSIVE seen AS (
  (SELECT lane_id, job_id FROM queue WHERE state = 0 ORDER BY lane_id, job_id LIMIT 1)
  UNION ALL
  SELECT n.lane_id, n.job_id FROM seen s CROSS JOIN LATERAL (
    SELECT q.lane_id, q.job_id FROM queue q WHERE q.state = 0 AND (q.lane_id, q.job_id) > (s.lane_id, s.job_id)
    ORDER BY q.lane_id, q.job_id LIMIT 1) n)
SELECT s.lane_id, s.job_id, f.job_id IS NULL AS missing, coalesce(f.paused, false) AS paused,
       coalesce(l.owner, 0) = 0 AND (l.wake_at IS NULL OR l.wake_at > $1) AS asleep
FROM seen s JOIN jobs j ON j.id = s.job_id JOIN lanes l ON l.id = s.lane_id
LEFT JOIN flows f ON f.lane_id = s.lane_id AND f.job_id = s.job_id
WHERE j.state IN ('queued', 'running') AND j.drain IS NULL
  AND (f.job_id IS NULL OR f.paused OR coalesce(l.owner, 0) = 0 AND (l.wake_at IS NULL OR l.wake_at > $1))
"""
_WAITING = """
WITH RECURSIVE seen AS (
  (SELECT lane_id, due FROM queue WHERE state = 1 ORDER BY lane_id, due LIMIT 1)
  UNION ALL
  SELECT n.lane_id, n.due FROM seen s CROSS JOIN LATERAL (
    SELECT q.lane_id, q.due FROM queue q WHERE q.state = 1 AND q.lane_id > s.lane_id
    ORDER BY q.lane_id, q.due LIMIT 1) n)
SELECT s.lane_id, s.due FROM seen s JOIN lanes l ON l.id = s.lane_id
WHERE coalesce(l.owner, 0) = 0 AND (l.wake_at IS NULL OR l.wake_at > s.due)
"""
_SUSPECT = """
SELECT DISTINCT q.lane_id FROM queue q JOIN lanes l ON l.id = q.lane_id
WHERE q.state = 8 AND coalesce(l.owner, 0) = 0 AND (l.wake_at IS NULL OR l.wake_at > $1)
"""

_AGE_FLOWS = f"""
UPDATE flows SET turn = 0 WHERE (lane_id, job_id) IN
  (SELECT f.lane_id, f.job_id FROM flows f JOIN jobs j ON j.id = f.job_id
   WHERE f.turn > 0 AND j.created_at <= {NOW} - $1::bigint ORDER BY f.lane_id, f.job_id FOR UPDATE OF f SKIP LOCKED)
"""
_AGE_JOBS = f"""
UPDATE jobs SET turn = 0 WHERE id = ANY(ARRAY(
  SELECT id FROM jobs WHERE finished_at IS NULL AND turn > 0 AND created_at <= {NOW} - $1::bigint
  ORDER BY id FOR NO KEY UPDATE SKIP LOCKED)) RETURNING id
"""


async def wake_sleepers(db: Db) -> int:
    """Wake lanes that sleep although they have work, and count them, so that such a defect becomes visible."""
    now = await db.fetchval(f"SELECT {NOW}")
    ready = await db.fetch(_READY, now)
    await add_flows(db, [(row["lane_id"], row["job_id"]) for row in ready if row["missing"]])
    for row in ready:
        if row["paused"]:
            await db.execute(
                "UPDATE flows SET paused = false WHERE lane_id = $1 AND job_id = $2", row["lane_id"], row["job_id"]
            )
    lanes = {row[0]: row[1] for row in await db.fetch(_WAITING)}
    lanes |= {row[0]: now for row in await db.fetch(_SUSPECT, now)}
    lanes |= {row["lane_id"]: now for row in ready}
    await wake(db, lanes)
    return len(lanes)


async def age(db: Db) -> int:
    """Set the turn of jobs that have waited long enough to 0. Never waits for a lock: the next sweep tries again.

    Flows are updated separately, because a flow may have just been written by a transaction that read its job before.
    """
    await db.execute(_AGE_FLOWS, round(AGED_AFTER * 1000))
    return len(await db.fetch(_AGE_JOBS, round(AGED_AFTER * 1000)))


async def drop_old(db: Db, most: int) -> int:
    """Delete expired evidence and Idempotency-Keys."""
    old = await db.fetch(
        "DELETE FROM evidence WHERE task_id = ANY(ARRAY(SELECT task_id FROM evidence"
        f" WHERE kept_until < {NOW} LIMIT $1 FOR UPDATE SKIP LOCKED)) RETURNING task_id",
        most,
    )
    await db.execute(f"DELETE FROM idempotency WHERE expires_at < {NOW}")
    return len(old)


async def drop_old_robots(db: Db) -> int:
    """Delete robots.txt files that have not been refreshed for long."""
    old = await db.fetch(
        "DELETE FROM robots WHERE origin = ANY(ARRAY(SELECT origin FROM robots"
        f" WHERE tried_at < {NOW} - $1::bigint LIMIT $2 FOR UPDATE SKIP LOCKED)) RETURNING origin",
        OF_USE_MS,
        PRUNED_AT_ONCE,
    )
    return len(old)
