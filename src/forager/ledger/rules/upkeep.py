"""The rules of retention that both stores share: which rows are old enough to be removed.

Everything is removed page by page, each page in a transaction of its own, so that a kill leaves whole pages. Tables are
walked in the order of their numbers, which is the order of time: the walk ends at the first row that is too young.

A job disappears in one step: its row moves to `past_jobs`, which keeps its public id for its changes and records. The
tasks of a big job are removed after that step; `clearing` marks a job with tasks left, and no report shows tasks
without a job.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from forager.core.database import Database
from forager.core.errors import Conflict, Rejected
from forager.core.task import Task
from forager.core.upkeep import Keep, Pruned, RestoredJob, RestoredRecord, RestoredTask
from forager.ledger.catalog import Catalog
from forager.ledger.rules.jobs import FOR_EVER_MS
from forager.ledger.schema.record_tables import RecordTable

PAGE = 1_000
"""Rows that a transaction removes at most: a few milliseconds."""
LOOKED_AT = 5 * PAGE
"""Rows that one page reads to find those to remove."""
STANDING = f"SELECT job_id FROM idempotency WHERE expires_at > CAST(:now AS BIGINT) + {FOR_EVER_MS // 2}"
"""Selects the standing jobs, to which tasks are added for ever."""


@dataclass(frozen=True, slots=True)
class PageRemoved:
    """The rows that one page removed, and the start of the next page."""

    pruned: Pruned
    after: Any = None
    """None: the walk is at its end."""


@dataclass(frozen=True, slots=True)
class PruneLimits:
    """Up to where things are removed: by their time in milliseconds (exclusive), and by number in the log."""

    now: int
    jobs: int | None
    messages: int | None
    rejected: int | None
    attempts: int | None
    changes: int | None
    records: int | None
    passed: int
    """The last change that every sink has passed."""


RemovePage = Callable[[PruneLimits, Any], Awaitable[PageRemoved]]


class Retention:
    """Walks through everything that can be removed, page by page; the same for both stores."""

    def __init__(self, database: Database, catalog: Catalog, walks: Mapping[str, RemovePage]) -> None:
        """`walks`: by name, in their order. A walk is left out where `Limits` has None under its name."""
        self._database = database
        self._catalog = catalog
        self._walks = dict(walks)
        self._one_at_a_time = asyncio.Lock()
        self._left: list[str] = []
        self._after: Any = None

    async def page(self, keep: Keep, sinks: Collection[str], now: int) -> Pruned:
        """Remove one page of what is next. `more` is False when everything has been walked through once."""
        async with self._one_at_a_time:
            return await self._page(keep, sinks, now)

    async def _page(self, keep: Keep, sinks: Collection[str], now: int) -> Pruned:
        if not self._left:
            self._left = list(self._walks)
        limits = await self.limits(keep, sinks, now)
        while self._left:
            name = self._left[0]
            if getattr(limits, name, 0) is None:
                removed = PageRemoved(Pruned())
            else:
                removed = await self._walks[name](limits, self._after)
            self._after = removed.after
            if removed.after is None:
                del self._left[0]
            if removed.pruned.total or removed.after is not None:
                return removed.pruned + Pruned(more=bool(self._left))
        return Pruned()

    async def limits(self, keep: Keep, sinks: Collection[str], now: int) -> PruneLimits:
        def before(age: float | None) -> int | None:
            return None if age is None else now - round(age * 1000)

        passed, waiting = await self.undelivered_since(sinks, now)

        def delivered_before(age: float | None) -> int | None:
            limit = before(age)
            return None if limit is None else min(limit, waiting)

        return PruneLimits(
            now=now,
            # A sink may look up the job of a change, and the body of a record of job scope is read from its row.
            jobs=delivered_before(keep.jobs),
            records=delivered_before(keep.records),
            messages=before(keep.messages),
            rejected=before(keep.rejected),
            attempts=before(keep.attempts),
            changes=before(keep.changes),
            passed=passed,
        )

    async def undelivered_since(self, sinks: Collection[str], now: int) -> tuple[int, int]:
        """Return the last change that every sink has passed, and the time of the change after it (`now` if it is the
        last)."""
        passed = await self._passed(sinks)
        rows = await self._database.fetch("SELECT at FROM changes WHERE id > :id ORDER BY id LIMIT 1", {"id": passed})
        return passed, rows[0]["at"] if rows else now

    async def _passed(self, sinks: Collection[str]) -> int:
        """Counts every sink of the ledger, and every configured one that has not begun."""
        rows = await self._database.fetch("SELECT t.change, c.sink, c.position FROM tail t LEFT JOIN cursors c ON true")
        positions = {row["sink"]: row["position"] for row in rows if row["sink"] is not None}
        not_begun = (0 for sink in sinks if sink not in positions)
        return int(min([rows[0]["change"], *positions.values(), *not_begun]))

    async def prunable(self, keep: Keep, sinks: Collection[str], now: int) -> Pruned:
        """Count what `page` would remove if it were called to the end, without removing anything."""
        limits = await self.limits(keep, sinks, now)
        jobs = tasks = records = 0
        if limits.jobs is not None:
            old = await self._one(f"SELECT count(*) AS n, coalesce(sum(total), 0) AS tasks {_OLD_JOBS}", limits)
            jobs, tasks = int(old["n"]), int(old["tasks"])
        if limits.records is not None:
            for table in self._catalog.records.values():
                if table.per_job:
                    records += int((await self._one(_RECORDS.format(table=table.name), limits))["n"])
        return Pruned(
            jobs=jobs,
            tasks=tasks,
            messages=await self._count(_MESSAGES.format(jobs=self._internal()), limits, limits.messages),
            rejected=await self._count(_REJECTED, limits, limits.rejected),
            attempts=await self._count(_ATTEMPTS, limits, limits.attempts),
            changes=await self._count(_CHANGES, limits, limits.changes),
            records=records,
        )

    def _internal(self) -> str:
        return internal_jobs(self._catalog)

    async def _count(self, sql: str, limits: PruneLimits, limit: int | None) -> int:
        return 0 if limit is None else int((await self._one(sql, limits, limit))["n"])

    async def _one(self, sql: str, limits: PruneLimits, limit: int | None = None) -> Any:
        have = {"now": limits.now, "passed": limits.passed, "jobs": limits.jobs, "ended": limits.records}
        values = {name: value for name, value in {**have, "limit": limit}.items() if f":{name}" in sql}
        (row,) = await self._database.fetch(sql, values)
        return row


def choose_jobs(
    rows: Sequence[tuple[int, int, bool, int]], limits: PruneLimits
) -> tuple[list[tuple[int, int]], int | None]:
    """Choose the jobs that one page removes, each with its tasks, and the number after which the next page begins.

    `rows` are (job, tasks, whether it is old, created at) in the order of their numbers. A job that was created too
    late to be old ends the walk: so were all behind it.
    """
    going: list[tuple[int, int]] = []
    tasks = 0
    for number, total, is_old, created_at in rows:
        if limits.jobs is None or created_at >= limits.jobs:
            return going, None
        if not is_old:
            continue
        if going and tasks + total >= PAGE:
            return going, going[-1][0]
        going.append((number, total))
        tasks += total
    return going, rows[-1][0] if len(rows) == LOOKED_AT else None


def internal_jobs(catalog: Catalog) -> str:
    """Return a query for the jobs that Forager creates itself. Names of pipelines are our own, not a user's text."""
    names = ", ".join(f"'{pipeline.name}'" for pipeline in catalog.pipelines.values() if pipeline.internal)
    return f"SELECT id FROM jobs WHERE pipeline IN ({names or 'NULL'})"


_OLD_JOBS = f"FROM jobs WHERE finished_at < :jobs AND id NOT IN ({STANDING})"
_MESSAGES = """
SELECT count(*) AS n FROM tasks WHERE job_id IN ({jobs}) AND (state = 4 OR (state = 5 AND hidden)) AND ended_at < :limit
"""
_REJECTED = "SELECT count(*) AS n FROM rejected WHERE at < :limit"
_ATTEMPTS = "SELECT count(*) AS n FROM attempts WHERE started_at < :limit"
# The newest of each job stays, and what was set aside: a little less is removed than this.
_CHANGES = "SELECT count(*) AS n FROM changes WHERE id <= :passed AND at < :limit"
_RECORDS = """
SELECT count(*) AS n FROM {table} r JOIN past_jobs p ON p.id = r.job_id
WHERE p.finished_at < :ended AND r.first_seen_at < :ended
"""


# Rows of restored jobs, tasks and records, in the columns that both ledgers write. Pure.


COUNTERS = ("total", "queued", "completed", "failed", "skipped", "cancelled", "spent", "guessed", "records")
JOB_COLUMNS = (
    *("id", "public_id", "pipeline", "params", "estimate", "state", "reason", "drain", "schedule", "turn"),
    *("batch_size", "concurrency", "max_cost", "created_at", "started_at", "finished_at", *COUNTERS),
)
TASK_COLUMNS = (
    *("id", "job_id", "lane_id", "kind", "key", "state", "rank", "attempt", "claim", "claimed_at", "after", "followed"),
    *("price", "cost", "guessed", "hidden", "ended_at", "error", "reason", "error_type", "facts", "body"),
)
KEPT_COLUMNS = ("id", "job_id", "version", "first_seen_at", "last_seen_at", "times_seen")


def job_row(job: RestoredJob) -> tuple[Any, ...]:
    """Return the row of a job, in the order of `JOB_COLUMNS`."""
    counts = job.counts
    return (
        *(job.number, str(job.id), job.pipeline, _json(job.params), _json(job.estimate), job.state.value, job.reason),
        *(job.drain, job.schedule, job.turn, job.batch_size, job.concurrency, job.max_cost),
        *(job.created_at, job.started_at, job.finished_at, *(counts[name] for name in COUNTERS)),
    )


def lanes_of(catalog: Catalog, tasks: Iterable[RestoredTask]) -> dict[int, str]:
    """Map tasks to the names of their lanes. Raises `Rejected` for one that no pipeline can read."""
    lanes: dict[int, str] = {}
    for task in tasks:
        decoded = catalog.decode(task.kind, task.body)
        if not isinstance(decoded, Task):
            raise Rejected(f"The mirror has a task {task.key!r} that cannot be restored. {decoded.message}")
        lanes[task.number] = catalog.lane_of(decoded.lane())
    return lanes


def task_rows(job: RestoredJob, lanes: Mapping[int, int]) -> list[tuple[Any, ...]]:
    """Return the rows of a job's tasks, in the order of `TASK_COLUMNS`. `lanes`: the number of each task's lane."""
    followed = {task.after for task in job.tasks}
    return [
        (
            *(task.number, job.number, lanes[task.number], task.kind, task.key, int(task.state), task.rank),
            *(task.attempt, task.claim, task.claimed_at, task.after, task.number in followed),
            *(task.price, task.cost, task.guessed, task.hidden, task.ended_at, task.error, task.reason),
            *(task.error_type, _json(task.facts), task.body),
        )
        for task in job.tasks
    ]


def record_row(table: RecordTable, job: int, restored: RestoredRecord) -> tuple[Any, ...]:
    """Return the row of a record: `KEPT_COLUMNS`, then the fields of its table."""
    kept = (restored.number, job, restored.version, restored.first_seen_at, restored.last_seen_at, restored.times_seen)
    return (*kept, *table.values(restored.record))


def number_is_taken(job: RestoredJob) -> Conflict:
    return Conflict(
        f"The ledger has another job with the number {job.number} of job {job.id}. Restore into an empty ledger."
    )


def _json(value: Mapping[str, Any] | None) -> str | None:
    return None if value is None else orjson.dumps(value).decode()
