"""Writes the change log with numbers that are dense and in commit order.

Sinks read the log by a cursor: "everything after number n". That is only correct if no change can appear later with a
number up to n. A sequence does not guarantee this: a transaction that draws number 5 and commits after number 6 is
visible would be skipped by every reader that has passed 6, and its change would be lost for ever. So the next number is
in a single row (the tail), which each transaction locks and holds until its commit. This serialises the ends of all
writing transactions, so the row is locked last, in the last statement before the commit; locked earlier, it would also
serialise their work.
"""

from collections.abc import Collection, Iterable, Sequence
from typing import Any

from forager.core.states import BUDGET, JobState, Reason, ended_state
from forager.ledger.catalog import Catalog
from forager.ledger.postgres.connection import (
    ENDED,
    MOST_NAMED,
    Db,
    as_json,
    document,
    documents,
    pairs,
    rows_from,
    unless_all,
)
from forager.ledger.rules.changes import (
    COUNTED,
    TOLD_TASK,
    Deltas,
    LoggedTask,
    NewChange,
    job_change,
    note,
    task_change,
    with_logged_state,
)

_COLUMNS = NewChange._fields
_WRITE = f"""
WITH t AS (UPDATE tail SET change = change + $7 WHERE one = 1 RETURNING change - $7 AS base)
INSERT INTO changes (id, kind, key, op, version, job_id, at, body)
SELECT t.base + x.o, x.kind, x.key, x.op, x.version::int, x.job_id::bigint, $8, {document("x.body")}
FROM t, {rows_from([(name, name == "body") for name in _COLUMNS])} WITH ORDINALITY AS x({", ".join(_COLUMNS)}, o)
"""


async def write_changes(db: Db, changes: Sequence[NewChange], now: int) -> None:
    """Number and insert changes. Must be the last statement of a transaction, because it locks the tail until the
    commit."""
    if changes:
        *columns, bodies = zip(*changes, strict=True)
        written = [None if body is None else body.decode() for body in bodies]
        await db.execute(_WRITE, *map(as_json, columns), documents(written), len(changes), now)


async def log_job(db: Db, job: int, op: str, more: dict[str, Any] | None = None) -> NewChange:
    """Return a change of a job in its present state. The job's row must be locked, so that versions do not collide."""
    row = await db.fetchrow(
        "SELECT public_id, state, 1 + coalesce((SELECT max(version) FROM changes c WHERE c.kind = 'job'"
        " AND c.key = j.public_id AND c.body IS NOT NULL), 0) AS version FROM jobs j WHERE id = $1",
        job,
    )
    if row is None:
        raise AssertionError(f"job {job} is gone")
    return job_change(job, row["public_id"], op, JobState(row["state"]), row["version"], more)


# Job counters: summed over a transaction, written once per job, exact at every commit. Jobs without open tasks are
# ended here.
#
# All transactions lock rows of jobs in one order: those with a limit first, then by number. A lease must lock the
# limited ones before it has found the others.


_LOCK = """
SELECT id, state FROM jobs WHERE id = ANY($1::bigint[])
ORDER BY (max_cost IS NULL AND concurrency IS NULL), id FOR NO KEY UPDATE
"""
_DELTAS = ", ".join(f"${n}::bigint[]" for n in range(4, 4 + len(COUNTED)))
# The count forces all rows to be locked, in the common order, before the first one is changed.
_ADD = f"""
WITH locked AS MATERIALIZED ({_LOCK})
UPDATE jobs j SET {", ".join(f"{c} = j.{c} + coalesce(x.{c}, 0)" for c in COUNTED)},
  state = CASE WHEN x.leased AND j.state = 'queued' THEN 'running' ELSE j.state END,
  started_at = CASE WHEN x.leased AND j.state = 'queued' THEN coalesce(j.started_at, $3) ELSE j.started_at END
FROM unnest($1::bigint[], $2::bool[], {_DELTAS}) AS x(id, leased, {", ".join(COUNTED)})
WHERE j.id = x.id AND (SELECT count(*) FROM locked) > 0
RETURNING x.leased AND (SELECT l.state FROM locked l WHERE l.id = j.id) = 'queued' AS started,
          j.id, j.public_id, j.queued + j.running AS open, j.state, j.finished_at, j.drain,
          j.completed, j.failed, j.skipped, j.cancelled
"""
# Other processes that wait for a job are notified with the commit, once for all jobs that end in it. A notification
# serialises commits, but so does the change of a job's end, and other settlements send none. A job that ends while
# paused is no longer paused, so its pause reason is removed.
_END = f"""
WITH ended AS (
  UPDATE jobs j SET state = x.state, finished_at = $3, drain = NULL,
    reason = CASE WHEN j.state = 'paused' THEN NULL ELSE j.reason END
  FROM unnest($1::bigint[], $2::text[]) AS x(id, state) WHERE j.id = x.id RETURNING j.id),
forgotten AS (DELETE FROM job_secrets WHERE job_id = ANY($1::bigint[]))
SELECT pg_notify('{ENDED}', CASE WHEN count(*) <= {MOST_NAMED} THEN string_agg(id::text, ',') ELSE '' END) FROM ended
"""
_REFUSED = """
SELECT g.id FROM unnest($1::bigint[]) AS g (id)
WHERE EXISTS (SELECT 1 FROM tasks t WHERE t.job_id = g.id AND t.reason = $2)
"""
_FORGET_FLOWS = """
DELETE FROM flows WHERE (lane_id, job_id) IN
  (SELECT lane_id, job_id FROM flows WHERE job_id = ANY($1::bigint[]) FOR UPDATE SKIP LOCKED)
"""
# The version of a job's change is the number of its changes.
_VERSIONS = """
SELECT x.key, 1 + coalesce((SELECT max(c.version) FROM changes c WHERE c.kind = 'job' AND c.key = x.key
  AND c.body IS NOT NULL), 0) AS next
FROM unnest($1::text[]) AS x(key)
"""


async def lock_jobs(db: Db, jobs: Iterable[int]) -> None:
    await db.fetch(_LOCK, sorted(set(jobs)))


async def write_counters(db: Db, deltas: Deltas, now: int, *, leased: Collection[int] = ()) -> list[NewChange]:
    """Add the deltas, and end the jobs without queued or running tasks; each end is a change."""
    jobs = sorted(deltas.jobs())
    if not jobs:
        return []
    columns = [unless_all(0, column) for column in deltas.columns(jobs)]
    rows = await db.fetch(_ADD, jobs, [job in leased for job in jobs], now, *columns)
    for row in rows if leased else ():
        if row["started"]:
            note(row["id"], "started")
    done = [r for r in rows if r["open"] == 0 and r["finished_at"] is None and r["state"] != JobState.PLANNING]
    if not done:
        return []
    fruitless = [r["id"] for r in done if r["skipped"] and not r["completed"] and not r["failed"]]
    refused = {r["id"] for r in await db.fetch(_REFUSED, fruitless, Reason.ROBOTS.value)} if fruitless else set()
    states = [
        ended_state(completed=r["completed"], failed=r["failed"], drain=r["drain"], refused=r["id"] in refused)
        for r in done
    ]
    await db.execute(_END, [r["id"] for r in done], [s.value for s in states], now)
    await db.execute(_FORGET_FLOWS, [r["id"] for r in done])
    versions = pairs(await db.fetch(_VERSIONS, [r["public_id"] for r in done]))
    changes = []
    for row, state in zip(done, states, strict=True):
        counts = {name: row[name] for name in ("completed", "failed", "skipped", "cancelled")}
        changes.append(job_change(row["id"], row["public_id"], "ended", state, versions[row["public_id"]], counts))
    return changes


async def end_for_budget(db: Db, job: int) -> None:
    """End a job whose budget is spent: no further task can be paid, and no in-flight task can release units. Queued
    tasks will be skipped.

    The job's row is locked already; its flows are left to the lease, which sees the drain and passes them over.
    """
    await db.execute("UPDATE jobs SET drain = $2, reason = $2 WHERE id = $1 AND drain IS NULL", job, BUDGET)


# Tasks in the change log: reading those that were noted, and giving their rows a version.
#
# The transaction holds the rows of these tasks, so no other can write the same version.


_TASKS = f"SELECT {TOLD_TASK} FROM tasks WHERE id = ANY($1::bigint[])"
_TASK_VERSIONS = """
SELECT x.key, 1 + coalesce((SELECT max(c.version) FROM changes c WHERE c.kind = 'task' AND c.key = x.key
  AND c.body IS NOT NULL), 0) AS next
FROM unnest($1::text[]) AS x(key)
"""


async def logged_task_changes(db: Db, catalog: Catalog, deltas: Deltas) -> list[NewChange]:
    """Return the rows of the log for the tasks that this transaction has ended or requeued."""
    if not deltas.logged:
        return []
    rows = await db.fetch(_TASKS, sorted(deltas.logged))
    told = with_logged_state(catalog, deltas.logged, [LoggedTask(*row) for row in rows])
    versions = pairs(await db.fetch(_TASK_VERSIONS, list(told)))
    return [task_change(name, row, versions[name]) for name, row in told.items()]
