"""Requeues tasks that have ended, with a new plan; their history stays."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from forager.core.states import TaskState
from forager.ledger.postgres.connection import Db
from forager.ledger.postgres.flows import Flow
from forager.ledger.postgres.joining import Named, join_open
from forager.ledger.postgres.tasks import ENDED_BADLY, predecessors
from forager.ledger.shared.counting import COUNTER_OF, Deltas
from forager.ledger.shared.plan_encoding import Encoded

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
    """Tasks of a job that were queued once more."""

    job: int
    plans: dict[int, Encoded] = field(default_factory=dict)
    """By task."""
    was: dict[int, TaskState] = field(default_factory=dict)
    """By task: how it had ended."""
    ready: set[Flow] = field(default_factory=set)
    due: dict[int, int] = field(default_factory=dict)
    """By lane: when the first of those is due that wait for their moment."""
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
    names = [Named(number, again.job, plan.kind, plan.key) for number, plan in again.plans.items()]
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
