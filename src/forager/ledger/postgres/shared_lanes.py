"""Lanes whose limits are per worker (`Lane.scope` is `worker`): every session that asks may use them at once.

The owner of such a lane is 0, which is never the number of a session. So it is neither free nor owned: fair shares,
lanes without an owner and rescues leave it out without a condition of their own. Its tasks are leased with SKIP LOCKED
like all others. While it is awake (`wake_at` has passed) it has work, and sessions that do not use it yet may join. The
one that finds nothing more to do in it leaves, and puts it to sleep unless there is work after all, exactly as an owner
gives a lane back.
"""

from collections.abc import Collection

from forager.core.ledger import OwnedLane, Session
from forager.ledger.postgres.connection import NOW, Db

SHARED = 0
"""The `owner` of shared lanes. Sessions are numbered from 1."""
# Few lanes are shared, so all of them are read, by ix_lanes_owner.
_AWAKE = "owner = 0 AND NOT paused AND id <> ALL($2::bigint[])"
TO_JOIN = f"EXISTS (SELECT 1 FROM lanes WHERE {_AWAKE} AND wake_at <= {NOW})"
"""Whether a shared lane outside `$2` has work."""
_JOIN = f"""
SELECT id, name, queue FROM lanes WHERE {_AWAKE} AND wake_at <= $1 AND ($3::text[] IS NULL OR queue = ANY($3::text[]))
ORDER BY wake_at, id LIMIT $4
"""


async def join_lanes(db: Db, session: Session, known: Collection[int], now: int, most: int) -> list[OwnedLane]:
    """Return shared lanes of the session's queues that have work, except those that it uses already."""
    queues = None if session.queues is None else list(session.queues)
    rows = await db.fetch(_JOIN, now, list(known), queues, most)
    return [OwnedLane(number, name, {}, queue=queue, shared=True) for number, name, queue in rows]
