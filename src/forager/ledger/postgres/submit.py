"""Submits jobs. A small job is one transaction; a big one is written in chunks and cannot be leased until it is
complete.

Small jobs that wait at the same time are written together: most of their cost is the statements, not the rows.
"""

import asyncio
import contextlib
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any
from uuid import UUID, uuid4

import asyncpg

from forager.core.clock import Faults
from forager.core.errors import NotFound, StoreError
from forager.core.ids import task_uuid
from forager.core.ledger import NewJob, PartsReceived, Submitted
from forager.core.pipeline import BULK_FROM
from forager.core.states import AFTER_FAILED, JobState, TaskState
from forager.core.task import Plan
from forager.ledger.catalog import Catalog
from forager.ledger.postgres.changes import logged_task_changes, write_changes, write_counters
from forager.ledger.postgres.connection import NOW, CommitGroup, Connections, Db, TryAgain
from forager.ledger.postgres.lanes import LaneNumbers, add_flows, pause_flows, wake
from forager.ledger.postgres.tasks import TaskName, TasksWritten, insert_tasks, not_there, offer, skip_followers
from forager.ledger.rules.changes import Deltas, NewChange, job_change, job_created, then
from forager.ledger.rules.jobs import (
    BEING_WRITTEN,
    IN_ONE_GO,
    JOB_VALUES,
    PLANNING_LEASE_MS,
    Encoded,
    Planned,
    PlanPart,
    Queue,
    Whole,
    fingerprint,
    first_state,
    job_values,
    limited_queues,
    remembered_ms,
    require_different_keys,
    require_room,
    require_same,
    sent_whole,
    stood_still,
)

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
    return await logged_task_changes(db, catalog, deltas)


def _of(created: NewChange, ended: Sequence[NewChange]) -> list[NewChange]:
    return [change for change in ended if change.key == created.key] if ended else []


async def _skip_joined(db: Db, written: TasksWritten, now: int) -> Deltas:
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
    """Raise `Busy` if one of these jobs, given with its number of tasks, would exceed its pipeline's queue limit.

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
    """Insert new jobs, given with their numbers of tasks (None: not known yet). Returns the time and their rows."""
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
    """Give up a submission: the sweep will remove its tasks."""
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
    """Remove a job whose submission never ended, a page at a time. Returns True when it is gone, None if no such job
    exists."""
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


# Runs a submission: whole or in chunks, once per Idempotency-Key, however many callers there are at once.


SHARED = 200
"""Jobs with at most this number of tasks share a commit with others."""


class Submissions:
    def __init__(
        self,
        connections: Connections,
        group: CommitGroup,
        catalog: Catalog,
        lanes: LaneNumbers,
        faults: Faults,
    ) -> None:
        self._connections = connections
        self._group = group
        self._queues: defaultdict[str, CommitGroup] = defaultdict(lambda: CommitGroup(connections))
        """One lock per pipeline with a bounded queue: one submission at a time waits for the queue's lock in the
        database."""
        self._locks: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._catalog = catalog
        self._lanes = lanes
        self._faults = faults

    async def write(self, job: NewJob, plan: Iterable[Plan]) -> Submitted:
        planned = await Planned.read(plan, self._catalog)
        while True:
            repeat = await self._repeat(job)
            if isinstance(repeat, Submitted):
                return repeat
            if repeat is None:
                # The losers of a race for the key search again and find the winner's job.
                with contextlib.suppress(Repeated):
                    if planned.whole:
                        return await self._write_whole(Whole(job, planned.first))
                    return await self._write_in_chunks(job, planned)
            await asyncio.sleep(BEING_WRITTEN)  # the same job is being written now: how big it is will be known soon

    async def _repeat(self, job: NewJob) -> object:
        if job.idempotency_key is None:
            return None
        return await self._connections.run(lambda db: find_repeat(db, job))

    async def _write_whole(self, whole: Whole) -> Submitted:
        job, plans = whole
        await self._lanes.learn_for(plans)
        if len(plans) > SHARED:
            async with self._turn_of(job):
                (submitted,) = await self._connections.run(lambda db: self._create(db, [whole]))
            return submitted
        # A queue's lock is taken first in a transaction, so never behind what another member of a group has locked.
        group = self._queues[job.pipeline] if job.limits.bounds_queue else self._group
        return await group.run_together(self._create, whole)

    def _turn_of(self, job: NewJob) -> contextlib.AbstractAsyncContextManager[Any]:
        """Serialise submissions to a bounded queue here: waiting for the lock in the database would hold a connection
        each, and the heartbeat could get none."""
        return self._locks[job.pipeline] if job.limits.bounds_queue else contextlib.nullcontext()

    async def _create(self, db: Db, new: Sequence[Whole]) -> Sequence[Submitted]:
        await check_room(db, [(job, len(plans)) for job, plans in new])
        submitted = await create_whole(db, new, self._lanes.known, self._catalog, hasten=True)
        self._faults.at("job-written")
        return submitted

    async def _write_in_chunks(self, job: NewJob, planned: Planned) -> Submitted:
        async def begin(db: Db) -> JobRow:
            await check_room(db, [(job, IN_ONE_GO + 1)])  # the total is not known yet; it is at least this number
            return await begin_planning(db, job)

        async with self._turn_of(job):
            row = await self._connections.run(begin)
        try:
            total = await self._write_chunks(row, planned)
            await self._connections.run(lambda db: end_planning(db, row, total))
        except Exception:
            with contextlib.suppress(StoreError):
                await self._connections.run(lambda db: give_up_planning(db, row.number))
            raise
        return Submitted(UUID(row.public_id), total, created=True)

    async def _write_chunks(self, row: JobRow, planned: Planned) -> int:
        known: dict[TaskName, int] = {}
        total = 0
        async with contextlib.aclosing(planned.chunks()) as chunks:
            async for chunk in chunks:
                lanes = await self._lanes.learn_for(chunk)
                known.clear()  # a predecessor in an earlier chunk is looked up in the table
                kinds = self._catalog.one_open
                write = partial(write_chunk, job=row, plans=chunk, lanes=lanes, known=known, one_open=kinds)
                total += await self._connections.run(write)
                self._faults.at("chunk-written")
        return total


# Receives a job in parts, each in one transaction. Nothing of it can be leased before the last part.


_BEING_WRITTEN = "SELECT j.public_id, j.total FROM idempotency i JOIN jobs j ON j.id = i.job_id WHERE i.key = $1"
_JOB = "SELECT id, public_id, state, total FROM jobs WHERE public_id = $1 FOR UPDATE"


async def open_job(db: Db, job: NewJob) -> PartsReceived:
    repeat = await find_repeat(db, job)
    if isinstance(repeat, JobState):
        ((public_id, total),) = await db.fetch(_BEING_WRITTEN, job.idempotency_key)
        return PartsReceived(UUID(public_id), total, is_open=True)
    if repeat is not None:
        return PartsReceived(repeat.job, repeat.total, is_open=False)
    try:
        begun = await begin_planning(db, job)
    except Repeated:
        raise TryAgain("another process opened the same job") from None
    return PartsReceived(UUID(begun.public_id), 0, is_open=True, created=True)


async def add_part(db: Db, part: PlanPart, lanes: Mapping[str, int], catalog: Catalog, faults: Faults) -> PartsReceived:
    row = await db.fetchrow(_JOB, str(part.job))
    if row is None:
        raise NotFound(f"There is no job {part.job}.")
    job, total = JobRow(row["id"], row["public_id"]), row["total"]
    if row["state"] != JobState.PLANNING:
        if await not_there(db, [(job.number, plan) for plan in part.plans]):
            raise sent_whole(part.job, total)
        return PartsReceived(part.job, total, is_open=False)
    total += await write_chunk(db, job, part.missing(total), lanes, {}, catalog.one_open)
    await db.execute("UPDATE jobs SET total = $2, queued = $2 - skipped WHERE id = $1", job.number, total)
    faults.at("chunk-written")
    if not part.more:
        await end_planning(db, job, total)
    return PartsReceived(part.job, total, is_open=part.more)


# Offers of a large job, page by page.
#
# A job that is written in chunks cannot offer all of its tasks at once: the offers would end long before consumers have
# read the messages. So the sweep offers its next ready tasks whenever few of the earlier ones are left. A task is
# offered once, as the change log shows; one whose offer has ended is leased by any worker, like the tasks that no offer
# has reached yet.


OFFERED_AT_ONCE = 2_000
"""Maximum tasks of a large job that wait for a claim by number."""
_LARGE = f"""
SELECT id FROM jobs WHERE finished_at IS NULL AND state IN ('queued', 'running') AND drain IS NULL
  AND total > {IN_ONE_GO} AND pipeline = ANY($1::text[])
"""
_STILL_OFFERED = """
SELECT count(*) FROM (
  SELECT 1 FROM flows f CROSS JOIN LATERAL (
    SELECT 1 FROM queue q WHERE q.lane_id = f.lane_id AND q.state = 1 AND q.job_id = f.job_id AND q.offered LIMIT $2) o
  WHERE f.job_id = $1 LIMIT $2) w
"""
_NEXT_READY = """
SELECT q.task_id, q.lane_id FROM flows f CROSS JOIN LATERAL (
  SELECT w.task_id, w.lane_id, w.rank FROM queue w
  WHERE w.lane_id = f.lane_id AND w.job_id = f.job_id AND w.state = 0 AND w.attempt = 0
  ORDER BY w.rank, w.task_id LIMIT $2) q
JOIN tasks t ON t.id = q.task_id AND t.kind = ANY($3::text[])
WHERE f.job_id = $1 AND NOT f.paused ORDER BY q.rank, q.task_id LIMIT $2
"""
_LOGGED_BEFORE = """
SELECT x.key FROM unnest($1::text[]) AS x(key)
WHERE EXISTS (SELECT 1 FROM changes c WHERE c.kind = 'task' AND c.key = x.key AND c.body IS NOT NULL)
"""


async def offer_more(db: Db, catalog: Catalog) -> int:
    """Offer the next tasks of each large job of a pipeline whose tasks are offered. Returns how many."""
    pipelines = {catalog.pipeline_of[kind] for kind in catalog.offered}
    jobs = [row[0] for row in await db.fetch(_LARGE, sorted(pipelines))] if pipelines else []
    return sum([await _offer_more_of(db, catalog, job) for job in jobs])


async def _offer_more_of(db: Db, catalog: Catalog, job: int) -> int:
    room = OFFERED_AT_ONCE - await db.fetchval(_STILL_OFFERED, job, OFFERED_AT_ONCE)
    if room < OFFERED_AT_ONCE // 2:
        return 0
    ready = await db.fetch(_NEXT_READY, job, room, sorted(catalog.offered))
    names = {str(task_uuid(job, row[0])): row[0] for row in ready}
    before = {row[0] for row in await db.fetch(_LOGGED_BEFORE, list(names))}
    offered, due = await offer(db, [number for name, number in names.items() if name not in before])
    if offered:
        await wake(db, due)
        await write_changes(db, await _queued(db, catalog, offered), await db.fetchval(f"SELECT {NOW}"))
    return len(offered)
