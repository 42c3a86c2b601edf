"""Which jobs have ready work in which lane: one row per (lane, job), so that a lease never looks at tasks to find jobs.

A flow may be there without ready work (a lease finds nothing and removes it), but ready work without a flow would wait
for ever: whoever makes work ready writes the flow in the same transaction and so holds its row; whoever removes one
locks it first and looks for ready work in a new statement.
"""

from collections.abc import Collection, Iterable

from forager.ledger.postgres.connection import Db

Flow = tuple[int, int]
"""(lane, job)"""

# DO UPDATE although nothing changes: the row must be locked, or a lease could remove it meanwhile.
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
    """Before any row of a job is locked: pausing a job takes flows first, too."""
    wanted = sorted(set(flows))
    if wanted:
        await db.execute(_ADD, [lane for lane, _ in wanted], [job for _, job in wanted])


async def remove_exhausted(db: Db, flows: Collection[Flow]) -> None:
    """Remove those that have no ready work. Never waits: a flow that somebody holds is about to have some."""
    if not flows:
        return
    mine = await db.fetch(_LOCK, [lane for lane, _ in flows], [job for _, job in flows])
    if mine:
        await db.execute(_REMOVE, [row[0] for row in mine], [row[1] for row in mine])


async def pause_flows(db: Db, jobs: Collection[int], *, paused: bool) -> list[int]:
    """Offer the jobs' ready work no more, or again. Returns the lanes."""
    rows = await db.fetch(
        "UPDATE flows SET paused = $2 WHERE (lane_id, job_id) IN (SELECT lane_id, job_id FROM flows"
        " WHERE job_id = ANY($1::bigint[]) ORDER BY lane_id, job_id FOR UPDATE) RETURNING lane_id",
        list(jobs),
        paused,
    )
    return sorted({row[0] for row in rows})
