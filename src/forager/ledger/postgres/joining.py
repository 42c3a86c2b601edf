"""At most one open task per key, over all jobs, for kinds that declare it: a second one is skipped and names the
first.

A first task that only waits for its own time (`Plan.due`) becomes due with a second one that was submitted, if that is
sooner. A watch, a child task or a retry leaves it as it is: it must not use up the time that a person chose.

The row of a key decides which transaction is first: the second one waits here for the first one's commit.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from forager.core.reasons import Reason
from forager.ledger.postgres.connection import Db, pairs
from forager.ledger.shared.joining import joined


class Named(NamedTuple):
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
    db: Db, one_open: Collection[str], tasks: Sequence[Named], now: int, *, hasten: bool = False
) -> set[int]:
    """Skip the tasks whose key has an open task already, and return their numbers. The jobs' counters are not changed.

    `hasten`: the tasks were submitted, so that an open task which waits for its own time becomes due when the new one
    would have been, if that is sooner.
    """
    new = [task for task in tasks if task.kind in one_open]
    if not new:
        return set()
    first: dict[tuple[str, str], Named] = {}
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


async def _holders(db: Db, tasks: Sequence[Named]) -> Mapping[tuple[str, str], tuple[int, int]]:
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
