"""Rescues what a dead session held: its running tasks become suspects, and its lanes are released.

A suspect may be the task that killed its worker. It runs again in a group of at most half the size of the one that
crashed, so that after a few crashes the culprit runs alone. Only a crash while alone counts against a task, and only if
its step had begun (`mark_step`); all others burn no attempt. Counting every crash instead would make dead letters of
innocent tasks that happened to run beside it, or that were only leased when the process was killed.

`settle_and_lease` and a rescue both lock the session's row: neither can begin while the other is under way, and a late
settlement finds its claims gone.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from forager.core.lane_names import IS_WITHOUT_TASKS
from forager.core.reasons import ErrorType, Reason
from forager.core.states import AFTER_FAILED, CANCELLED, TaskState
from forager.ledger.catalog import Catalog
from forager.ledger.postgres.aftermath import after_ends, close
from forager.ledger.postgres.attempts import keep_lost
from forager.ledger.postgres.connection import NOW, Db
from forager.ledger.postgres.flows import add_flows
from forager.ledger.postgres.followers import skip_followers
from forager.ledger.postgres.lanes import add_spending, wake
from forager.ledger.postgres.listen import tell
from forager.ledger.postgres.settle import Effect, bury
from forager.ledger.shared.suspects import crash_error, group_size, is_given_up

PAGE = 5_000

_LATE = f"SELECT id FROM sessions WHERE lease_until < {NOW} ORDER BY lease_until LIMIT 1 FOR UPDATE SKIP LOCKED"
_RUNNING = """
SELECT q.task_id, q.claim, q.job_id, q.lane_id, t.price, t.crashes, t.waiting_crashes, t.followed, j.drain,
       t.begun IS NOT DISTINCT FROM q.claim AS begun, t.waits
FROM queue q JOIN tasks t ON t.id = q.task_id JOIN jobs j ON j.id = q.job_id
WHERE q.session_id = $1 AND q.state = 3 ORDER BY q.task_id LIMIT $2 FOR UPDATE OF q
"""
_PUT_BACK = """
WITH q AS (UPDATE queue q SET state = $4, attempt = q.attempt - 1, claim = NULL, claimed_at = NULL, session_id = NULL
  FROM unnest($1::bigint[], $2::bigint[], $3::int[]) AS x(id, claim, price)
  WHERE q.task_id = x.id AND q.claim = x.claim AND q.session_id = $7 RETURNING x.id, x.price)
UPDATE tasks t SET together = $5, crashes = t.crashes + $6, waiting_crashes = t.waiting_crashes + $8,
  cost = t.cost + q.price, guessed = t.guessed + q.price
FROM q WHERE t.id = q.id
"""
_END = """
WITH q AS (DELETE FROM queue q USING unnest($1::bigint[], $2::bigint[], $3::int[]) AS x(id, claim, price)
  WHERE q.task_id = x.id AND q.claim = x.claim AND q.session_id = $7
  RETURNING x.id, x.price, q.attempt, q.claim, q.claimed_at)
UPDATE tasks t SET state = $4, error = $5, reason = $8, error_type = $9, ended_at = $6,
  cost = t.cost + q.price, guessed = t.guessed + q.price,
  crashes = t.crashes + $10, waiting_crashes = t.waiting_crashes + $11,
  attempt = q.attempt, claim = q.claim, claimed_at = q.claimed_at
FROM q WHERE t.id = q.id
"""
# These lanes never have tasks: a worker must not take them.
_FREE_LANES = f"""
UPDATE lanes SET owner = NULL, wake_at = CASE WHEN {IS_WITHOUT_TASKS} THEN NULL ELSE $2::bigint END
WHERE owner = $1
"""


@dataclass(frozen=True, slots=True)
class Rescued:
    tasks: int
    whole: bool
    """Nothing of the session is left."""


async def rescue_late(db: Db, catalog: Catalog) -> Rescued | None:
    """Rescue a page of the session that has been late for longest. Returns None if there is none, or if another process
    is rescuing it."""
    session = await db.fetchval(_LATE)
    return None if session is None else await rescue(db, catalog, session, crashed=True)


async def end_session(db: Db, catalog: Catalog, session: int) -> Rescued:
    """End a session in order: it gives everything back, and no task becomes a suspect."""
    if await db.fetchval("SELECT id FROM sessions WHERE id = $1 FOR UPDATE", session) is None:
        return Rescued(0, whole=True)
    return await rescue(db, catalog, session, crashed=False)


async def rescue(db: Db, catalog: Catalog, session: int, *, crashed: bool) -> Rescued:
    """Take back what a session held, a page at a time. Its reserved cost counts as spent, because the requests may have
    been sent."""
    in_flight = await db.fetchval("SELECT count(*) FROM queue WHERE session_id = $1 AND state = 3", session)
    # The last page must not be so small that a task would look as if it had run alone.
    rows = await db.fetch(_RUNNING, session, PAGE if in_flight > 2 * PAGE else in_flight)
    effect = Effect(await db.fetchval(f"SELECT {NOW}"), catalog.deltas())
    blamed = crashed and in_flight == 1 and all(r["begun"] for r in rows)
    given_up = blamed and all(is_given_up(r["crashes"], r["waiting_crashes"], waits=r["waits"]) for r in rows)
    dead = [r for r in rows if given_up and r["drain"] != CANCELLED]
    lost, letters = [r["task_id"] for r in rows], [r["task_id"] for r in dead]
    await keep_lost(db, catalog.with_attempts, lost, letters, effect.now, crashed=crashed)
    await _put_back(db, session, rows, dead, in_flight, effect, crashed=crashed, blamed=blamed)
    whole = len(rows) == in_flight
    if whole:
        await db.execute(_FREE_LANES, session, effect.now)
        await db.execute("DELETE FROM sessions WHERE id = $1", session)
        await tell(db)
    await wake(db, {row["lane_id"]: effect.now for row in rows})
    spent: defaultdict[int, int] = defaultdict(int)
    for row in rows:
        spent[row["lane_id"]] += row["price"]
    await add_spending(db, spent, effect.now)
    changes, hooked = await after_ends(db, catalog, effect.deltas, effect.now)
    await close(db, catalog, effect.deltas, effect.now, changes=changes, hooked=hooked)
    return Rescued(len(rows), whole)


async def _put_back(
    db: Db,
    session: int,
    rows: Sequence[Any],
    dead: Sequence[Any],
    in_flight: int,
    effect: Effect,
    *,
    crashed: bool,
    blamed: bool,
) -> None:
    cancelled = [r for r in rows if r["drain"] == CANCELLED]
    gone = {r["task_id"] for r in (*cancelled, *dead)}
    back = [r for r in rows if r["task_id"] not in gone]
    state = TaskState.SUSPECT if crashed else TaskState.READY
    together = group_size(in_flight) if crashed else None
    waiting = int(blamed and all(r["waits"] for r in rows))
    running = int(blamed) - waiting
    await db.execute(_PUT_BACK, *_columns(back), int(state), together, running, session, waiting)
    died = crash_error(max((r["crashes"] + r["waiting_crashes"] + 1 for r in dead), default=0))
    for group, end, error, reason, error_type in (
        (cancelled, TaskState.CANCELLED, CANCELLED, CANCELLED, None),
        (dead, TaskState.FAILED, died, Reason.CRASHED, ErrorType.INTERNAL),
    ):
        if group:
            await db.execute(
                _END, *_columns(group), int(end), error, effect.now, session, reason, error_type, running, waiting
            )
    await bury(db, [r["task_id"] for r in dead], effect.now)
    effect.deltas.note([r["task_id"] for r in cancelled], TaskState.CANCELLED)
    effect.deltas.note([r["task_id"] for r in dead], TaskState.FAILED)
    for row in rows:
        price = row["price"]
        effect.deltas.add(row["job_id"], running=-1, reserved=-price, spent=price, guessed=price)
    for group, counter in ((cancelled, "cancelled"), (dead, "failed"), (back, "queued")):
        for row in group:
            effect.deltas.add(row["job_id"], **{counter: 1})
    followed = [r["task_id"] for r in dead if r["followed"]]
    skipped = await skip_followers(db, followed, AFTER_FAILED, effect.deltas, effect.now)
    effect.deltas.note(skipped, TaskState.SKIPPED)
    if not crashed:
        await add_flows(db, [(r["lane_id"], r["job_id"]) for r in back])


def _columns(rows: Sequence[Any]) -> tuple[list[int], list[int], list[int]]:
    return [r["task_id"] for r in rows], [r["claim"] for r in rows], [r["price"] for r in rows]
