"""Adds tasks to a standing job: one transaction finds or creates it, adds the tasks that it does not have yet, and
reopens it.

Rows are locked in the common order: tasks, flows, lanes, then the job.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from uuid import UUID

from forager.core.clock import Faults
from forager.core.ledger import NewJob, Submitted
from forager.core.states import AFTER_FAILED, TERMINAL_JOBS, JobState, TaskState
from forager.ledger.catalog import Catalog
from forager.ledger.postgres.changes import lock_jobs, log_job, logged_task_changes, write_changes, write_counters
from forager.ledger.postgres.connection import NOW, Db, TryAgain
from forager.ledger.postgres.lanes import Flow, add_flows_and_lock_all, set_paused, wake
from forager.ledger.postgres.submit import Repeated, create_whole
from forager.ledger.postgres.tasks import ENDED_BADLY, JustQueued, insert_tasks, join_open, predecessors, skip_followers
from forager.ledger.rules.changes import COUNTER_OF, Deltas, then
from forager.ledger.rules.jobs import Encoded, Whole, being_cancelled
from forager.ledger.rules.recheck import POSTPONED_MS, DueRow, RecheckPage, Taken

# Requeues tasks that have ended, with a new plan; their history stays.


# The rows are locked in the order of their numbers; one that another transaction queues meanwhile has not ended any
# more, and is left out.
_REOPEN = """
WITH old AS MATERIALIZED (
  SELECT t.id, t.state AS was, x.place, x.lane, x.rank, x.price, x.retries, x.due, x.body
  FROM unnest($2::text[], $3::text[], $4::bigint[], $5::int[], $6::int[], $7::smallint[], $8::bigint[], $9::bytea[])
    WITH ORDINALITY AS x(kind, key, lane, rank, price, retries, due, body, place)
  JOIN tasks t ON t.job_id = $1 AND t.kind = x.kind AND t.key = x.key
  WHERE t.state IN (4, 5, 6, 7) ORDER BY t.id FOR UPDATE OF t),
t AS (UPDATE tasks t SET state = 0, lane_id = o.lane, rank = o.rank, price = o.price, retries = o.retries, due = o.due,
    body = o.body, "after" = NULL, attempt = 0, crashes = 0, waiting_crashes = 0,
    together = NULL, hidden = false, ended_at = NULL,
    error = NULL, reason = NULL, error_type = NULL, waited = NULL, waited_until = NULL
  FROM old o WHERE t.id = o.id RETURNING t.id, t.lane_id, t.job_id, t.rank, t.due),
d AS (DELETE FROM dead USING t WHERE dead.task_id = t.id),
q AS (INSERT INTO queue (task_id, lane_id, job_id, rank, state, due)
  SELECT id, lane_id, job_id, rank, CASE WHEN due > $10 THEN 1 ELSE 0 END, CASE WHEN due > $10 THEN due END FROM t)
SELECT id, was, place FROM old
"""
_HOLD = """
WITH x AS (SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::bool[]) AS x(id, before, held)),
q AS (UPDATE queue q SET state = 2, due = t.due FROM x JOIN tasks t ON t.id = x.id WHERE q.task_id = x.id AND x.held)
UPDATE tasks t SET "after" = x.before, state = CASE WHEN x.held THEN 2 ELSE t.state END FROM x WHERE t.id = x.id
"""


@dataclass(slots=True)
class Reopened:
    """Tasks of a job that were requeued."""

    job: int
    plans: dict[int, Encoded] = field(default_factory=dict)
    """The new plan of each task."""
    was: dict[int, TaskState] = field(default_factory=dict)
    """The state in which each task had ended."""
    ready: set[Flow] = field(default_factory=set)
    due: dict[int, int] = field(default_factory=dict)
    """The earliest due time of the waiting tasks, by lane."""
    dead_ends: set[int] = field(default_factory=set)
    joined: int = 0

    def count_in(self, deltas: Deltas) -> None:
        for number, state in self.was.items():
            deltas.add(self.job, **{COUNTER_OF[state]: -1})
            deltas.note_back([number], state)
        deltas.add(self.job, queued=len(self.plans) - self.joined)
        deltas.add(self.job, skipped=self.joined)


async def reopen(db: Db, job: int, plans: Sequence[Encoded], lanes: Mapping[str, int], now: int) -> Reopened:
    """Requeue those of the planned tasks that have ended. `place` handles their predecessors once the new tasks among
    the plans are written as well."""
    rows = await db.fetch(
        _REOPEN,
        job,
        [p.kind for p in plans],
        [p.key for p in plans],
        [lanes[p.lane] for p in plans],
        [p.rank for p in plans],
        [p.price for p in plans],
        [p.retries for p in plans],
        [p.due for p in plans],
        [p.body for p in plans],
        now,
    )
    again = Reopened(job, {row[0]: plans[row[2] - 1] for row in rows})
    again.was = {row[0]: TaskState(row[1]) for row in rows}
    return again


async def place(db: Db, again: Reopened, lanes: Mapping[str, int], one_open: Collection[str], now: int) -> None:
    """Hold those that come after another, skip those whose key another task has."""
    held = await _follow(db, again)
    for number, plan in again.plans.items():
        lane = lanes[plan.lane]
        if number in held:
            continue
        if plan.due is not None and plan.due > now:
            again.due[lane] = min(plan.due, again.due.get(lane, plan.due))
        else:
            again.ready.add((lane, again.job))
    names = [JustQueued(number, again.job, plan.kind, plan.key) for number, plan in again.plans.items()]
    joined = await join_open(db, one_open, names, now)
    again.joined = len(joined)
    again.dead_ends |= joined


async def _follow(db: Db, again: Reopened) -> set[int]:
    """Returns those that are held."""
    following = {number: plan for number, plan in again.plans.items() if plan.after is not None}
    before = await predecessors(db, [(again.job, plan) for plan in following.values()], {})
    names = {number: before[again.job, plan.kind, plan.after or ""] for number, plan in following.items()}
    held = {number for number, (_, state) in names.items() if state != TaskState.COMPLETED}
    again.dead_ends |= {first for first, state in names.values() if state in ENDED_BADLY}
    if names:
        firsts = [first for first, _ in names.values()]
        await db.execute(_HOLD, list(names), firsts, [number in held for number in names])
    return held


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
    flows = await add_flows_and_lock_all(db, ready, [job])
    await wake(db, {**written.due, **reopened.due, **{lane: now for lane, _ in ready}})
    await lock_jobs(db, [job])
    row = await db.fetchrow("SELECT public_id, state, drain FROM jobs WHERE id = $1", job)
    if row is None or row["drain"] is not None:
        raise being_cancelled(row["public_id"] if row else str(job))
    goes_on = row["state"] in TERMINAL_JOBS
    if goes_on:
        await db.execute("UPDATE jobs SET state = 'running', finished_at = NULL WHERE id = $1", job)
    # An ended job's flows would have been written as paused: it was not running when they were.
    await set_paused(db, flows, paused=row["state"] == JobState.PAUSED)
    told = await logged_task_changes(db, catalog, deltas)
    extended = await log_job(db, job, "extended") if goes_on else None
    ended = await write_counters(db, deltas, now)  # if all of them were skipped at once
    await write_changes(db, [*told, *(ended if extended is None else then(extended, ended))], now)
    return count


# Due records become tasks: the tasks are added and the due times cleared in one transaction.
#
# Settlements lock records after tasks, flows and lanes. A dispatch likewise adds its tasks first, and never waits for a
# record: one that another transaction holds is contested. Then the dispatch is rolled back and repeated without the
# contested records, which stay due. So it cannot be part of a deadlock with a settlement.


# Rows are found by their ids. `IS NOT DISTINCT FROM` uses no index: thousands of records may be due at one moment.
_UNCHANGED = """
FROM unnest($1::bigint[], $2::bigint[], $3::bigint[]) AS x(id, due, version) JOIN {table} r ON r.id = x.id
WHERE r.{due} IS NOT DISTINCT FROM x.due AND r.version = x.version
"""
_READ = "SELECT r.id " + _UNCHANGED
_SET = (
    "WITH mine AS MATERIALIZED (SELECT r.id "
    + _UNCHANGED
    + """ FOR NO KEY UPDATE OF r SKIP LOCKED)
UPDATE {table} r SET {due} = $4::bigint WHERE r.id = ANY(ARRAY(SELECT id FROM mine)) RETURNING r.id
"""
)
# The recheck's own row is locked to the commit: one process at a time dispatches it, and `pause` waits for its page.
_HOLD_DUE = "SELECT paused FROM rechecks WHERE name = $1 FOR NO KEY UPDATE SKIP LOCKED"
_MAKE = "INSERT INTO rechecks (name) VALUES ($1) ON CONFLICT (name) DO NOTHING RETURNING paused"
_NOTE = "UPDATE rechecks SET dispatched = dispatched + $2, last_at = $3, error = $4, error_at = $5 WHERE name = $1"


async def dispatch(
    db: Db,
    page: RecheckPage,
    contested: set[int],
    lanes: Mapping[str, int],
    catalog: Catalog,
    faults: Faults,
) -> Taken:
    """Does nothing while another process dispatches the same recheck.

    `contested` collects the ids of records that another transaction holds: the next try leaves them out.
    """
    name, due = page.recheck.name, page.recheck.due
    held = await db.fetchrow(_HOLD_DUE, name) or await db.fetchrow(_MAKE, name)
    if held is None or held["paused"]:
        return Taken()
    rows = await _unchanged(db, page, [row for row in page.rows.values() if row.id not in contested])
    plans = page.plans_of([row.id for row in rows])
    tasks = (await append(db, page.job, plans, lanes, catalog, again=True)).total if plans else 0
    statement = _SET.format(table=page.table, due=due)
    taken = await _set(db, statement, rows, None)
    if len(taken) < len(rows):
        # Met a second time, contention is heavy: the whole page stays due, and the next look takes it.
        leave_all = bool(contested)
        contested.update(row.id for row in rows if leave_all or row.id not in taken)
        raise TryAgain("another transaction is writing some of the due records")
    postponed = await _set(db, statement, page.postponed, page.now + POSTPONED_MS)
    if taken or postponed:
        await db.execute(_NOTE, name, len(taken), page.now, page.error, page.error_at)
    faults.at("dispatched")
    return Taken(len(taken), tasks, len(postponed), bool(contested))


async def _unchanged(db: Db, page: RecheckPage, rows: Sequence[DueRow]) -> list[DueRow]:
    """Return the records that have not changed since they were read."""
    if not rows:
        return []
    unchanged = await db.fetch(_READ.format(table=page.table, due=page.recheck.due), *_columns(rows))
    ids = {row[0] for row in unchanged}
    return [row for row in rows if row.id in ids]


async def _set(db: Db, statement: str, rows: Sequence[DueRow], due: int | None) -> set[int]:
    """Write this due time into the unchanged records that no other transaction has locked. Returns the ids of those
    written."""
    return {row[0] for row in await db.fetch(statement, *_columns(rows), due)} if rows else set()


def _columns(rows: Sequence[DueRow]) -> tuple[list[int], list[int], list[int]]:
    return [row.id for row in rows], [row.due for row in rows], [row.version for row in rows]
