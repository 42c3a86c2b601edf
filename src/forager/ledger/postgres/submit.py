"""A small job is one transaction; a big one is written in chunks and cannot be leased until it is whole."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID, uuid4

import asyncpg
import orjson

from forager.core.errors import Conflict
from forager.core.ids import task_uuid
from forager.core.ledger import NewJob, Submitted
from forager.core.states import JobState
from forager.ledger.changelog import job_change
from forager.ledger.creation import PLANNING_LEASE_MS, fingerprint, remembered_ms, require_room, require_same
from forager.ledger.planned import Encoded
from forager.ledger.postgres.changes import write_changes
from forager.ledger.postgres.connection import NOW, Db
from forager.ledger.postgres.flows import add_flows, pause_flows
from forager.ledger.postgres.lanes import wake
from forager.ledger.postgres.tasks import TaskName, insert_tasks

SWEEP_PAGE = 5_000


@dataclass(frozen=True, slots=True)
class JobRow:
    number: int
    public_id: str


class Repeated(Exception):
    """Somebody else was first with this Idempotency-Key."""


async def submit_whole(db: Db, job: NewJob, plans: Sequence[Encoded], lanes: Mapping[str, int]) -> Submitted:
    await check_room(db, job, len(plans))
    row = await insert_job(db, job)
    numbers: dict[TaskName, int] = {}
    written = await insert_tasks(db, [(row.number, p) for p in plans], lanes, numbers)
    total = written.count.get(row.number, 0)
    await open_job(db, row, total, ready={lane for lane, _ in written.ready})
    first = next(iter(numbers.values()), None)
    return Submitted(UUID(row.public_id), total, True, None if first is None else task_uuid(row.number, first))


async def find_repeat(db: Db, job: NewJob) -> Submitted | JobState | None:
    """The job that the same Idempotency-Key made within a day; PLANNING while it is still being written.

    One whose submission died is none: the sweep will remove it.
    """
    if job.idempotency_key is None:
        return None
    row = await db.fetchrow(
        "SELECT i.fingerprint, j.public_id, j.total, j.planning_until IS NOT NULL AS planning FROM idempotency i"
        f" JOIN jobs j ON j.id = i.job_id WHERE i.key = $1 AND i.expires_at > {NOW}"
        f" AND coalesce(j.planning_until >= {NOW}, true)",
        job.idempotency_key,
    )
    if row is None:
        return None
    require_same(job, row["fingerprint"])
    return JobState.PLANNING if row["planning"] else Submitted(UUID(row["public_id"]), row["total"], created=False)


async def check_room(db: Db, job: NewJob, more: int) -> None:
    """Raise `Busy` if so many tasks more would be too many for the pipeline's queue.

    First of all in its transaction: whoever submits to the same queue waits here until this one is counted.
    """
    if job.limits.most_queued is not None:
        await db.execute("SELECT pg_advisory_xact_lock(hashtext('queue'), hashtext($1))", job.pipeline)
        require_room(job, int(await db.fetchval(_WAITING, job.pipeline)), more)


async def insert_job(db: Db, job: NewJob) -> JobRow:
    """The job's row, still `planning`: nothing of it can be leased.

    With an Idempotency-Key, the key's row decides who is first: whoever comes second waits here for the first one's
    commit, then raises `Repeated`.
    """
    limits = job.limits
    public_id = str(uuid4())
    number = await db.fetchval(
        _INSERT_JOB,
        public_id,
        job.pipeline,
        orjson.dumps(job.params, default=str).decode(),
        None if job.estimate is None else orjson.dumps(job.estimate, default=str).decode(),
        job.schedule,
        limits.turn,
        limits.batch_size,
        limits.concurrency,
        limits.max_cost,
        PLANNING_LEASE_MS,
    )
    if job.idempotency_key is not None:
        mine = await db.fetchval(_INSERT_KEY, job.idempotency_key, fingerprint(job), number, remembered_ms(job))
        if mine is None:
            raise Repeated
    return JobRow(number, public_id)


async def write_chunk(
    db: Db, job: JobRow, plans: Sequence[Encoded], lanes: Mapping[str, int], known: dict[TaskName, int]
) -> int:
    await still_planning(db, job.number)
    own = [(job.number, plan) for plan in plans]
    try:
        async with db.transaction():
            written = await insert_tasks(db, own, lanes, known)
    except asyncpg.UniqueViolationError:  # a plan of an earlier chunk comes again: the slower way leaves it out
        known.clear()
        written = await insert_tasks(db, own, lanes)
    await add_flows(db, written.ready)  # paused, while the job is being planned
    return written.count.get(job.number, 0)


async def still_planning(db: Db, job: int) -> None:
    """Keep a submission alive; one that was late is being removed, and must not go on."""
    alive = await db.fetchval(
        f"UPDATE jobs SET planning_until = {NOW} + $2 WHERE id = $1 AND planning_until >= {NOW} RETURNING id",
        job,
        PLANNING_LEASE_MS,
    )
    if alive is None:
        raise Conflict("Writing this job stood still for too long, so it was given up. Submit it again.")


async def give_up_planning(db: Db, job: int) -> None:
    """The sweep will remove what was written so far."""
    await db.execute("UPDATE jobs SET planning_until = 0 WHERE id = $1 AND planning_until IS NOT NULL", job)


async def open_job(db: Db, job: JobRow, total: int, *, ready: set[int] | None = None) -> None:
    """The job is whole: let it be leased. One without tasks (a dry run) ends here.

    `ready`: the lanes with ready work, if no flows were written yet.
    """
    await still_planning(db, job.number)
    state = JobState.COMPLETED if total == 0 else JobState.QUEUED
    now = await db.fetchval(
        f"UPDATE jobs SET state = $2, total = $3, queued = $3, planning_until = NULL,"
        f" finished_at = CASE WHEN $4 THEN {NOW} END WHERE id = $1 RETURNING {NOW}",
        job.number,
        state.value,
        total,
        state.is_terminal,
    )
    if ready is None:
        ready = set(await pause_flows(db, [job.number], paused=False))
    else:
        await add_flows(db, [(lane, job.number) for lane in ready])
    await wake(db, dict.fromkeys(ready, now))
    await write_changes(db, [job_change(job.number, job.public_id, "created", state, 1)], now)


async def remove_unfinished(db: Db) -> bool | None:
    """Take back, a page at a time, a job whose submission never ended. True when it is gone, None if there is none."""
    job = await db.fetchval(
        f"SELECT id FROM jobs WHERE state = 'planning' AND finished_at IS NULL AND planning_until < {NOW}"
        " LIMIT 1 FOR UPDATE SKIP LOCKED"
    )
    if job is None:
        return None
    gone = await db.fetch(_REMOVE_TASKS, job, SWEEP_PAGE)
    if len(gone) == SWEEP_PAGE:
        return False
    await db.execute("DELETE FROM flows WHERE job_id = $1", job)
    await db.execute("DELETE FROM jobs WHERE id = $1", job)
    return True


_INSERT_JOB = f"""
INSERT INTO jobs (public_id, pipeline, params, estimate, state, schedule, turn, batch_size, concurrency, max_cost,
                  created_at, planning_until)
VALUES ($1, $2, $3, $4, 'planning', $5, $6, $7, $8, $9, {NOW}, {NOW} + $10) RETURNING id
"""
_WAITING = "SELECT coalesce(sum(queued), 0) FROM jobs WHERE finished_at IS NULL AND pipeline = $1"
_INSERT_KEY = f"""
INSERT INTO idempotency AS i (key, fingerprint, job_id, expires_at) VALUES ($1, $2, $3, {NOW} + $4)
ON CONFLICT (key) DO UPDATE SET fingerprint = excluded.fingerprint, job_id = excluded.job_id,
  expires_at = excluded.expires_at
WHERE i.expires_at <= {NOW} OR EXISTS (SELECT 1 FROM jobs j WHERE j.id = i.job_id AND j.planning_until < {NOW})
RETURNING job_id
"""
_REMOVE_TASKS = """
WITH t AS (DELETE FROM tasks WHERE id = ANY(ARRAY(SELECT id FROM tasks WHERE job_id = $1 LIMIT $2)) RETURNING id),
q AS (DELETE FROM queue USING t WHERE queue.task_id = t.id)
SELECT id FROM t
"""
