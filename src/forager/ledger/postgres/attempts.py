"""Writing the log of attempts: those that ended here, and those that died with their worker."""

from collections.abc import Collection, Sequence

from forager.core.ledger import Settlement
from forager.core.reasons import ErrorType, Reason
from forager.ledger.postgres.connection import Db
from forager.ledger.shared.attempt_log import COLUMNS, DIED, GIVEN_BACK, LOST, attempt_rows

_KEEP = f"""
INSERT INTO attempts ({COLUMNS})
SELECT * FROM unnest($1::bigint[], $2::smallint[], $3::bigint[], $4::bigint[], $5::text[], $6::text[], $7::text[],
                     $8::text[], $9::text[])
"""
# Of the kinds that keep every attempt, and of the tasks that are given up now.
_LOST = f"""
INSERT INTO attempts ({COLUMNS})
SELECT q.task_id, q.attempt, q.claimed_at, greatest(0, $2 - q.claimed_at), $3, $4, $5, $6, NULL
FROM queue q JOIN tasks t ON t.id = q.task_id
WHERE q.task_id = ANY($1::bigint[]) AND (t.kind = ANY($7::text[]) OR q.task_id = ANY($8::bigint[]))
"""


async def keep_attempts(db: Db, live: Sequence[Settlement]) -> None:
    if rows := attempt_rows(live):
        await db.execute(_KEEP, *([row[n] for row in rows] for n in range(len(rows[0]))))


async def keep_lost(
    db: Db, kinds: Collection[str], tasks: Sequence[int], given_up: Sequence[int], now: int, *, crashed: bool
) -> None:
    """Log the attempts that a dead session still held. `given_up` are tasks that have crashed alone for the last
    time."""
    if kinds or given_up:
        why = (LOST, Reason.CRASHED, ErrorType.INTERNAL, DIED) if crashed else (GIVEN_BACK, None, None, None)
        await db.execute(_LOST, tasks, now, *why, list(kinds), given_up)
