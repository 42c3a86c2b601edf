"""Figures over time, for charts: tasks, failures, cost, bytes and changes per minute and per hour.

A loop adds what this process has counted since its last look, every few seconds, so the hot path pays nothing. Minutes
are kept for two days, hours for a year.
"""

from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Mapping
from datetime import timedelta
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
"""Ranges up to this are shown by the minute, or by a few minutes together."""
POINTS = 120
ADD = """
INSERT INTO series (step, at, pipeline, name, value) VALUES (:step, :at, :pipeline, :name, :value)
ON CONFLICT (step, at, pipeline, name) DO UPDATE SET value = series.value + excluded.value
"""
READ = "SELECT at, name, sum(value) AS value FROM series WHERE step = :step AND at >= :since GROUP BY at, name"
PRUNE = "DELETE FROM series WHERE step = :step AND at < :before"

log = structlog.get_logger("forager.series")


class Series:
    """`last_change` returns the number of the newest change: changes are counted by one process, the others skip."""

    def __init__(
        self,
        database: Database,
        clock: Clock,
        stats: WorkStats,
        pipeline_of: Mapping[str, str],
        last_change: Callable[[], Awaitable[int]],
    ) -> None:
        self._database = database
        self._clock = clock
        self._stats = stats
        self._pipeline_of = pipeline_of
        self._last_change = last_change
        self._counted: Counter[tuple[str, str]] = Counter()
        self._change: int | None = None
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
        last = await self._last_change()
        if self._change is not None and last > self._change:
            fresh["", "changes"] += last - self._change
        for (pipeline, name), value in fresh.items():
            for step in (MINUTE, HOUR):
                values = {"step": step, "at": now - now % step, "pipeline": pipeline, "name": name, "value": value}
                await self._database.write(ADD, values)
        self._counted, self._change = counted, last
        if now // HOUR != self._pruned:
            self._pruned = now // HOUR
            for step, kept in KEPT.items():
                await self._database.write(PRUNE, {"step": step, "before": now - int(kept.total_seconds())})

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
            "changes_by_part": [sum(changes[at : at + width]) for at in range(0, count, width)],
        }
