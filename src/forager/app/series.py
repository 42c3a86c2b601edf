"""Figures over time, for charts: tasks, failures, cost, bytes, changes and growth per minute and per hour.

A loop adds what this process has counted since its last look, every few seconds, so the hot path pays nothing. Minutes
are kept for two days, hours for a year.
"""

import asyncio
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

import structlog

from forager.core.clock import Clock
from forager.core.database import Database
from forager.core.errors import StoreError
from forager.engine.work.stats import WorkStats

EVERY = 10.0
MINUTE, HOUR = 60, 3600
KEPT = {MINUTE: timedelta(days=2), HOUR: timedelta(days=400)}
FINE = timedelta(hours=24)
"""Ranges up to this are shown by the minute, or by groups of a few minutes."""
POINTS = 120
ADD = """
INSERT INTO series (step, at, pipeline, name, value) VALUES (:step, :at, :pipeline, :name, :value)
ON CONFLICT (step, at, pipeline, name) DO UPDATE SET value = series.value + excluded.value
"""
READ = "SELECT at, name, sum(value) AS value FROM series WHERE step = :step AND at >= :since GROUP BY at, name"
COUNTED_UP_TO = "SELECT value FROM series WHERE step = 0 AND at = 0 AND pipeline = '' AND name = :name"
"""Rows with the step 0 hold the totals of the whole store at the last count."""
FIRST = "INSERT INTO series (step, at, pipeline, name, value) VALUES (0, 0, '', :name, :now) ON CONFLICT DO NOTHING"
CLAIM = """
UPDATE series SET value = :now WHERE step = 0 AND at = 0 AND pipeline = '' AND name = :name AND value = :before
RETURNING value
"""
GROWN = "SELECT sum(value) AS value FROM series WHERE step = :step AND name = 'stored' AND at >= :since"
PRUNE = "DELETE FROM series WHERE step = :step AND at < :before"

log = structlog.get_logger("forager.series")


class Series:
    """Each process adds the figures of its own tasks. Changes and the size of the store belong to no process: the first
    process that checks them counts the difference to the last stored total, for all processes.

    `last_change` returns the number of the newest change, `size` the bytes of the store on disk.
    """

    def __init__(
        self,
        database: Database,
        clock: Clock,
        stats: WorkStats,
        pipeline_of: Mapping[str, str],
        last_change: Callable[[], Awaitable[int]],
        size: Callable[[], Awaitable[int]],
    ) -> None:
        self._database = database
        self._clock = clock
        self._stats = stats
        self._pipeline_of = pipeline_of
        self._last_change = last_change
        self._size = size
        self._counted: Counter[tuple[str, str]] = Counter()
        self._sized: int | None = None
        """The minute in which the store was last measured."""
        self._pruned: int | None = None
        """The hour in which old figures were last removed."""

    async def run(self) -> None:
        """Add figures until cancelled. A store that is away costs the figures of that time nothing: they are added
        together later."""
        while True:
            await self._clock.sleep(EVERY)
            try:
                await self.add()
            except StoreError as error:
                log.warning("series_not_written", error=str(error))

    async def add(self) -> None:
        """Write what was counted since the last call."""
        counted = self._count()
        fresh = counted - self._counted
        now = int(self._clock.now().timestamp())
        fresh["", "changes"] += max(0, await self._moved("changes", await self._last_change()))
        if now // MINUTE != self._sized:
            self._sized = now // MINUTE
            fresh["", "stored"] += await self._moved("stored", await self._size())
        for (pipeline, name), value in fresh.items():
            for step in (MINUTE, HOUR):
                values = {"step": step, "at": now - now % step, "pipeline": pipeline, "name": name, "value": value}
                if value:
                    await self._database.write(ADD, values)
        self._counted = counted
        if now // HOUR != self._pruned:
            self._pruned = now // HOUR
            for step, kept in KEPT.items():
                await self._database.write(PRUNE, {"step": step, "before": now - int(kept.total_seconds())})

    async def _moved(self, name: str, now: int) -> int:
        """Return by how much a total of the store has moved since any process last counted it. Of several processes
        that look at once, one gets the difference and the others 0."""
        rows = await self._database.fetch(COUNTED_UP_TO, {"name": name})
        if not rows:
            await self._database.write(FIRST, {"name": name, "now": now})
            return 0
        before = int(rows[0]["value"])
        claimed = before != now and await self._database.write(CLAIM, {"name": name, "before": before, "now": now})
        return now - before if claimed else 0

    async def grown(self, span: timedelta) -> int:
        """Return by how many bytes the store has grown in this time; less than 0 if it has shrunk."""
        now = int(self._clock.now().timestamp())
        step = MINUTE if span <= FINE else HOUR
        since = now - int(span.total_seconds())
        (row,) = await self._database.fetch(GROWN, {"step": step, "since": since})
        return int(row["value"] or 0)

    def _count(self) -> Counter[tuple[str, str]]:
        counted: Counter[tuple[str, str]] = Counter()
        for (kind, state), count in self._stats.by_kind.items():
            counted[self._pipeline_of.get(kind, kind), state.name.lower()] += count
        for kind, cost in self._stats.spent.items():
            counted[self._pipeline_of.get(kind, kind), "cost"] += cost
        counted["", "bytes"] += sum(lane.bytes for lane in self._stats.lanes.by_name.values())
        return counted

    async def read(self, span: timedelta) -> dict[str, Any]:
        """Return the figures of the last `span` in steps that fit a chart, oldest first. Steps without figures are
        zero."""
        fine = span <= FINE
        stored = MINUTE if fine else HOUR
        step = max(stored, int(span.total_seconds()) // POINTS // stored * stored)
        now = int(self._clock.now().timestamp())
        first = now - int(span.total_seconds()) - now % step
        found: defaultdict[str, Counter[int]] = defaultdict(Counter)
        for row in await self._database.fetch(READ, {"step": stored, "since": first}):
            found[row["name"]][(row["at"] - first) // step] += int(row["value"])
        count = (now - first) // step + 1
        per_minute = MINUTE / step
        lines = {
            name: [round(found[name][index] * per_minute, 2) for index in range(count)]
            for name in ("completed", "failed", "skipped", "cost", "bytes")
        }
        changes = [found["changes"][index] for index in range(count)]
        width = max(1, count // 12)
        return {
            "step_seconds": step,
            "times": [(first + index * step) * 1000 for index in range(count)],
            **lines,
            "changes": changes,
            "stored": [found["stored"][index] for index in range(count)],
            "changes_by_part": [sum(changes[at : at + width]) for at in range(0, count, width)],
        }


async def store_size(database: Database, home: Path) -> int:
    """Return the bytes of the store on disk: the files of SQLite, or what PostgreSQL reports of its database."""
    if database.dialect == "sqlite":
        return await asyncio.to_thread(lambda: sum(file.stat().st_size for file in home.glob("ledger.db*")))
    (row,) = await database.fetch("SELECT pg_database_size(current_database()) AS bytes", {})
    return int(row["bytes"])
