"""Operations on jobs and dead letters: pause, resume, cancel and its drain, retry, discard."""

from collections.abc import Collection, Mapping, Sequence
from uuid import UUID

from forager.core.errors import Conflict, NotFound
from forager.core.ids import task_numbers
from forager.core.states import AFTER_FAILED, CANCELLED, JobState, TaskState
from forager.ledger.catalog import Catalog
from forager.ledger.postgres.aftermath import after_ends, close
from forager.ledger.postgres.changes import job_says, write_changes
from forager.ledger.postgres.connection import NOW, Db
from forager.ledger.postgres.counters import lock_jobs, write_counters
from forager.ledger.postgres.flows import add_flows, pause_flows
from forager.ledger.postgres.followers import skip_followers
from forager.ledger.postgres.joining import Named, join_open
from forager.ledger.postgres.lanes import wake
from forager.ledger.postgres.listen import tell
from forager.ledger.postgres.submit import write_secrets
from forager.ledger.postgres.tells import told_changes
from forager.ledger.shared.changelog import note, then
from forager.ledger.shared.counting import Deltas
from forager.ledger.shared.refusals import has_ended, no_dead_letter, was_cancelled


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
    await write_changes(db, [await job_says(db, number, "paused", more)], now)


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


async def resume(db: Db, job: UUID) -> None:
    number, state, drain = await _job(db, job)
    if _is_running_already(job, state, drain):
        return
    lanes = await pause_flows(db, [number], paused=False)
    suspects = await db.fetch(
        "SELECT DISTINCT l.id FROM lanes l JOIN queue q ON q.lane_id = l.id AND q.state = 8 WHERE q.job_id = $1", number
    )
    now = await _now(db)
    await wake(db, dict.fromkeys([*lanes, *(row[0] for row in suspects)], now))
    await lock_jobs(db, [number])
    _, state, drain = await _job(db, job)
    if _is_running_already(job, state, drain):
        return
    await db.execute(
        "UPDATE jobs SET state = CASE WHEN started_at IS NULL THEN 'queued' ELSE 'running' END, reason = NULL"
        " WHERE id = $1",
        number,
    )
    await tell(db)
    await write_changes(db, [await job_says(db, number, "resumed")], now)


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


async def _queue_again(db: Db, catalog: Catalog, public_id: UUID, job: int, failed: Sequence[int]) -> int:
    _, state, drain = await _job(db, public_id)
    if CANCELLED in (state, drain):
        raise was_cancelled(public_id)
    mine = [row[0] for row in await db.fetch(_AGAIN, sorted(failed), 5, 0)]
    if not mine:
        return 0
    followers = [row[0] for row in await db.fetch(_AGAIN, await _followers(db, job, mine), 6, 2)]
    lanes = await db.fetch("SELECT DISTINCT lane_id FROM tasks WHERE id = ANY($1::bigint[])", mine)
    now = await _now(db)
    count = len(mine) + len(followers)
    deltas = catalog.deltas()
    deltas.add(job, queued=count, failed=-len(mine), skipped=-len(followers))
    deltas.note_back(mine, TaskState.FAILED)
    deltas.note_back(followers, TaskState.SKIPPED)
    count -= await _join(db, job, [*mine, *followers], catalog.one_open, deltas, now)
    await add_flows(db, [(row[0], job) for row in lanes])
    await wake(db, {row[0]: now for row in lanes})
    # Lock all flows of the job before its row, as `settle_and_lease` does: the opposite order would deadlock.
    await db.fetch("SELECT 1 FROM flows WHERE job_id = $1 ORDER BY lane_id FOR UPDATE", job)
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
    await db.execute("UPDATE flows SET paused = $2 WHERE job_id = $1", job, resumed == JobState.PAUSED)
    told = await told_changes(db, catalog, deltas)
    change = await job_says(db, job, "retried")
    await write_changes(db, [*told, *then(change, await write_counters(db, deltas, now))], now)
    return count


async def _join(db: Db, job: int, tasks: Sequence[int], one_open: Collection[str], deltas: Deltas, now: int) -> int:
    """Skip those whose key another task has taken meanwhile. Returns how many."""
    if not one_open:
        return 0
    rows = await db.fetch("SELECT id, job_id, kind, key FROM tasks WHERE id = ANY($1::bigint[])", list(tasks))
    joined = await join_open(db, one_open, [Named(*row) for row in rows], now)
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
