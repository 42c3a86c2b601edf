"""Adding to a standing job: one transaction finds or makes it, adds what it does not have yet, and lets it go on.

Rows are locked in the order of everybody else: tasks, flows, lanes, then the job.
"""

from collections.abc import Mapping, Sequence
from uuid import UUID

from forager.core.ledger import NewJob, Submitted
from forager.core.states import TERMINAL_JOBS, JobState
from forager.ledger.postgres.changes import job_says, write_changes
from forager.ledger.postgres.connection import NOW, Db, TryAgain
from forager.ledger.postgres.counters import lock_jobs, write_counters
from forager.ledger.postgres.flows import add_flows
from forager.ledger.postgres.lanes import wake
from forager.ledger.postgres.submit import Repeated, create_whole
from forager.ledger.postgres.tasks import insert_tasks
from forager.ledger.shared.counting import Deltas
from forager.ledger.shared.job_creation import being_cancelled
from forager.ledger.shared.plan_encoding import Encoded, Whole

_STANDING = "SELECT j.id, j.public_id FROM idempotency i JOIN jobs j ON j.id = i.job_id WHERE i.key = $1"


async def append(db: Db, job: NewJob, plans: Sequence[Encoded], lanes: Mapping[str, int]) -> Submitted:
    row = await db.fetchrow(_STANDING, job.idempotency_key)
    if row is not None:
        return Submitted(UUID(row["public_id"]), await _add(db, row["id"], plans, lanes), created=False)
    try:
        (submitted,) = await create_whole(db, [Whole(job, plans)], lanes)
    except Repeated:
        raise TryAgain("another process made the same standing job") from None
    return submitted


async def _add(db: Db, job: int, plans: Sequence[Encoded], lanes: Mapping[str, int]) -> int:
    written = await insert_tasks(db, [(job, plan) for plan in plans], lanes)
    count = written.count.get(job, 0)
    if not count:
        return 0
    now = await db.fetchval(f"SELECT {NOW}")
    await add_flows(db, written.ready)
    await wake(db, {**written.due, **{lane: now for lane, _ in written.ready}})
    # All flows of the job before its row, as a turn does: whoever took them the other way round would wait for ever.
    await db.fetch("SELECT 1 FROM flows WHERE job_id = $1 ORDER BY lane_id FOR UPDATE", job)
    await lock_jobs(db, [job])
    row = await db.fetchrow("SELECT public_id, state, drain FROM jobs WHERE id = $1", job)
    if row is None or row["drain"] is not None:
        raise being_cancelled(row["public_id"] if row else str(job))
    goes_on = row["state"] in TERMINAL_JOBS
    if goes_on:
        await db.execute("UPDATE jobs SET state = 'running', finished_at = NULL WHERE id = $1", job)
    # An ended job's flows would have been written as paused: it was not running when they were.
    await db.execute("UPDATE flows SET paused = $2 WHERE job_id = $1", job, row["state"] == JobState.PAUSED)
    deltas = Deltas()
    deltas.add(job, total=count, queued=count)
    changes = await write_counters(db, deltas, now)
    await write_changes(db, [*changes, *([await job_says(db, job, "extended")] if goes_on else [])], now)
    return count
