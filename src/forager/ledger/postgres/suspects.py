"""Leasing suspects: tasks that were in flight when a worker died. The smallest group first."""

from collections.abc import Mapping

from forager.core.ledger import Lease, Session
from forager.ledger.catalog import Catalog
from forager.ledger.postgres.connection import Db
from forager.ledger.postgres.counters import end_for_budget, lock_jobs
from forager.ledger.postgres.lease import LEASE_COLUMNS, count_leases
from forager.ledger.postgres.settle import Effect
from forager.ledger.shared.suspects import MOST_SUSPECTS, Suspect, choose

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
    db: Db, catalog: Catalog, session: Session, claim: int, room: Mapping[int, int] | None, effect: Effect
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
