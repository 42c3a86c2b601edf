"""Adds tasks to a standing job: one transaction finds or creates it, adds the tasks that it does not have yet, and
reopens it.

Rows are locked in the common order: tasks, flows, lanes, then the job.
"""

from collections.abc import Mapping, Sequence
from uuid import UUID

from forager.core.ledger import NewJob, Submitted
from forager.core.states import AFTER_FAILED, TERMINAL_JOBS, JobState
from forager.ledger.catalog import Catalog
from forager.ledger.postgres.again import Reopened, place, reopen
from forager.ledger.postgres.changes import job_says, write_changes
from forager.ledger.postgres.connection import NOW, Db, TryAgain
from forager.ledger.postgres.counters import lock_jobs, write_counters
from forager.ledger.postgres.flows import add_flows
from forager.ledger.postgres.followers import skip_followers
from forager.ledger.postgres.lanes import wake
from forager.ledger.postgres.submit import Repeated, create_whole
from forager.ledger.postgres.tasks import insert_tasks
from forager.ledger.postgres.tells import told_changes
from forager.ledger.shared.changelog import then
from forager.ledger.shared.job_creation import being_cancelled
from forager.ledger.shared.plan_encoding import Encoded, Whole

_STANDING = "SELECT j.id, j.public_id, j.drain FROM idempotency i JOIN jobs j ON j.id = i.job_id WHERE i.key = $1"


async def append(
    db: Db,
    job: NewJob,
    plans: Sequence[Encoded],
    lanes: Mapping[str, int],
    catalog: Catalog,
    *,
    again: bool = False,
) -> Submitted:
    row = await db.fetchrow(_STANDING, job.idempotency_key)
    if row is not None:
        if row["drain"] is not None:  # also if all of them are still open, and nothing would be added
            raise being_cancelled(row["public_id"])
        count = await _add(db, row["id"], plans, lanes, catalog, again=again)
        return Submitted(UUID(row["public_id"]), count, created=False)
    try:
        (submitted,) = await create_whole(db, [Whole(job, plans)], lanes, catalog)
    except Repeated:
        raise TryAgain("another process made the same standing job") from None
    return submitted


async def _add(
    db: Db, job: int, plans: Sequence[Encoded], lanes: Mapping[str, int], catalog: Catalog, *, again: bool
) -> int:
    now = await db.fetchval(f"SELECT {NOW}")
    reopened = await reopen(db, job, plans, lanes, now) if again else Reopened(job)
    written = await insert_tasks(db, [(job, plan) for plan in plans], lanes, one_open=catalog.one_open)
    count = written.count.get(job, 0) + len(reopened.plans)
    if not count:
        return 0
    if reopened.plans:
        await place(db, reopened, lanes, catalog.one_open, now)
    deltas = catalog.deltas()
    written.count_in(deltas)
    reopened.count_in(deltas)
    await skip_followers(db, sorted(written.dead_ends | reopened.dead_ends), AFTER_FAILED, deltas, now)
    ready = written.ready | reopened.ready
    await add_flows(db, ready)
    await wake(db, {**written.due, **reopened.due, **{lane: now for lane, _ in ready}})
    # Lock all flows of the job before its row, as `settle_and_lease` does: the opposite order would deadlock.
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
    told = await told_changes(db, catalog, deltas)
    extended = await job_says(db, job, "extended") if goes_on else None
    ended = await write_counters(db, deltas, now)  # if all of them were skipped at once
    await write_changes(db, [*told, *(ended if extended is None else then(extended, ended))], now)
    return count
