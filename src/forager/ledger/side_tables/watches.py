"""What is kept about watches: which are paused, what each has done, and how many of its records are due."""

from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from uuid import UUID

from forager.core.database import Database
from forager.core.names import no_such
from forager.core.pipeline import Pipeline
from forager.core.watch import Watch, WatchStatus
from forager.kit.queries import at

COUNTED_TO = 10_000
"""Due records are counted up to this number, so that a look at a watch costs little after a long outage."""

_KEPT = """
SELECT w.paused, w.dispatched, w.last_at, w.error, w.error_at, j.public_id AS job FROM (SELECT 1 AS one) o
LEFT JOIN watches w ON w.name = :name
LEFT JOIN idempotency i ON i.key = :key LEFT JOIN jobs j ON j.id = i.job_id
"""
_PAUSE = """
INSERT INTO watches (name, paused) VALUES (:name, :paused) ON CONFLICT (name) DO UPDATE SET paused = excluded.paused
"""


class WatchTable:
    """Implements `core.watch.Watches` for the watches that the pipelines declare."""

    def __init__(
        self, database: Database, pipelines: Sequence[Pipeline], now: Callable[[], Awaitable[datetime]]
    ) -> None:
        self._database = database
        self._watches = {watch.name: (pipeline.name, watch) for pipeline in pipelines for watch in pipeline.watches}
        self._now = now

    async def statuses(self) -> list[WatchStatus]:
        now = await self._ms()
        return [await self._status(pipeline, watch, now) for _, (pipeline, watch) in sorted(self._watches.items())]

    async def status(self, name: str) -> WatchStatus:
        """Return one watch. Raises `NotFound`."""
        pipeline, watch = self._known(name)
        return await self._status(pipeline, watch, await self._ms())

    async def pause(self, name: str, *, paused: bool) -> None:
        self._known(name)
        await self._database.write(_PAUSE, {"name": name, "paused": paused})

    async def _ms(self) -> int:
        return round((await self._now()).timestamp() * 1000)

    def _known(self, name: str) -> tuple[str, Watch]:
        known = self._watches.get(name)
        if known is None:
            raise no_such("watch", name, self._watches, "See `forager watches list`.")
        return known

    async def _status(self, pipeline: str, watch: Watch, now: int) -> WatchStatus:
        (kept,) = await self._database.fetch(_KEPT, {"name": watch.name, "key": watch.job_key})
        table, due = watch.record.table, watch.due
        past = f"FROM {table} WHERE {watch.condition} AND {due} <= :now"
        later = f"FROM {table} WHERE {watch.condition} AND {due} > :now"
        (counted,) = await self._database.fetch(
            f"SELECT count(*) AS due, min(w.due) AS oldest, (SELECT min({due}) {later}) AS next"
            f" FROM (SELECT {due} AS due {past} ORDER BY {due} LIMIT {COUNTED_TO}) w",
            {"now": now},
        )
        return WatchStatus(
            name=watch.name,
            pipeline=pipeline,
            record=watch.record.kind,
            due_field=due,
            paused=bool(kept["paused"]),
            due=counted["due"],
            oldest_due=at(counted["oldest"]),
            late=0.0 if counted["oldest"] is None else (now - counted["oldest"]) / 1000,
            next_due=at(counted["next"]),
            dispatched=kept["dispatched"] or 0,
            last_at=at(kept["last_at"]),
            error=kept["error"],
            error_at=at(kept["error_at"]),
            job=UUID(kept["job"]) if kept["job"] else None,
        )
