"""Operations on jobs and dead letters: pause, resume, cancel and its drain, retry, discard."""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from forager.core.errors import Conflict, NotFound
from forager.core.ids import IS_WITHOUT_TASKS, task_numbers
from forager.core.states import AFTER_FAILED, CANCELLED, ErrorType, JobState, Reason, TaskState
from forager.ledger.catalog import Catalog
from forager.ledger.postgres.changes import lock_jobs, log_job, logged_task_changes, write_changes, write_counters
from forager.ledger.postgres.connection import NOW, Db, tell
from forager.ledger.postgres.lanes import (
    Flow,
    add_flows,
    add_flows_and_lock_all,
    add_spending,
    pause_flows,
    set_paused,
    wake,
)
from forager.ledger.postgres.settle import PendingWrites, after_ends, bury, close, keep_lost
from forager.ledger.postgres.submit import write_secrets
from forager.ledger.postgres.tasks import JustQueued, join_open, skip_followers
from forager.ledger.rules.changes import Deltas, NewChange, has_ended, no_dead_letter, note, then, was_cancelled
from forager.ledger.rules.jobs import CUT_OFF
from forager.ledger.rules.scheduling import crash_error, group_size, is_given_up


async def pause(db: Db, job: UUID, reason: str | None) -> None:
    number, _, _ = await _job(db, job)
    await pause_flows(db, [number], paused=True)
    await lock_jobs(db, [number])
    _, state, drain = await _job(db, job)
    if state is JobState.PAUSED:
        return
    if state not in (JobState.QUEUED, JobState.RUNNING) or drain is not None:
        raise Conflict(f"Job {job} is {_doing(state, drain)}: only a queued or running job can be paused.")
    now = await _now(db)
    await pause_locked(db, number, reason)
    more = {"reason": reason} if reason else None
    await write_changes(db, [await log_job(db, number, "paused", more)], now)


async def pause_locked(db: Db, job: int, reason: str | None) -> bool:
    """Pause a job whose row is locked. Returns False if its state does not allow that."""
    paused = await db.fetchval(
        "UPDATE jobs SET state = 'paused', reason = $2 WHERE id = $1 AND state IN ('queued', 'running')"
        " AND drain IS NULL RETURNING id",
        job,
        reason,
    )
    return paused is not None


async def prioritise(db: Db, job: UUID, turn: int) -> None:
    number, _, _ = await _job(db, job)
    await db.execute(
        "UPDATE flows SET turn = $2 WHERE (lane_id, job_id) IN"
        " (SELECT lane_id, job_id FROM flows WHERE job_id = $1 ORDER BY lane_id FOR UPDATE)",
        number,
        turn,
    )
    await lock_jobs(db, [number])
    _, state, _ = await _job(db, job)
    if state.is_terminal:
        raise has_ended(job, state)
    await db.execute("UPDATE jobs SET turn = $2 WHERE id = $1", number, turn)


_CUT_OFF = CUT_OFF.format(job="$1")


async def resume(db: Db, catalog: Catalog, job: UUID) -> None:
    number, state, drain = await _job(db, job)
    if _is_running_already(job, state, drain):
        return
    again = await _requeue(db, catalog, number, [row[0] for row in await db.fetch(_CUT_OFF, number)])
    flows = await add_flows_and_lock_all(db, again.ready, [number])
    suspects = await db.fetch(
        "SELECT DISTINCT l.id FROM lanes l JOIN queue q ON q.lane_id = l.id AND q.state = 8 WHERE q.job_id = $1", number
    )
    await wake(db, dict.fromkeys([*(lane for lane, _ in flows), *(row[0] for row in suspects)], again.now))
    await lock_jobs(db, [number])
    _, state, drain = await _job(db, job)
    changes: list[NewChange] = [await log_job(db, number, "retried")] if again.found else []
    if not _is_running_already(job, state, drain):
        await db.execute(
            "UPDATE jobs SET state = CASE WHEN started_at IS NULL THEN 'queued' ELSE 'running' END, reason = NULL"
            " WHERE id = $1",
            number,
        )
        resumed = await log_job(db, number, "resumed")
        changes = then(changes[0], [resumed]) if changes else [resumed]
        await tell(db)
    await set_paused(db, flows, paused=False)
    told = await logged_task_changes(db, catalog, again.deltas)
    for end in await write_counters(db, again.deltas, again.now):
        changes.append(end._replace(version=end.version + len(changes)))
    await write_changes(db, [*told, *changes], again.now)


async def cancel(db: Db, job: UUID) -> int | None:
    """Cancel a job. No more of its tasks are leased; queued ones are ended in pages, and running ones finish.

    Returns the job's number, if there is something to drain.
    """
    number, _, _ = await _job(db, job)
    await pause_flows(db, [number], paused=True)
    await lock_jobs(db, [number])
    _, state, _ = await _job(db, job)
    if state is JobState.CANCELLED:
        return None
    if state.is_terminal:
        raise Conflict(f"Job {job} is {state.public()} already: there is nothing left to cancel.")
    if state is JobState.PLANNING:
        raise Conflict(f"Job {job} is still being written. Cancel it in a moment.")
    await db.execute(
        "UPDATE jobs SET drain = $2, reason = NULL, state = CASE WHEN state = 'paused' THEN 'running' ELSE state END"
        " WHERE id = $1",
        number,
        CANCELLED,
    )
    note(number, "cancelling")
    return number


async def drain_page(
    db: Db, catalog: Catalog, job: int, after: tuple[str, str], limit: int
) -> tuple[int, tuple[str, str] | None]:
    """End those of the job's next `limit` tasks that are queued. Returns how many, and where the next page begins.

    Tasks are walked in the order of their names. Searching for queued ones only would scan all ended tasks again for
    every page.
    """
    why = await db.fetchval("SELECT drain FROM jobs WHERE id = $1", job)
    rows = await db.fetch(_PAGE, job, *after, limit) if why is not None else []
    if not rows:
        return 0, None
    state, counter = (TaskState.CANCELLED, "cancelled") if why == CANCELLED else (TaskState.SKIPPED, "skipped")
    now = await _now(db)
    ended = await db.fetch(_DRAIN, sorted(row["id"] for row in rows), int(state), why, now)
    deltas = catalog.deltas()
    deltas.add(job, queued=-len(ended), **{counter: len(ended)})
    deltas.note([row[0] for row in ended], state)
    changes, hooked = await after_ends(db, catalog, deltas, now)
    await close(db, catalog, deltas, now, changes=changes, hooked=hooked)
    return len(ended), (rows[-1]["kind"], rows[-1]["key"]) if len(rows) == limit else None


async def retry(db: Db, catalog: Catalog, job: UUID, secrets: Mapping[str, str]) -> int:
    number, _, _ = await _job(db, job)
    failed = await db.fetch("SELECT id FROM tasks WHERE job_id = $1 AND state = 5", number)
    queued = await _queue_again(db, catalog, job, number, [row[0] for row in failed])
    if queued:
        await write_secrets(db, number, secrets)
    return queued


async def retry_tasks(db: Db, catalog: Catalog, tasks: Sequence[UUID]) -> int:
    job, numbers = await _dead_letters(db, tasks)
    public_id = await db.fetchval("SELECT public_id FROM jobs WHERE id = $1", job)
    return await _queue_again(db, catalog, UUID(public_id), job, numbers)


async def discard(db: Db, task: UUID) -> None:
    _, numbers = await _dead_letters(db, [task])
    await db.execute("UPDATE tasks SET hidden = true WHERE id = $1", numbers[0])


@dataclass(frozen=True, slots=True)
class _Requeued:
    """Tasks of a job that are queued again. Its counters are not written yet."""

    now: int
    deltas: Deltas
    ready: frozenset[Flow] = frozenset()
    found: bool = False
    count: int = 0
    """Number of tasks that were queued. A task whose key is open already joins that open task instead."""


async def _requeue(db: Db, catalog: Catalog, job: int, failed: Sequence[int]) -> _Requeued:
    """Queue failed tasks again, and the followers that were skipped because of them. Locks rows of tasks only."""
    now, deltas = await _now(db), catalog.deltas()
    mine = [row[0] for row in await db.fetch(_AGAIN, sorted(failed), 5, 0)] if failed else []
    if not mine:
        return _Requeued(now, deltas)
    followers = [row[0] for row in await db.fetch(_AGAIN, await _followers(db, job, mine), 6, 2)]
    lanes = await db.fetch("SELECT DISTINCT lane_id FROM tasks WHERE id = ANY($1::bigint[])", mine)
    count = len(mine) + len(followers)
    deltas.add(job, queued=count, failed=-len(mine), skipped=-len(followers))
    deltas.note_back(mine, TaskState.FAILED)
    deltas.note_back(followers, TaskState.SKIPPED)
    count -= await _join(db, job, [*mine, *followers], catalog.one_open, deltas, now)
    return _Requeued(now, deltas, frozenset((row[0], job) for row in lanes), found=True, count=count)


async def _queue_again(db: Db, catalog: Catalog, public_id: UUID, job: int, failed: Sequence[int]) -> int:
    _, state, drain = await _job(db, public_id)
    if CANCELLED in (state, drain):
        raise was_cancelled(public_id)
    again = await _requeue(db, catalog, job, failed)
    if not again.found:
        return 0
    flows = await add_flows_and_lock_all(db, again.ready, [job])
    await wake(db, {lane: again.now for lane, _ in again.ready})
    await lock_jobs(db, [job])
    resumed = await db.fetchval(
        "UPDATE jobs SET state = CASE WHEN state = 'paused' THEN state ELSE 'running' END, finished_at = NULL"
        " WHERE id = $1 AND drain IS DISTINCT FROM $2 AND state <> $2 RETURNING state",
        job,
        CANCELLED,
    )
    if resumed is None:
        raise was_cancelled(public_id)
    # An ended job's flows would have been written as paused: it was not running when they were.
    await set_paused(db, flows, paused=resumed == JobState.PAUSED)
    told = await logged_task_changes(db, catalog, again.deltas)
    change = await log_job(db, job, "retried")
    ended = await write_counters(db, again.deltas, again.now)
    await write_changes(db, [*told, *then(change, ended)], again.now)
    return again.count


async def _join(db: Db, job: int, tasks: Sequence[int], one_open: Collection[str], deltas: Deltas, now: int) -> int:
    """Skip those whose key another task has taken meanwhile. Returns how many."""
    if not one_open:
        return 0
    rows = await db.fetch("SELECT id, job_id, kind, key FROM tasks WHERE id = ANY($1::bigint[])", list(tasks))
    joined = await join_open(db, one_open, [JustQueued(*row) for row in rows], now)
    deltas.add(job, queued=-len(joined), skipped=len(joined))
    await skip_followers(db, sorted(joined), AFTER_FAILED, deltas, now)
    return len(joined)


async def _followers(db: Db, job: int, failed: Sequence[int]) -> list[int]:
    """Return the tasks that were skipped because of these failures, and their followers. Followers of a dropped task do
    not count."""
    skipped: dict[int, list[int]] = {}
    for after, follower in await db.fetch(
        'SELECT "after", id FROM tasks WHERE job_id = $1 AND state = 6 AND reason = $2', job, AFTER_FAILED
    ):
        skipped.setdefault(after, []).append(follower)
    followers: list[int] = []
    reached = list(failed)
    while reached:
        direct = skipped.get(reached.pop(), [])
        followers.extend(direct)
        reached.extend(direct)
    return sorted(followers)


async def _job(db: Db, job: UUID) -> tuple[int, JobState, str | None]:
    row = await db.fetchrow("SELECT id, state, drain FROM jobs WHERE public_id = $1", str(job))
    if row is None:
        raise NotFound(f"There is no job {job}. See `forager jobs list`.")
    return row["id"], JobState(row["state"]), row["drain"]


async def _dead_letters(db: Db, tasks: Sequence[UUID]) -> tuple[int, list[int]]:
    """Return the job of these tasks, and the numbers of those that are dead letters. Raises `NotFound` if none is."""
    asked = [numbers for task in tasks if (numbers := task_numbers(task)) is not None]
    rows = await db.fetch(
        "SELECT t.job_id, t.id FROM unnest($1::bigint[], $2::bigint[]) g (job, task)"
        " JOIN tasks t ON t.id = g.task AND t.job_id = g.job JOIN jobs j ON j.id = t.job_id WHERE t.state = 5",
        [job for job, _ in asked],
        [task for _, task in asked],
    )
    if not rows:
        raise no_dead_letter(tasks)
    return rows[0][0], [number for _, number in rows]


def _is_running_already(job: UUID, state: JobState, drain: str | None) -> bool:
    if state.is_terminal:
        raise has_ended(job, state)
    if drain == CANCELLED:
        raise was_cancelled(job)
    return state is not JobState.PAUSED


def _doing(state: JobState, drain: str | None) -> str:
    """Describe the state of a job that is being ended."""
    return "being cancelled" if drain == CANCELLED else "at its budget's end" if drain else state.public()


async def _now(db: Db) -> int:
    now: int = await db.fetchval(f"SELECT {NOW}")
    return now


_PAGE = "SELECT id, kind, key FROM tasks WHERE job_id = $1 AND (kind, key) > ($2, $3) ORDER BY kind, key LIMIT $4"
# Rows that another transaction has locked are left to it, or to the next page.
_DRAIN = """
WITH q AS (DELETE FROM queue WHERE task_id = ANY(ARRAY(SELECT task_id FROM queue WHERE task_id = ANY($1::bigint[])
    AND state <> 3 FOR UPDATE SKIP LOCKED)) RETURNING task_id, attempt)
UPDATE tasks t SET state = $2, error = $3, reason = $3, error_type = NULL, ended_at = $4, attempt = q.attempt FROM q
WHERE t.id = q.task_id RETURNING t.id
"""
_AGAIN = """
WITH t AS (UPDATE tasks SET state = $3, attempt = 0, crashes = 0, waiting_crashes = 0,
  together = NULL, hidden = false, ended_at = NULL,
    error = NULL, reason = NULL, error_type = NULL, waited = NULL,
  waited_until = NULL WHERE id = ANY($1::bigint[]) AND state = $2
    RETURNING id, lane_id, job_id, rank, state, due),
d AS (DELETE FROM dead USING t WHERE dead.task_id = t.id)
INSERT INTO queue (task_id, lane_id, job_id, rank, state, due)
SELECT id, lane_id, job_id, rank, state, CASE WHEN state = 2 THEN due END FROM t
RETURNING task_id
"""


# Rescues what a dead session held: its running tasks become suspects, and its lanes are released.
#
# A suspect may be the task that killed its worker. It runs again in a group of at most half the size of the one that
# crashed, so that after a few crashes the culprit runs alone. Only a crash while alone counts against a task, and only
# if its step had begun (`mark_step`); all others burn no attempt. Counting every crash instead would make dead letters
# of innocent tasks that happened to run at the same time, or were only leased when the process was killed.
#
# `settle_and_lease` and a rescue both lock the session's row: neither can begin while the other is under way, and a
# late settlement finds its claims gone.


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
_LOCK_LANES = "SELECT 1 FROM lanes WHERE owner = $1 OR id = ANY($2::bigint[]) ORDER BY id FOR NO KEY UPDATE"
# These lanes never have tasks: a worker must not take them.
_FREE_LANES = f"""
UPDATE lanes SET owner = NULL, wake_at = CASE WHEN {IS_WITHOUT_TASKS} THEN NULL ELSE $2::bigint END
WHERE owner = $1
"""


@dataclass(frozen=True, slots=True)
class Rescued:
    tasks: int
    whole: bool
    """True if nothing of the session is left."""


async def rescue_late(db: Db, catalog: Catalog) -> Rescued | None:
    """Rescue a page of the session that has been late for longest. Returns None if no session is late, or if another
    process is rescuing it."""
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
    effect = PendingWrites(await db.fetchval(f"SELECT {NOW}"), catalog.deltas())
    blamed = crashed and in_flight == 1 and all(r["begun"] for r in rows)
    given_up = blamed and all(is_given_up(r["crashes"], r["waiting_crashes"], waits=r["waits"]) for r in rows)
    dead = [r for r in rows if given_up and r["drain"] != CANCELLED]
    lost, letters = [r["task_id"] for r in rows], [r["task_id"] for r in dead]
    await keep_lost(db, catalog.with_attempts, lost, letters, effect.now, crashed=crashed)
    await _put_back(db, session, rows, dead, in_flight, effect, crashed=crashed, blamed=blamed)
    whole = len(rows) == in_flight
    if whole:
        await db.fetch(_LOCK_LANES, session, sorted({row["lane_id"] for row in rows}))
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
    effect: PendingWrites,
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
