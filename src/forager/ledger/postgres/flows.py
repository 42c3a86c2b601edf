"""Which jobs have ready work in which lane: one row per (lane, job), so that a lease never looks at tasks to find jobs.

A flow may exist without ready work (a lease finds nothing and removes it), but ready work without a flow would wait for
ever. So a transaction that makes work ready also writes the flow, and thereby locks its row; one that removes a flow
locks it first and then searches for ready work in a new statement, which sees everything committed meanwhile.
"""

from collections.abc import Collection, Iterable

from forager.ledger.postgres.connection import Db

Flow = tuple[int, int]
"""(lane, job)"""

# DO UPDATE although nothing changes, to lock the row: otherwise a lease could remove it meanwhile.
_ADD = """
INSERT INTO flows (lane_id, job_id, turn, paused)
SELECT x.lane_id, x.job_id, j.turn, j.state NOT IN ('queued', 'running') OR j.drain IS NOT NULL
FROM unnest($1::bigint[], $2::bigint[]) AS x(lane_id, job_id) JOIN jobs j ON j.id = x.job_id
ORDER BY x.lane_id, x.job_id
ON CONFLICT (lane_id, job_id) DO UPDATE SET turn = excluded.turn
"""
_LOCK = """
SELECT f.lane_id, f.job_id FROM unnest($1::bigint[], $2::bigint[]) AS x(lane_id, job_id)
JOIN flows f ON f.lane_id = x.lane_id AND f.job_id = x.job_id FOR UPDATE OF f SKIP LOCKED
"""
_REMOVE = """
DELETE FROM flows f USING unnest($1::bigint[], $2::bigint[]) AS x(lane_id, job_id)
WHERE f.lane_id = x.lane_id AND f.job_id = x.job_id AND NOT EXISTS
  (SELECT 1 FROM queue q WHERE q.lane_id = x.lane_id AND q.job_id = x.job_id AND q.state = 0)
"""


async def add_flows(db: Db, flows: Iterable[Flow]) -> None:
    """Add flows. Call this before any row of a job is locked: pausing a job locks flows first, too."""
    wanted = sorted(set(flows))
    if wanted:
        await db.execute(_ADD, [lane for lane, _ in wanted], [job for _, job in wanted])


async def remove_exhausted(db: Db, flows: Collection[Flow]) -> None:
    """Remove flows without ready work. Never waits: a flow that another transaction has locked is about to get some."""
    if not flows:
        return
    mine = await db.fetch(_LOCK, [lane for lane, _ in flows], [job for _, job in flows])
    if mine:
        await db.execute(_REMOVE, [row[0] for row in mine], [row[1] for row in mine])


async def pause_flows(db: Db, jobs: Collection[int], *, paused: bool) -> list[int]:
    """Stop or resume offering the jobs' ready work. Returns their lanes."""
    rows = await db.fetch(
        "UPDATE flows SET paused = $2 WHERE (lane_id, job_id) IN (SELECT lane_id, job_id FROM flows"
        " WHERE job_id = ANY($1::bigint[]) ORDER BY lane_id, job_id FOR UPDATE) RETURNING lane_id",
        list(jobs),
        paused,
    )
    return sorted({row[0] for row in rows})
