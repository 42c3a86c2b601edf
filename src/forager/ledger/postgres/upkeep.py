"""Removes old data, a page per transaction. `ledger/rules/upkeep.py` explains which tables are walked, and how.

Several processes may prune at once: one of them locks a job's row and removes it, and removed rows are not found again.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from forager.core.errors import Conflict
from forager.core.pipeline import AGED_AFTER
from forager.core.states import TaskState
from forager.core.upkeep import LastNumbers, OldRecord, Pruned, RestoredJob
from forager.ledger.catalog import Catalog
from forager.ledger.postgres.changes import write_changes, write_counters
from forager.ledger.postgres.connection import NOW, Db
from forager.ledger.postgres.lanes import add_flows, set_paused, wake
from forager.ledger.rules.changes import Deltas
from forager.ledger.rules.jobs import FOR_EVER_MS
from forager.ledger.rules.upkeep import (
    JOB_COLUMNS,
    KEPT_COLUMNS,
    LOOKED_AT,
    PAGE,
    TASK_COLUMNS,
    PageRemoved,
    PruneLimits,
    choose_jobs,
    internal_jobs,
    job_row,
    number_is_taken,
    record_row,
    task_rows,
)
from forager.ledger.tables.domains import OF_USE_MS, PRUNED_AT_ONCE

_OF_TASKS = ("evidence", "dead", "open_keys", "attempts")
_OF_JOB = ("rejected",)
_OLD_JOBS = f"""
SELECT id, total, coalesce(finished_at < $2, false)
  AND id NOT IN (SELECT job_id FROM idempotency WHERE expires_at > $3 + {FOR_EVER_MS // 2}), created_at
FROM jobs WHERE id > $1 ORDER BY id LIMIT {LOOKED_AT}
"""
# A job that is being retried at this moment is locked, or no longer finished when it is read again: it stays.
_MOVE = f"""
WITH old AS MATERIALIZED (SELECT id FROM jobs WHERE id = ANY($1::bigint[]) AND finished_at < $2 FOR UPDATE SKIP LOCKED),
gone AS (DELETE FROM jobs j USING old WHERE j.id = old.id RETURNING j.*)
INSERT INTO past_jobs (id, public_id, pipeline, finished_at, clearing)
SELECT id, public_id, pipeline, finished_at, total >= {PAGE} FROM gone RETURNING id, clearing
"""
_TASKS = f"""
DELETE FROM tasks WHERE id = ANY(ARRAY(SELECT id FROM tasks WHERE job_id = ANY($1::bigint[]) LIMIT {PAGE})) RETURNING id
"""
_CLEARING = "SELECT id FROM past_jobs WHERE clearing ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED"
_DONE = f"""
SELECT t.id, t.kind, t.key, t.cost, t.guessed, t.state, (t.state = 4 OR (t.state = 5 AND t.hidden)) AND t.ended_at < $1
  AND NOT EXISTS (SELECT 1 FROM queue q WHERE q.task_id = t.id) FROM tasks t
WHERE t.job_id = $2 AND (t.kind, t.key) > ($3, $4) ORDER BY t.kind, t.key LIMIT {LOOKED_AT}
"""
_FORGET = """
WITH gone AS (DELETE FROM tasks t WHERE t.id = ANY($1::bigint[]) AND t.state IN (4, 5)
  AND NOT EXISTS (SELECT 1 FROM queue q WHERE q.task_id = t.id) RETURNING t.id, t.state, t.cost, t.guessed),
sums AS (SELECT count(*) AS n, count(*) FILTER (WHERE state = 4) AS done, coalesce(sum(cost), 0) AS cost,
  coalesce(sum(guessed), 0) AS guessed FROM gone),
counted AS (UPDATE jobs j SET total = j.total - s.n, completed = j.completed - s.done,
  failed = j.failed - (s.n - s.done), spent = j.spent - s.cost, guessed = j.guessed - s.guessed
  FROM sums s WHERE j.id = $2)
SELECT id FROM gone
"""
_ATTEMPTS = f"""
DELETE FROM attempts WHERE id = ANY(ARRAY(SELECT id FROM attempts WHERE started_at < $1 ORDER BY started_at
  LIMIT {PAGE})) RETURNING id
"""
# The newest change of a job, or of a task, that is still there stays: the version of its next one is counted from it.
_CHANGES = f"""
SELECT c.id, c.at, c.id IN (SELECT change_id FROM set_aside) OR (c.kind IN ('job', 'task')
    AND EXISTS (SELECT 1 FROM jobs j WHERE j.id = c.job_id) AND NOT EXISTS (SELECT 1 FROM changes n
      WHERE n.key = c.key AND n.version > c.version AND n.body IS NOT NULL AND n.kind = c.kind))
FROM changes c WHERE c.id > $1 AND c.id <= $2 ORDER BY c.id LIMIT {PAGE}
"""
_PAST = f"""
SELECT p.id, EXISTS (SELECT 1 FROM changes c WHERE c.job_id = p.id) FROM past_jobs p
WHERE p.id > $1 AND NOT p.clearing ORDER BY p.id LIMIT {PAGE}
"""

Walk = Callable[[Db, Catalog, PruneLimits, Any], Awaitable[PageRemoved]]


async def jobs(db: Db, catalog: Catalog, limits: PruneLimits, after: Any) -> PageRemoved:
    """Finished jobs. The tasks of a small one go with it, those of a big one before the next job is read."""
    cleared = await clearing(db, catalog, limits, after)
    if cleared.after is not None:
        return PageRemoved(cleared.pruned, after=after or 0)
    rows = await db.fetch(_OLD_JOBS, after or 0, limits.jobs, limits.now)
    going, following = choose_jobs([tuple(row) for row in rows], limits)
    moved = await db.fetch(_MOVE, [number for number, _ in going], limits.jobs) if going else []
    small = [row["id"] for row in moved if not row["clearing"]]
    tasks = await _clear(db, small) if small else 0
    return PageRemoved(Pruned(jobs=len(moved), tasks=tasks), after=following)


async def clearing(db: Db, catalog: Catalog, limits: PruneLimits, after: Any) -> PageRemoved:
    """Remove the remaining tasks of removed big jobs."""
    job = await db.fetchval(_CLEARING)
    if job is None:
        return PageRemoved(Pruned())
    gone = await _clear(db, [job])
    if gone < PAGE:
        await db.execute("UPDATE past_jobs SET clearing = false WHERE id = $1", job)
    return PageRemoved(Pruned(tasks=gone), after=job)


async def _clear(db: Db, jobs: list[int]) -> int:
    """Return a page of tasks, and what belongs to them; what belongs to the jobs themselves goes with the last of
    them."""
    tasks = [row[0] for row in await db.fetch(_TASKS, jobs)]
    for table in _OF_TASKS:
        await db.execute(f"DELETE FROM {table} WHERE task_id = ANY($1::bigint[])", tasks)
    if len(tasks) < PAGE:
        for table in _OF_JOB:
            await db.execute(f"DELETE FROM {table} WHERE job_id = ANY($1::bigint[])", jobs)
    return len(tasks)


async def messages(db: Db, catalog: Catalog, limits: PruneLimits, after: Any) -> PageRemoved:
    """Remove the finished tasks of our own standing jobs, also from their counters."""
    job, kind, key = after or (0, "", "")
    number = await db.fetchval(f"{internal_jobs(catalog)} AND id >= $1 ORDER BY id LIMIT 1", job)
    if number is None:
        return PageRemoved(Pruned())
    if number != job:
        job, kind, key = number, "", ""
    rows = await db.fetch(_DONE, limits.messages, job, kind, key)
    old = [row for row in rows if row[6]][:PAGE]
    gone = [row[0] for row in await db.fetch(_FORGET, [row[0] for row in old], job)] if old else []
    for table in _OF_TASKS:
        await db.execute(f"DELETE FROM {table} WHERE task_id = ANY($1::bigint[])", gone)
    if len(old) == PAGE:
        following = (job, old[-1][1], old[-1][2])
    else:
        following = (job, rows[-1][1], rows[-1][2]) if len(rows) == LOOKED_AT else (job + 1, "", "")
    return PageRemoved(Pruned(messages=len(gone)), after=following)


async def rejected(db: Db, catalog: Catalog, limits: PruneLimits, after: Any) -> PageRemoved:
    rows = await db.fetch(f"SELECT id, at FROM rejected WHERE id > $1 ORDER BY id LIMIT {PAGE}", after or 0)
    old = [row[0] for row in rows if limits.rejected is not None and row[1] < limits.rejected]
    await db.execute("DELETE FROM rejected WHERE id = ANY($1::bigint[])", old)
    return PageRemoved(Pruned(rejected=len(old)), after=old[-1] if len(old) == PAGE else None)


async def attempts(db: Db, catalog: Catalog, limits: PruneLimits, after: Any) -> PageRemoved:
    gone = await db.fetch(_ATTEMPTS, limits.attempts)
    return PageRemoved(Pruned(attempts=len(gone)), after=True if len(gone) == PAGE else None)


async def changes(db: Db, catalog: Catalog, limits: PruneLimits, after: Any) -> PageRemoved:
    rows = await db.fetch(_CHANGES, after or 0, limits.passed)
    old = [row for row in rows if limits.changes is not None and row[1] < limits.changes]
    gone = [row[0] for row in old if not row[2]]
    await db.execute("DELETE FROM changes WHERE id = ANY($1::bigint[])", gone)
    return PageRemoved(Pruned(changes=len(gone)), after=old[-1][0] if len(old) == PAGE else None)


async def records(db: Db, catalog: Catalog, limits: PruneLimits, after: Any) -> PageRemoved:
    """Remove the job-scoped records of removed jobs, table by table."""
    tables = [table.name for table in catalog.records.values() if table.per_job]
    if not tables:
        return PageRemoved(Pruned())
    name, last = after or (tables[0], 0)
    rows = await db.fetch(
        f"SELECT r.id, p.finished_at < $1 AND r.first_seen_at < $1 FROM {name} r LEFT JOIN past_jobs p"
        f" ON p.id = r.job_id WHERE r.id > $2 ORDER BY r.id LIMIT {LOOKED_AT}",
        limits.records,
        last,
    )
    gone = [row[0] for row in rows if row[1]][:PAGE]
    await db.execute(f"DELETE FROM {name} WHERE id = ANY($1::bigint[])", gone)
    if len(gone) == PAGE:
        return PageRemoved(Pruned(records=PAGE), after=(name, gone[-1]))
    if len(rows) == LOOKED_AT:
        return PageRemoved(Pruned(records=len(gone)), after=(name, rows[-1][0]))
    following = tables[tables.index(name) + 1 :]
    return PageRemoved(Pruned(records=len(gone)), after=(following[0], 0) if following else None)


async def past_jobs(db: Db, catalog: Catalog, limits: PruneLimits, after: Any) -> PageRemoved:
    """Names of removed jobs that nothing refers to any more. They are small, and no user would count them."""
    if limits.changes is None:  # then each has its changes
        return PageRemoved(Pruned())
    rows = await db.fetch(_PAST, after or 0)
    free = [row[0] for row in rows if not row[1]]
    for table in catalog.records.values():
        if table.per_job and free:
            named = f"SELECT DISTINCT job_id FROM {table.name} WHERE job_id = ANY($1::bigint[])"
            used = {row[0] for row in await db.fetch(named, free)}
            free = [job for job in free if job not in used]
    await db.execute("DELETE FROM past_jobs WHERE id = ANY($1::bigint[])", free)
    return PageRemoved(Pruned(), after=rows[-1][0] if len(rows) == PAGE else None)


WALKS: Mapping[str, Walk] = {
    "jobs": jobs,
    "clearing": clearing,
    "messages": messages,
    "rejected": rejected,
    "attempts": attempts,
    "changes": changes,
    "records": records,
    "past_jobs": past_jobs,
}


# Removes records that are in a file of the archive, and keeps their keys. `core/upkeep.py` explains the protocol.


_COUNTS = "UPDATE archives SET state = 'moved' WHERE id = $1 AND state = 'writing' RETURNING 1"
# Rows are locked in the order of their keys, as settlements do. One that waited for the lock looks at the row again.
_REMOVE = """
WITH old AS MATERIALIZED (
  SELECT r.id FROM unnest($1::bigint[], $2::int[], $3::bigint[]) AS x(id, version, seen_at)
  JOIN {table} r ON r.id = x.id AND r.version = x.version AND r.last_seen_at = x.seen_at
  ORDER BY r."{key}" FOR UPDATE OF r)
DELETE FROM {table} r USING old WHERE r.id = old.id RETURNING r.id
"""
_KEEP = f"""
INSERT INTO archived (kind, key, version, archive_id, archived_at)
SELECT $1, x.key, x.version, $2, {NOW} FROM unnest($3::text[], $4::int[]) AS x(key, version)
ON CONFLICT (kind, key) DO UPDATE SET version = excluded.version, archive_id = excluded.archive_id,
  archived_at = excluded.archived_at
"""


async def archive(db: Db, catalog: Catalog, file: int, kind: str, records: Sequence[OldRecord]) -> None:
    """Remove these records and let their file count. Raises `Conflict`, so that nothing happens, if one of them is not
    as it was read or the file was forgotten."""
    table = catalog.records[kind]
    if await db.fetchval(_COUNTS, file) is None:
        raise Conflict("The file was considered abandoned.")
    versions = [record.version for record in records]
    as_read = [record.id for record in records], versions, [record.seen_at for record in records]
    gone = await db.fetch(_REMOVE.format(table=table.name, key=table.record.key_field), *as_read)
    if len(gone) != len(records):
        raise Conflict("Some of the records were seen or changed meanwhile.")
    await db.execute(_KEEP, kind, file, [record.key for record in records], versions)


# Writes a job back as a mirror shows it: its row, its tasks in their states, its records. One transaction.


_GO_ON_FROM = "SELECT setval('{0}', greatest($1, (SELECT last_value FROM {0})))"


async def restore(db: Db, catalog: Catalog, job: RestoredJob, lanes: Mapping[int, int], last: LastNumbers) -> bool:
    """Write a job. Returns False, and changes nothing, if it is there already. Raises `Conflict` if its number is
    another job's."""
    if await db.fetchval("SELECT 1 FROM jobs WHERE public_id = $1", str(job.id)):
        return False
    if await db.fetchval("SELECT 1 FROM jobs WHERE id = $1", job.number):
        raise number_is_taken(job)
    for sequence, number in (("jobs_id_seq", last.job), ("tasks_id_seq", last.task), ("sessions_id_seq", last.claim)):
        if number:
            await db.execute(_GO_ON_FROM.format(sequence), number)
    marks = ", ".join(f"${n}" for n in range(1, len(JOB_COLUMNS) + 1))
    await db.execute(f"INSERT INTO jobs ({', '.join(JOB_COLUMNS)}) VALUES ({marks})", *job_row(job))
    await _write_tasks(db, job, lanes)
    await _write_records(db, catalog, job, last)
    now = await db.fetchval(f"SELECT {NOW}")
    deltas = Deltas()
    if not job.is_finished:
        ready = {lanes[task.number] for task in job.tasks if task.state is TaskState.READY}
        await add_flows(db, {(lane, job.number) for lane in ready})
        await wake(db, dict.fromkeys(ready, now))
        deltas.add(job.number)  # it ends here if the mirror shows the ends of all its tasks and not its own
    ended = await write_counters(db, deltas, now)
    await db.execute("UPDATE tail SET change = greatest(change, $1)", last.change)
    await write_changes(db, ended, now)
    return True


async def _write_tasks(db: Db, job: RestoredJob, lanes: Mapping[int, int]) -> None:
    await db.copy_records_to_table("tasks", columns=TASK_COLUMNS, records=task_rows(job, lanes))
    queued = [
        (task.number, lanes[task.number], job.number, task.rank, int(task.state)) for task in job.tasks if task.is_open
    ]
    columns = ("task_id", "lane_id", "job_id", "rank", "state")
    await db.copy_records_to_table("queue", columns=columns, records=queued)
    dead = [(task.number, task.ended_at or 0) for task in job.tasks if task.state is TaskState.FAILED]
    await db.copy_records_to_table("dead", columns=("task_id", "ended_at"), records=dead)


async def _write_records(db: Db, catalog: Catalog, job: RestoredJob, last: LastNumbers) -> None:
    for kind in sorted({each.record.kind for each in job.records}):
        table = catalog.records[kind]
        own = [each for each in job.records if each.record.kind == kind]
        names = (*KEPT_COLUMNS, *table.fields)
        await db.copy_records_to_table(
            table.name, columns=names, records=[record_row(table, job.number, each) for each in own]
        )
        highest = max(last.records.get(kind, 0), *(each.number for each in own))
        await db.execute(_GO_ON_FROM.format(f"{table.name}_id_seq"), highest)
        aliases = {alias: each.record.key() for each in own for alias in each.aliases}
        if aliases and table.record.identity:
            await db.execute(
                "INSERT INTO aliases (identity, alias, key) SELECT $1, x.alias, x.key"
                " FROM unnest($2::text[], $3::text[]) AS x(alias, key) ON CONFLICT (identity, alias) DO NOTHING",
                table.record.identity,
                list(aliases),
                list(aliases.values()),
            )


# Repairs states that should never occur but would otherwise last for ever: ready work that no session will find.


# A loose scan of ix_queue_ready: one probe per (lane, job), not one per ready task.
_READY = """
WITH RECURSIVE seen AS (
  (SELECT lane_id, job_id FROM queue WHERE state = 0 ORDER BY lane_id, job_id LIMIT 1)
  UNION ALL
  SELECT n.lane_id, n.job_id FROM seen s CROSS JOIN LATERAL (
    SELECT q.lane_id, q.job_id FROM queue q WHERE q.state = 0 AND (q.lane_id, q.job_id) > (s.lane_id, s.job_id)
    ORDER BY q.lane_id, q.job_id LIMIT 1) n)
SELECT s.lane_id, s.job_id, f.job_id IS NULL AS missing, coalesce(f.paused, false) AS paused,
       coalesce(l.owner, 0) = 0 AND (l.wake_at IS NULL OR l.wake_at > $1) AS asleep
FROM seen s JOIN jobs j ON j.id = s.job_id JOIN lanes l ON l.id = s.lane_id
LEFT JOIN flows f ON f.lane_id = s.lane_id AND f.job_id = s.job_id
WHERE j.state IN ('queued', 'running') AND j.drain IS NULL
  AND (f.job_id IS NULL OR f.paused OR coalesce(l.owner, 0) = 0 AND (l.wake_at IS NULL OR l.wake_at > $1))
"""
_WAITING = """
WITH RECURSIVE seen AS (
  (SELECT lane_id, due FROM queue WHERE state = 1 ORDER BY lane_id, due LIMIT 1)
  UNION ALL
  SELECT n.lane_id, n.due FROM seen s CROSS JOIN LATERAL (
    SELECT q.lane_id, q.due FROM queue q WHERE q.state = 1 AND q.lane_id > s.lane_id
    ORDER BY q.lane_id, q.due LIMIT 1) n)
SELECT s.lane_id, s.due FROM seen s JOIN lanes l ON l.id = s.lane_id
WHERE coalesce(l.owner, 0) = 0 AND (l.wake_at IS NULL OR l.wake_at > s.due)
"""
_SUSPECT = """
SELECT DISTINCT q.lane_id FROM queue q JOIN lanes l ON l.id = q.lane_id
WHERE q.state = 8 AND coalesce(l.owner, 0) = 0 AND (l.wake_at IS NULL OR l.wake_at > $1)
"""

_AGE_FLOWS = f"""
UPDATE flows SET turn = 0 WHERE (lane_id, job_id) IN
  (SELECT f.lane_id, f.job_id FROM flows f JOIN jobs j ON j.id = f.job_id
   WHERE f.turn > 0 AND j.created_at <= {NOW} - $1::bigint ORDER BY f.lane_id, f.job_id FOR UPDATE OF f SKIP LOCKED)
"""
_AGE_JOBS = f"""
UPDATE jobs SET turn = 0 WHERE id = ANY(ARRAY(
  SELECT id FROM jobs WHERE finished_at IS NULL AND turn > 0 AND created_at <= {NOW} - $1::bigint
  ORDER BY id FOR NO KEY UPDATE SKIP LOCKED)) RETURNING id
"""


async def wake_sleepers(db: Db) -> int:
    """Wake lanes that sleep although they have work, and count them, so that such a defect becomes visible."""
    now = await db.fetchval(f"SELECT {NOW}")
    ready = await db.fetch(_READY, now)
    paused = [(row["lane_id"], row["job_id"]) for row in ready if row["paused"]]
    await add_flows(db, [*paused, *((row["lane_id"], row["job_id"]) for row in ready if row["missing"])])
    await set_paused(db, paused, paused=False)
    lanes = {row[0]: row[1] for row in await db.fetch(_WAITING)}
    lanes |= {row[0]: now for row in await db.fetch(_SUSPECT, now)}
    lanes |= {row["lane_id"]: now for row in ready}
    await wake(db, lanes)
    return len(lanes)


async def age(db: Db) -> int:
    """Set the turn of jobs that have waited long enough to 0. Never waits for a lock: the next sweep tries again.

    Flows are updated separately, because a flow may have just been written by a transaction that read its job before.
    """
    await db.execute(_AGE_FLOWS, round(AGED_AFTER * 1000))
    return len(await db.fetch(_AGE_JOBS, round(AGED_AFTER * 1000)))


async def drop_old(db: Db, most: int) -> int:
    """Delete expired evidence and Idempotency-Keys."""
    old = await db.fetch(
        "DELETE FROM evidence WHERE task_id = ANY(ARRAY(SELECT task_id FROM evidence"
        f" WHERE kept_until < {NOW} LIMIT $1 FOR UPDATE SKIP LOCKED)) RETURNING task_id",
        most,
    )
    await db.execute(f"DELETE FROM idempotency WHERE expires_at < {NOW}")
    return len(old)


async def drop_old_robots(db: Db) -> int:
    """Delete robots.txt files that have not been refreshed for long."""
    old = await db.fetch(
        "DELETE FROM robots WHERE origin = ANY(ARRAY(SELECT origin FROM robots"
        f" WHERE tried_at < {NOW} - $1::bigint LIMIT $2 FOR UPDATE SKIP LOCKED)) RETURNING origin",
        OF_USE_MS,
        PRUNED_AT_ONCE,
    )
    return len(old)
