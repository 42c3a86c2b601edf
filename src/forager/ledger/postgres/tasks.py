"""Writes tasks: to `tasks` (identity and history) and to `queue` (open work only)."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from forager.core.errors import Conflict
from forager.core.states import TaskState
from forager.ledger.postgres.arrays import unless_all
from forager.ledger.postgres.connection import NOW, Db, TryAgain
from forager.ledger.postgres.flows import Flow
from forager.ledger.postgres.joining import Named, join_open
from forager.ledger.shared.counting import Deltas
from forager.ledger.shared.plan_encoding import Encoded

TaskName = tuple[int, str, str]
"""(job, kind, key)"""
WORTH_A_COPY = 200
OFFERED_MS = 60_000
"""How long an offered task is left to those who know its number (`offers.py`)."""
ENDED_BADLY = (TaskState.FAILED, TaskState.SKIPPED, TaskState.CANCELLED)


@dataclass(slots=True)
class Written:
    """The result of writing a group of plans. Tasks that existed already are not counted."""

    ready: set[Flow]
    count: dict[int, int]
    """By job."""
    due: dict[int, int]
    """When the first waiting task is due, by lane."""
    dead_ends: set[int]
    """Predecessors that have ended without being completed: their new followers will never be released."""
    joined: dict[int, int]
    """Number of tasks skipped because another one is open for their key, by job."""
    offered: Sequence[int] = ()
    """Tasks that are offered, and to be told."""

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
) -> Written:
    """Write the tasks that their jobs do not have yet. `one_open`: kinds of which one task is open for each key;
    `hasten` as for `join_open`. `offered`: kinds of which those are offered that could run at once.

    `known`: None, if anything may be there already; else every task of the job is new, except that a predecessor may
    be found under the numbers that `known` gives, or in the table. It is extended.
    """
    fresh = plans if known is not None else await not_there(db, plans)
    if not fresh:
        return Written(set(), {}, {}, set(), {})
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
    written = Written(ready, Counter(new.job_id), due, dead_ends | joined.keys(), Counter(joined.values()))
    if offered:
        await _offer(db, new, written, offered, joined.keys())
    return written


async def _offer(db: Db, new: _New, written: Written, kinds: Collection[str], joined: Collection[int]) -> None:
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


async def _join(db: Db, new: _New, one_open: Collection[str], *, hasten: bool) -> dict[int, int]:
    """Skip tasks whose key has an open task already. Returns their jobs by task."""
    names = [Named(*row) for row in zip(new.id, new.job_id, new.kind, new.key, strict=True)]
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
_NAMED = """
FROM unnest($1::bigint[], $2::text[], $3::text[]) AS x(job_id, kind, key)
JOIN tasks t ON t.job_id = x.job_id AND t.kind = x.kind AND t.key = x.key
"""
_EXISTING = f"SELECT t.job_id, t.kind, t.key {_NAMED}"
_PREDECESSORS = f"SELECT t.job_id, t.kind, t.key, t.id, t.state {_NAMED} ORDER BY t.id FOR NO KEY UPDATE OF t"
# In the order of names, so that two outcomes that add the same tasks cannot deadlock.
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
