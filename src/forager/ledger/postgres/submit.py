"""Submits jobs. A small job is one transaction; a big one is written in chunks and cannot be leased until it is
complete.

Small jobs that wait at the same time are written together: most of their cost is the statements, not the rows.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID, uuid4

import asyncpg

from forager.core.ids import task_uuid
from forager.core.ledger import NewJob, Submitted
from forager.core.pipeline import BULK_FROM
from forager.core.states import AFTER_FAILED, JobState, TaskState
from forager.ledger.catalog import Catalog
from forager.ledger.postgres.changes import write_changes
from forager.ledger.postgres.connection import NOW, Db, TryAgain
from forager.ledger.postgres.counters import write_counters
from forager.ledger.postgres.flows import add_flows, pause_flows
from forager.ledger.postgres.followers import skip_followers
from forager.ledger.postgres.lanes import wake
from forager.ledger.postgres.tasks import TaskName, Written, insert_tasks
from forager.ledger.postgres.tells import told_changes
from forager.ledger.shared.changelog import NewChange, job_change, job_created, then
from forager.ledger.shared.counting import Deltas
from forager.ledger.shared.job_creation import (
    JOB_VALUES,
    PLANNING_LEASE_MS,
    Queue,
    fingerprint,
    first_state,
    job_values,
    limited_queues,
    remembered_ms,
    require_different_keys,
    require_room,
    require_same,
    stood_still,
)
from forager.ledger.shared.plan_encoding import Encoded, Whole

SWEEP_PAGE = 5_000


@dataclass(frozen=True, slots=True)
class JobRow:
    number: int
    public_id: str


class Repeated(Exception):
    """Another submission was first with this Idempotency-Key."""


async def create_whole(
    db: Db, new: Sequence[Whole], lanes: Mapping[str, int], catalog: Catalog, *, hasten: bool = False
) -> list[Submitted]:
    """Create jobs with all their tasks. They can be leased as soon as this transaction is committed. `hasten` as for
    `join_open`.

    With an Idempotency-Key, the key's row decides which transaction is first: the second one waits here for the first
    one's commit, then raises `Repeated`.
    """
    require_different_keys(job for job, _ in new)
    now, rows = await _insert_jobs(db, [(job, len(plans)) for job, plans in new])
    numbers: dict[TaskName, int] = {}
    planned = [(row.number, plan) for row, (_, plans) in zip(rows, new, strict=True) for plan in plans]
    written = await insert_tasks(
        db, planned, lanes, numbers, one_open=catalog.one_open, offered=catalog.offered, hasten=hasten
    )
    await add_flows(db, written.ready)
    await wake(db, {**written.due, **{lane: now for lane, _ in written.ready}})
    created = [
        job_created(row.number, row.public_id, first_state(len(plans)), job, len(plans))
        for row, (job, plans) in zip(rows, new, strict=True)
    ]
    deltas = await _skip_joined(db, written, now)
    ended = await write_counters(db, deltas, now)  # what has nothing left to do
    told = await _queued(db, catalog, written.offered)
    await write_changes(db, [*(change for each in created for change in then(each, _of(each, ended))), *told], now)
    first: dict[int, UUID] = {}
    for (job, _, _), number in numbers.items():
        first.setdefault(job, task_uuid(job, number))
    return [
        Submitted(UUID(row.public_id), len(plans), created=True, first=first.get(row.number))
        for row, (_, plans) in zip(rows, new, strict=True)
    ]


async def _queued(db: Db, catalog: Catalog, offered: Sequence[int]) -> list[NewChange]:
    if not offered:
        return []
    deltas = catalog.deltas()
    deltas.note_back(offered, TaskState.READY)
    return await told_changes(db, catalog, deltas)


def _of(created: NewChange, ended: Sequence[NewChange]) -> list[NewChange]:
    return [change for change in ended if change.key == created.key] if ended else []


async def _skip_joined(db: Db, written: Written, now: int) -> Deltas:
    """Count the tasks that were skipped as they were written, and skip what comes after them."""
    deltas = Deltas()
    for job, count in written.joined.items():
        deltas.add(job, queued=-count, skipped=count)
    if written.joined:
        await skip_followers(db, sorted(written.dead_ends), AFTER_FAILED, deltas, now)
    return deltas


async def find_repeat(db: Db, job: NewJob) -> Submitted | JobState | None:
    """Return the job created with the same Idempotency-Key within a day; its state is PLANNING while it is still being
    written.

    A job whose submission died does not count: the sweep will remove it. Nor does one that has ended, if the key is to
    name the new job until its end.
    """
    if job.idempotency_key is None:
        return None
    row = await db.fetchrow(
        "SELECT i.fingerprint, j.public_id, j.total, j.planning_until IS NOT NULL AS planning FROM idempotency i"
        f" JOIN jobs j ON j.id = i.job_id WHERE i.key = $1 AND i.expires_at > {NOW}"
        f" AND coalesce(j.planning_until >= {NOW}, true) AND (j.finished_at IS NULL OR NOT $2)",
        job.idempotency_key,
        job.until_end,
    )
    if row is None:
        return None
    require_same(job, row["fingerprint"])
    return JobState.PLANNING if row["planning"] else Submitted(UUID(row["public_id"]), row["total"], created=False)


async def check_room(db: Db, jobs: Sequence[tuple[NewJob, int]]) -> None:
    """Raise `Busy` if one of these jobs, with so many tasks each, would exceed its pipeline's queue limit.

    Must come first in its transaction: other submissions to the same queue wait here until these are counted.
    """
    waiting: dict[str, Queue] = {}
    for queue, limits in limited_queues(jobs).items():
        await db.execute("SELECT pg_advisory_xact_lock(hashtext('queue'), hashtext($1))", queue)
        tasks = 0 if limits.tasks is None else await db.fetchval(_WAITING_TASKS, queue)
        jobs_waiting = 0 if limits.jobs is None else await db.fetchval(_WAITING_JOBS, queue, limits.jobs)
        waiting[queue] = Queue(tasks, jobs_waiting)
    require_room(jobs, waiting)


async def begin_planning(db: Db, job: NewJob) -> JobRow:
    """Create a job whose tasks follow in chunks; nothing of it can be leased yet. Raises `Repeated`, as `create_whole`
    does."""
    _, (row,) = await _insert_jobs(db, [(job, None)])
    return row


async def _insert_jobs(db: Db, jobs: Sequence[tuple[NewJob, int | None]]) -> tuple[int, list[JobRow]]:
    """Insert new jobs with so many tasks each (None: not known yet). Returns the time and their rows."""
    ((numbers, now),) = await db.fetch(_JOB_NUMBERS, len(jobs))
    rows = [JobRow(number, str(job.id or uuid4())) for number, (job, _) in zip(numbers, jobs, strict=True)]
    columns = zip(*[job_values(job) for job, _ in jobs], strict=True)
    await db.execute(
        _INSERT_JOBS,
        numbers,
        [row.public_id for row in rows],
        [first_state(total).value for _, total in jobs],
        [total or 0 for _, total in jobs],
        now,
        PLANNING_LEASE_MS,
        *columns,
    )
    for row, (job, _) in zip(rows, jobs, strict=True):
        await write_secrets(db, row.number, job.secrets)
    numbered = zip(numbers, (job for job, _ in jobs), strict=True)
    keyed = {job.idempotency_key: (number, job) for number, job in numbered if job.idempotency_key is not None}
    for key, (number, job) in sorted(keyed.items()):  # two processes must not deadlock
        if await db.fetchval(_INSERT_KEY, key, fingerprint(job), number, remembered_ms(job), job.until_end) is None:
            raise Repeated
    return now, rows


async def write_secrets(db: Db, job: int, secrets: Mapping[str, str]) -> None:
    """Store sealed texts of a job by name; a text of the same name is replaced."""
    if secrets:
        await db.executemany(
            "INSERT INTO job_secrets (job_id, name, sealed) VALUES ($1, $2, $3)"
            " ON CONFLICT (job_id, name) DO UPDATE SET sealed = excluded.sealed",
            [(job, name, sealed) for name, sealed in secrets.items()],
        )


async def write_chunk(
    db: Db,
    job: JobRow,
    plans: Sequence[Encoded],
    lanes: Mapping[str, int],
    known: dict[TaskName, int],
    one_open: Collection[str],
) -> int:
    await still_planning(db, job.number)
    own = [(job.number, plan) for plan in plans]
    try:
        async with db.transaction():
            written = await insert_tasks(db, own, lanes, known, one_open=one_open, hasten=True)
    except (asyncpg.UniqueViolationError, TryAgain):  # a plan of an earlier chunk comes again: leave it out
        known.clear()
        written = await insert_tasks(db, own, lanes, one_open=one_open, hasten=True)
    await add_flows(db, written.ready)  # paused, while the job is being planned
    await wake(db, written.due)
    if written.joined:
        now = await db.fetchval(f"SELECT {NOW}")
        await write_counters(db, await _skip_joined(db, written, now), now)
    return written.count.get(job.number, 0)


async def still_planning(db: Db, job: int) -> None:
    """Keep a submission alive. Raises if it was late and is being removed."""
    alive = await db.fetchval(
        f"UPDATE jobs SET planning_until = {NOW} + $2 WHERE id = $1 AND planning_until >= {NOW} RETURNING id",
        job,
        PLANNING_LEASE_MS,
    )
    if alive is None:
        raise stood_still()


async def give_up_planning(db: Db, job: int) -> None:
    """Give up a submission: the sweep will remove what was written so far."""
    await db.execute("UPDATE jobs SET planning_until = 0 WHERE id = $1 AND planning_until IS NOT NULL", job)


async def end_planning(db: Db, job: JobRow, total: int) -> None:
    """Complete a submission: from now on the job can be leased."""
    now = await db.fetchval(
        "UPDATE jobs SET state = 'queued', total = $2, queued = $2 - skipped, planning_until = NULL"
        f" WHERE id = $1 AND planning_until >= {NOW} RETURNING {NOW}",
        job.number,
        total,
    )
    if now is None:
        raise stood_still()
    await wake(db, dict.fromkeys(await pause_flows(db, [job.number], paused=False), now))
    deltas = Deltas()
    deltas.add(job.number)  # it ends here if all of its tasks were skipped at once
    created = job_change(job.number, job.public_id, "created", JobState.QUEUED, 1)
    await write_changes(db, then(created, await write_counters(db, deltas, now)), now)


async def remove_unfinished(db: Db) -> bool | None:
    """Remove a job whose submission never ended, a page at a time. Returns True when it is gone, None if there is
    none."""
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


_JOB_NUMBERS = f"SELECT array(SELECT nextval('jobs_id_seq') FROM generate_series(1, $1::int)), {NOW}"
_INSERT_JOBS = f"""
INSERT INTO jobs (id, public_id, state, total, queued, created_at, finished_at, planning_until, {JOB_VALUES})
SELECT id, public_id, state, total, total, $5::bigint, CASE WHEN state = 'completed' THEN $5::bigint END,
  CASE WHEN state = 'planning' THEN $5::bigint + $6::bigint END,
  pipeline, params::json, estimate::json, schedule, turn, batch_size, concurrency, max_cost, request_id
FROM unnest($1::bigint[], $2::text[], $3::text[], $4::bigint[], $7::text[], $8::text[], $9::text[], $10::text[],
            $11::smallint[], $12::int[], $13::int[], $14::bigint[], $15::text[])
  AS x(id, public_id, state, total, {JOB_VALUES})
"""
_WAITING_TASKS = f"""
SELECT coalesce(sum(queued), 0)::bigint FROM jobs WHERE finished_at IS NULL AND pipeline = $1 AND total < {BULK_FROM}
"""
# The conditions are those of ix_jobs_waiting.
_WAITING_JOBS = """
SELECT count(*) FROM (
  SELECT 1 FROM jobs WHERE finished_at IS NULL AND started_at IS NULL AND pipeline = $1 LIMIT $2) w
"""
_INSERT_KEY = f"""
INSERT INTO idempotency AS i (key, fingerprint, job_id, expires_at) VALUES ($1, $2, $3, {NOW} + $4)
ON CONFLICT (key) DO UPDATE SET fingerprint = excluded.fingerprint, job_id = excluded.job_id,
  expires_at = excluded.expires_at
WHERE i.expires_at <= {NOW} OR EXISTS (
  SELECT 1 FROM jobs j WHERE j.id = i.job_id AND (j.planning_until < {NOW} OR ($5 AND j.finished_at IS NOT NULL)))
RETURNING job_id
"""
_REMOVE_TASKS = """
WITH t AS (DELETE FROM tasks WHERE id = ANY(ARRAY(SELECT id FROM tasks WHERE job_id = $1 LIMIT $2)) RETURNING id),
q AS (DELETE FROM queue USING t WHERE queue.task_id = t.id)
SELECT id FROM t
"""
