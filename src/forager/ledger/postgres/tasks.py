"""Writes tasks: to `tasks` (identity and history) and to `queue` (open work only)."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from forager.core.errors import Conflict
from forager.core.states import Reason, TaskState
from forager.ledger.postgres.connection import NOW, Db, TryAgain, pairs, unless_all
from forager.ledger.postgres.lanes import Flow
from forager.ledger.rules.changes import Deltas
from forager.ledger.rules.jobs import Encoded, joined

# At most one open task per key, over all jobs, for kinds that declare it: a second one is skipped and names the first.
#
# A first task that only waits for its own time (`Plan.due`) becomes due with a second one that was submitted, if that
# is sooner. A recheck, a child task or a retry leaves it as it is: it must not use up the time that a person chose.
#
# The row of a key decides which transaction is first: the second one waits here for the first one's commit.


class JustQueued(NamedTuple):
    """A task that was just queued."""

    task: int
    job: int
    kind: str
    key: str


# In the order of names, so that two transactions cannot deadlock. DO UPDATE although nothing changes, to lock the row.
_LOCK = """
INSERT INTO open_keys (kind, key, task_id)
SELECT x.kind, x.key, x.id FROM unnest($1::text[], $2::text[], $3::bigint[]) AS x(kind, key, id) ORDER BY x.kind, x.key
ON CONFLICT (kind, key) DO UPDATE SET task_id = open_keys.task_id RETURNING kind, key, task_id
"""
# A new statement sees what was committed while this one waited for the rows.
_OPEN = "SELECT id, job_id FROM tasks WHERE id = ANY($1::bigint[]) AND state NOT IN (4, 5, 6, 7)"
_TAKE = """
UPDATE open_keys k SET task_id = x.id FROM unnest($1::text[], $2::text[], $3::bigint[]) AS x(kind, key, id)
WHERE k.kind = x.kind AND k.key = x.key
"""
_END = """
WITH q AS (DELETE FROM queue USING unnest($1::bigint[]) AS x(id) WHERE queue.task_id = x.id)
UPDATE tasks t SET state = 6, reason = $4, error = x.error, error_type = NULL, facts = x.facts::json, ended_at = $5
FROM unnest($1::bigint[], $2::text[], $3::text[]) AS x(id, error, facts) WHERE t.id = x.id
"""
# Only a task that waits for its own time. A retry or a snooze keeps its delay. The lane is woken for the new task. One
# behind a predecessor (state 2) has no time of its own yet, so it makes nothing due.
_HASTEN = """
UPDATE queue q SET due = coalesce(n.due, $3)
FROM unnest($1::bigint[], $2::bigint[]) AS x(new, first)
JOIN queue n ON n.task_id = x.new JOIN tasks t ON t.id = x.first
WHERE q.task_id = x.first AND q.state = 1 AND q.attempt = 0 AND NOT q.offered AND t.reason IS NULL
  AND n.state IN (0, 1) AND q.due > coalesce(n.due, $3)
"""


async def join_open(
    db: Db, one_open: Collection[str], tasks: Sequence[JustQueued], now: int, *, hasten: bool = False
) -> set[int]:
    """Skip the tasks whose key has an open task already, and return their numbers. The jobs' counters are not changed.

    `hasten`: the tasks were submitted by a job. An open task that waits for its due time then becomes due when the new
    task would have been, if that is sooner.
    """
    new = [task for task in tasks if task.kind in one_open]
    if not new:
        return set()
    first: dict[tuple[str, str], JustQueued] = {}
    for task in new:
        first.setdefault((task.kind, task.key), task)
    holders = await _holders(db, list(first.values()))
    joins: dict[int, tuple[int, int]] = {}
    for task in new:
        job, number = holders.get((task.kind, task.key), first[task.kind, task.key][1::-1])
        if number != task.task:
            joins[task.task] = (job, number)
    if joins:
        messages = [joined(*of) for of in joins.values()]
        columns = [error for error, _ in messages], [facts for _, facts in messages]
        if hasten:
            await db.execute(_HASTEN, list(joins), [first for _, first in joins.values()], now)
        await db.execute(_END, list(joins), *columns, Reason.JOINED, now)
    return set(joins)


async def _holders(db: Db, tasks: Sequence[JustQueued]) -> Mapping[tuple[str, str], tuple[int, int]]:
    """Return the open task (job and number) of each name that has one. Names without an open task now belong to these
    tasks."""
    kinds, keys = [task.kind for task in tasks], [task.key for task in tasks]
    rows = await db.fetch(_LOCK, kinds, keys, [task.task for task in tasks])
    known = {(kind, key): number for kind, key, number in rows}
    open_: dict[int, int] = pairs(await db.fetch(_OPEN, [known[task.kind, task.key] for task in tasks]))
    own = {task.task for task in tasks}
    holders = {name: (open_[number], number) for name, number in known.items() if number in open_ and number not in own}
    mine = [task for task in tasks if (task.kind, task.key) not in holders]
    await db.execute(_TAKE, [t.kind for t in mine], [t.key for t in mine], [t.task for t in mine])
    return holders


TaskName = tuple[int, str, str]
"""(job, kind, key)"""
WORTH_A_COPY = 200
OFFERED_MS = 60_000
"""Milliseconds for which only a claim by number takes an offered task."""
ENDED_BADLY = (TaskState.FAILED, TaskState.SKIPPED, TaskState.CANCELLED)


@dataclass(slots=True)
class TasksWritten:
    """The result of writing a group of plans. Tasks that existed already are not counted."""

    ready: set[Flow]
    count: dict[int, int]
    """New tasks by job."""
    due: dict[int, int]
    """The earliest due time of waiting tasks, by lane."""
    dead_ends: set[int]
    """Predecessors that have ended without being completed: their new followers will never be released."""
    joined: dict[int, int]
    """Number of tasks skipped because another one is open for their key, by job."""
    offered: Sequence[int] = ()
    """Tasks that are offered; consumers must be notified."""

    def count_in(self, deltas: Deltas) -> None:
        for job, count in self.count.items():
            joined = self.joined.get(job, 0)
            deltas.add(job, total=count, queued=count - joined, skipped=joined)


class _New(NamedTuple):
    """New rows of `tasks`, column by column: the fastest way to build them, and the form that both ways of writing
    need."""

    id: Sequence[int]
    job_id: Sequence[int]
    lane_id: Sequence[int]
    kind: Sequence[str]
    key: Sequence[str]
    state: Sequence[int]
    rank: Sequence[int]
    after: Sequence[int | None]
    followed: Sequence[bool]
    price: Sequence[int]
    body: Sequence[bytes]
    due: Sequence[int | None]
    retries: Sequence[int | None]


async def insert_tasks(
    db: Db,
    plans: Sequence[tuple[int, Encoded]],
    lanes: Mapping[str, int],
    known: dict[TaskName, int] | None = None,
    *,
    one_open: Collection[str] = (),
    offered: Collection[str] = (),
    hasten: bool = False,
) -> TasksWritten:
    """Insert the tasks that their jobs do not have yet. `one_open`: kinds with one open task per key; `hasten` as for
    `join_open`. `offered`: kinds whose ready tasks are offered.

    `known`: None if any task may exist already. Otherwise every task of the job is new; a predecessor is looked up in
    `known`, then in the table. `known` is extended.
    """
    fresh = plans if known is not None else await not_there(db, plans)
    if not fresh:
        return TasksWritten(set(), {}, {}, set(), {})
    numbers = await _numbers(db, len(fresh))
    given = {} if known is None else known
    given.update({(job, p.kind, p.key): n for n, (job, p) in zip(numbers, fresh, strict=True)})
    before = await predecessors(db, fresh, given)
    new = _columns_of(numbers, fresh, lanes, _held(numbers, fresh, given, before))
    due = await _hold_until_due(db, new) if any(new.due) else {}
    await (_copy if known is not None and len(fresh) > WORTH_A_COPY else _insert)(db, new)
    flows = set(zip(new.lane_id, new.job_id, new.state, strict=True))
    ready = {(lane, job) for lane, job, state in flows if state == TaskState.READY}
    dead_ends = {number for number, state in before.values() if state in ENDED_BADLY}
    joined = await _join(db, new, one_open, hasten=hasten) if one_open else {}
    written = TasksWritten(ready, Counter(new.job_id), due, dead_ends | joined.keys(), Counter(joined.values()))
    if offered:
        await _offer(db, new, written, offered, joined.keys())
    return written


async def _offer(db: Db, new: _New, written: TasksWritten, kinds: Collection[str], joined: Collection[int]) -> None:
    """Offer those of the new tasks that are ready, and note that they wait.

    The lane of a joined task stays among the ready ones: the task that it joined may have become due with it.
    """
    rows = zip(new.id, new.lane_id, new.job_id, new.kind, new.state, strict=True)
    ready = [row for row in rows if row[4] == TaskState.READY]
    written.offered = [row[0] for row in ready if row[3] in kinds and row[0] not in joined]
    if written.offered:
        offered = set(written.offered)
        written.ready = {(lane, job) for number, lane, job, _, _ in ready if number not in offered}
        for lane, due in await db.fetch(_OFFER, written.offered, OFFERED_MS):
            written.due[lane] = min(due, written.due.get(lane, due))


async def offer(db: Db, tasks: Sequence[int]) -> tuple[list[int], dict[int, int]]:
    """Offer those of these tasks that are still ready. Returns them, and when the first of each lane is due."""
    due: dict[int, int] = {}
    rows = await db.fetch(_OFFER_READY, sorted(tasks), OFFERED_MS) if tasks else []
    for _, lane, moment in rows:
        due[lane] = min(moment, due.get(lane, moment))
    return [row[0] for row in rows], due


async def _join(db: Db, new: _New, one_open: Collection[str], *, hasten: bool) -> dict[int, int]:
    """Skip tasks whose key has an open task already. Returns their jobs by task."""
    names = [JustQueued(*row) for row in zip(new.id, new.job_id, new.kind, new.key, strict=True)]
    if not any(name.kind in one_open for name in names):
        return {}
    skipped = await join_open(db, one_open, names, await db.fetchval(f"SELECT {NOW}"), hasten=hasten)
    return {name.task: name.job for name in names if name.task in skipped}


def _held(
    numbers: Sequence[int],
    plans: Sequence[tuple[int, Encoded]],
    given: Mapping[TaskName, int],
    before: Mapping[TaskName, tuple[int, int]],
) -> dict[int, tuple[int, int]]:
    """Return the predecessor and the initial state of each task that has a predecessor."""
    held: dict[int, tuple[int, int]] = {}
    for number, (job, plan) in zip(numbers, plans, strict=True):
        if plan.after is None:
            continue
        name = (job, plan.kind, plan.after)
        if name in given:
            held[number] = (given[name], TaskState.HELD)
        else:
            after, ended = before[name]
            held[number] = (after, TaskState.READY if ended == TaskState.COMPLETED else TaskState.HELD)
    return held


def _columns_of(
    numbers: Sequence[int],
    plans: Sequence[tuple[int, Encoded]],
    lanes: Mapping[str, int],
    held: Mapping[int, tuple[int, int]],
) -> _New:
    jobs, encoded = zip(*plans, strict=True)
    kinds, keys, names, ranks, _, prices, bodies, dues, retries = zip(*encoded, strict=True)
    followed = {after for after, _ in held.values()}
    free = (None, int(TaskState.READY))
    after, states = zip(*([held.get(n, free) for n in numbers] if held else [free] * len(numbers)), strict=True)
    return _New(
        numbers,
        jobs,
        [lanes[name] for name in names],
        kinds,
        keys,
        list(states),
        ranks,
        after,
        [number in followed for number in numbers],
        prices,
        bodies,
        dues,
        retries,
    )


async def _hold_until_due(db: Db, new: _New) -> dict[int, int]:
    """Let tasks with a future due time wait for it. Returns the first due time by lane."""
    now = await db.fetchval(f"SELECT {NOW}")
    first: dict[int, int] = {}
    states: list[int] = new.state  # type: ignore[assignment]  # made as a list
    for place, (lane, state, due) in enumerate(zip(new.lane_id, states, new.due, strict=True)):
        if due is not None and due > now and state == TaskState.READY:
            states[place] = TaskState.WAITING
            first[lane] = min(due, first.get(lane, due))
    return first


async def _numbers(db: Db, count: int) -> list[int]:
    """Draw task numbers from the sequence, in ascending order, so that the order of planning is kept."""
    numbers: list[int] = await db.fetchval(
        "SELECT array(SELECT nextval('tasks_id_seq') FROM generate_series(1, $1::int))", count
    )
    return numbers


async def not_there(db: Db, plans: Sequence[tuple[int, Encoded]]) -> list[tuple[int, Encoded]]:
    """Return the plans that their jobs do not have, by kind and key: one search of the unique index for each."""
    rows = await db.fetch(_EXISTING, *_columns([(job, p.kind, p.key) for job, p in plans]))
    there = {(job, kind, key) for job, kind, key in rows}
    return [(job, p) for job, p in plans if (job, p.kind, p.key) not in there]


async def predecessors(
    db: Db, fresh: Sequence[tuple[int, Encoded]], given: Mapping[TaskName, int]
) -> dict[TaskName, tuple[int, int]]:
    """Lock and return existing predecessors (number and state). The lock ensures that none of them can end without
    noticing its new follower."""
    names = sorted({(job, p.kind, p.after) for job, p in fresh if p.after is not None} - given.keys())
    if not names:
        return {}
    rows = await db.fetch(_PREDECESSORS, *_columns(names))
    known = {(job, kind, key): (number, state) for job, kind, key, number, state in rows}
    for _, kind, key in (name for name in names if name not in known):
        raise Conflict(
            f"A task of kind {kind!r} comes after {key!r}, which its job does not have. Plan that one first."
        )
    await db.execute(
        "UPDATE tasks SET followed = true WHERE id = ANY($1::bigint[]) AND NOT followed",
        sorted(number for number, _ in known.values()),
    )
    return known


async def _copy(db: Db, new: _New) -> None:
    """Insert tasks with COPY, the fastest way. Only for tasks that cannot exist already."""
    columns = new._asdict()
    for name in ("due", "retries"):
        if columns[name].count(None) == len(new.id):
            del columns[name]  # columns that most tasks leave empty are omitted
    await db.copy_records_to_table("tasks", columns=tuple(columns), records=zip(*columns.values(), strict=True))
    queued: dict[str, Sequence[int | None]] = {}
    queued |= {"task_id": new.id, "lane_id": new.lane_id, "job_id": new.job_id, "rank": new.rank, "state": new.state}
    if "due" in columns:
        queued["due"] = _moments(new)
    await db.copy_records_to_table("queue", columns=tuple(queued), records=zip(*queued.values(), strict=True))


async def _insert(db: Db, new: _New) -> None:
    columns = [*new[:-2], unless_all(None, new.due), unless_all(None, new.retries)]
    if await db.fetchval(_INSERT, *columns) != len(new.id):
        raise TryAgain("another outcome added the same tasks")


def _moments(new: _New) -> list[int | None]:
    """Return the due times for the queue; those of ready tasks have passed."""
    return [None if state == TaskState.READY else due for state, due in zip(new.state, new.due, strict=True)]


def _columns(names: Sequence[TaskName]) -> tuple[list[int], list[str], list[str]]:
    return [n[0] for n in names], [n[1] for n in names], [n[2] for n in names]


_OFFER = f"""
UPDATE queue q SET state = 1, due = {NOW} + $2, offered = true WHERE q.task_id = ANY($1::bigint[])
RETURNING q.lane_id, q.due
"""
# Rows that another transaction has locked are being leased or ended by it.
_OFFER_READY = f"""
UPDATE queue q SET state = 1, due = {NOW} + $2, offered = true WHERE q.task_id = ANY(ARRAY(
  SELECT w.task_id FROM queue w WHERE w.task_id = ANY($1::bigint[]) AND w.state = 0 ORDER BY w.task_id
  FOR UPDATE SKIP LOCKED))
RETURNING q.task_id, q.lane_id, q.due
"""
_NAMED = """
FROM unnest($1::bigint[], $2::text[], $3::text[]) AS x(job_id, kind, key)
JOIN tasks t ON t.job_id = x.job_id AND t.kind = x.kind AND t.key = x.key
"""
_EXISTING = f"SELECT t.job_id, t.kind, t.key {_NAMED}"
_PREDECESSORS = f"SELECT t.job_id, t.kind, t.key, t.id, t.state {_NAMED} ORDER BY t.id FOR NO KEY UPDATE OF t"
# Sorted by name, so that two outcomes with the same new tasks cannot deadlock.
_INSERT = """
WITH t AS (
  INSERT INTO tasks (id, job_id, lane_id, kind, key, state, rank, "after", followed, price, body, due, retries)
  SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::text[], $5::text[], $6::smallint[], $7::int[],
                       $8::bigint[], $9::bool[], $10::int[], $11::bytea[], $12::bigint[], $13::smallint[])
    AS x(id, job_id, lane_id, kind, key, state, rank, "after", followed, price, body, due, retries)
  ORDER BY job_id, kind, key
  ON CONFLICT (job_id, kind, key) DO NOTHING RETURNING id, lane_id, job_id, rank, state, due),
q AS (INSERT INTO queue (task_id, lane_id, job_id, rank, state, due)
  SELECT id, lane_id, job_id, rank, state, CASE WHEN state <> 0 THEN due END FROM t)
SELECT count(*) FROM t
"""


# Followers: tasks that come after others. They are released when their predecessor is completed, and skipped, with
# their own followers, if it is not.


# A row of the queue is locked before the row of its task, as a settlement and the end of a cancelled job do.
_HELD = """
SELECT q.task_id FROM tasks t JOIN queue q ON q.task_id = t.id
WHERE t.state = 2 AND t."after" = ANY($1::bigint[]) ORDER BY q.task_id FOR UPDATE OF q
"""
_RELEASE = f"""
WITH q AS (UPDATE queue q SET state = CASE WHEN q.due > $2 THEN 1 ELSE 0 END, due = CASE WHEN q.due > $2 THEN q.due END
           WHERE q.task_id = ANY(ARRAY({_HELD})) AND q.state = 2 RETURNING q.task_id, q.lane_id, q.job_id, q.due),
t AS (UPDATE tasks t SET state = 0 FROM q WHERE t.id = q.task_id)
SELECT lane_id, job_id, due FROM q
"""
_SKIP_FOLLOWERS = f"""
WITH q AS (DELETE FROM queue q WHERE q.task_id = ANY(ARRAY({_HELD})) AND q.state = 2 RETURNING q.task_id)
UPDATE tasks t SET state = 6, error = $2, reason = $4, error_type = NULL, ended_at = $3 FROM q WHERE t.id = q.task_id
RETURNING t.id, t.job_id, t.followed
"""
# Only queued tasks: one that another session is leasing at this moment is left to it.
_SKIP = """
WITH q AS (DELETE FROM queue WHERE task_id = ANY(ARRAY(
    SELECT q.task_id FROM unnest($1::bigint[], $2::text[], $3::text[]) AS x(job_id, kind, key)
    JOIN tasks t ON t.job_id = x.job_id AND t.kind = x.kind AND t.key = x.key
    JOIN queue q ON q.task_id = t.id WHERE q.state <> 3 ORDER BY q.task_id FOR UPDATE OF q))
  AND state <> 3 RETURNING task_id, attempt)
UPDATE tasks t SET state = 6, error = $4, reason = $6, error_type = NULL, ended_at = $5,
  attempt = q.attempt FROM q WHERE t.id = q.task_id
RETURNING t.id, t.job_id, t.followed
"""


async def release_followers(db: Db, tasks: Sequence[int], now: int) -> tuple[set[Flow], dict[int, int]]:
    """Release followers. Returns the flows with ready work, and by lane when the first of the others is due."""
    ready: set[Flow] = set()
    first_due: dict[int, int] = {}
    for lane, job, due in await db.fetch(_RELEASE, sorted(tasks), now):
        if due is None:
            ready.add((lane, job))
        else:
            first_due[lane] = min(due, first_due.get(lane, due))
    return ready, first_due


async def skip_tasks(db: Db, names: Sequence[TaskName], reason: str, message: str, deltas: Deltas, now: int) -> None:
    """Skip queued tasks and their followers. `message` is their error message."""
    columns = [n[0] for n in names], [n[1] for n in names], [n[2] for n in names]
    rows = await db.fetch(_SKIP, *columns, message, now, reason)
    for row in rows:
        deltas.add(row[1], queued=-1, skipped=1)
    followers = await skip_followers(db, [row[0] for row in rows if row[2]], reason, deltas, now, message=message)
    deltas.note([*(row[0] for row in rows), *followers], TaskState.SKIPPED)


async def skip_followers(
    db: Db, tasks: Sequence[int], reason: str, deltas: Deltas, now: int, *, message: str | None = None
) -> list[int]:
    """Skip the followers of tasks that were not completed, and their followers: nothing would ever release them.

    `message` is their error message; without it, the reason. Returns the tasks that were skipped.
    """
    ended, skipped = list(tasks), list[int]()
    while ended:
        rows = await db.fetch(_SKIP_FOLLOWERS, ended, message or reason, now, reason)
        for row in rows:
            deltas.add(row[1], queued=-1, skipped=1)
        skipped.extend(row[0] for row in rows)
        ended = [row[0] for row in rows if row[2]]
    return skipped
