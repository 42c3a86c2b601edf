"""Job counters: summed over a transaction, written once per job, exact at every commit. Jobs without open tasks are
ended here.

All transactions lock rows of jobs in one order: those with a limit first, then by number. A lease must lock the limited
ones before it knows which others it will touch.
"""

from collections.abc import Collection, Iterable

from forager.core.states import BUDGET, JobState, ended_state
from forager.ledger.postgres.arrays import unless_all
from forager.ledger.postgres.connection import Db, pairs
from forager.ledger.postgres.listen import ENDED, MOST_NAMED
from forager.ledger.shared.changelog import NewChange, job_change, note
from forager.ledger.shared.counting import COUNTED, Deltas

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
_FORGET_FLOWS = """
DELETE FROM flows WHERE (lane_id, job_id) IN
  (SELECT lane_id, job_id FROM flows WHERE job_id = ANY($1::bigint[]) FOR UPDATE SKIP LOCKED)
"""
# The version of a job's change is its number of changes so far.
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
    states = [ended_state(completed=r["completed"], failed=r["failed"], drain=r["drain"]) for r in done]
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
