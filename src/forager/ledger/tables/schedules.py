"""Schedules in the ledger: one row for each, on either database. Never on a hot path."""

from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from uuid import UUID

import orjson

from forager.core.database import Database, Row
from forager.core.ids import no_such
from forager.core.pipeline import Pipeline
from forager.core.recheck import Recheck, RecheckStatus
from forager.core.schedules import Schedule
from forager.sdk.queries import at, loads

_SET = ("pipeline", "params", "cron", "timezone", "every", "paused", "next_at")


class ScheduleTable:
    """Implements `core.schedules.Schedules`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def put(self, schedule: Schedule, *, replace: bool = True) -> bool:
        otherwise = f"UPDATE SET {', '.join(f'{name} = excluded.{name}' for name in _SET)}" if replace else "NOTHING"
        rows = await self._database.write(
            f"INSERT INTO schedules (name, {', '.join(_SET)}) VALUES (:name, {', '.join(f':{name}' for name in _SET)})"
            f" ON CONFLICT (name) DO {otherwise} RETURNING name",
            {
                "name": schedule.name,
                "pipeline": schedule.pipeline,
                "params": orjson.dumps(schedule.params, default=str).decode(),
                "cron": schedule.cron,
                "timezone": schedule.timezone,
                "every": schedule.every,
                "paused": schedule.paused,
                "next_at": schedule.next_at,
            },
        )
        return bool(rows)

    async def all(self) -> Sequence[Schedule]:
        rows = await self._database.fetch(
            "SELECT name, pipeline, params, cron, timezone, every, paused, next_at, last_at, last_job, last_error"
            " FROM schedules ORDER BY name"
        )
        return [_schedule(row) for row in rows]

    async def remove(self, name: str) -> None:
        await self._expect(
            name, await self._database.write("DELETE FROM schedules WHERE name = :name RETURNING name", {"name": name})
        )

    async def pause(self, name: str, *, paused: bool, next_at: int | None = None) -> None:
        """Pause, or resume with the next run: runs that were missed while paused are not caught up."""
        rows = await self._database.write(
            "UPDATE schedules SET paused = :paused, next_at = coalesce(:next_at, next_at)"
            " WHERE name = :name RETURNING name",
            {"name": name, "paused": paused, "next_at": next_at},
        )
        await self._expect(name, rows)

    async def fired(
        self, name: str, *, at: int, next_at: int | None, job: UUID | None, error: str | None, expected: int | None
    ) -> bool:
        rows = await self._database.write(
            "UPDATE schedules SET last_at = :at, next_at = :next_at, last_job = coalesce(:job, last_job),"
            " last_error = :error"
            " WHERE name = :name AND coalesce(next_at, -1) = coalesce(CAST(:expected AS BIGINT), -1) RETURNING name",
            {
                "name": name,
                "at": at,
                "next_at": next_at,
                "job": None if job is None else str(job),
                "error": error,
                "expected": expected,
            },
        )
        return bool(rows)

    async def _expect(self, name: str, rows: Sequence[Row]) -> None:
        if not rows:
            known = [each.name for each in await self.all()]
            raise no_such("schedule", name, known, "See `forager schedules list`.")


def _schedule(row: Row) -> Schedule:
    last_job = row["last_job"]
    return Schedule(
        **{
            **row,
            "params": loads(row["params"]),
            "paused": bool(row["paused"]),
            "last_job": UUID(last_job) if last_job else None,
        }
    )


# The state of rechecks: which are paused, their results, and the number of records that are due.


COUNTED_TO = 10_000
"""Due records are counted up to this number, so that a look at a recheck costs little after a long outage."""

_KEPT = """
SELECT w.paused, w.dispatched, w.last_at, w.error, w.error_at, j.public_id AS job FROM (SELECT 1 AS one) o
LEFT JOIN rechecks w ON w.name = :name
LEFT JOIN idempotency i ON i.key = :key LEFT JOIN jobs j ON j.id = i.job_id
"""
_PAUSE = """
INSERT INTO rechecks (name, paused) VALUES (:name, :paused) ON CONFLICT (name) DO UPDATE SET paused = excluded.paused
"""


class RecheckTable:
    """Implements `core.recheck.Rechecks` for the rechecks that the pipelines declare."""

    def __init__(
        self, database: Database, pipelines: Sequence[Pipeline], now: Callable[[], Awaitable[datetime]]
    ) -> None:
        self._database = database
        self._rechecks = {
            recheck.name: (pipeline.name, recheck) for pipeline in pipelines for recheck in pipeline.rechecks
        }
        self._now = now

    async def statuses(self) -> list[RecheckStatus]:
        now = await self._ms()
        return [await self._status(pipeline, recheck, now) for _, (pipeline, recheck) in sorted(self._rechecks.items())]

    async def status(self, name: str) -> RecheckStatus:
        """Return one recheck. Raises `NotFound`."""
        pipeline, recheck = self._known(name)
        return await self._status(pipeline, recheck, await self._ms())

    async def pause(self, name: str, *, paused: bool) -> None:
        self._known(name)
        await self._database.write(_PAUSE, {"name": name, "paused": paused})

    async def _ms(self) -> int:
        return round((await self._now()).timestamp() * 1000)

    def _known(self, name: str) -> tuple[str, Recheck]:
        known = self._rechecks.get(name)
        if known is None:
            raise no_such("recheck", name, self._rechecks, "See `forager rechecks list`.")
        return known

    async def _status(self, pipeline: str, recheck: Recheck, now: int) -> RecheckStatus:
        (kept,) = await self._database.fetch(_KEPT, {"name": recheck.name, "key": recheck.job_key})
        table, due = recheck.record.table, recheck.due
        past = f"FROM {table} WHERE {recheck.condition} AND {due} <= :now"
        later = f"FROM {table} WHERE {recheck.condition} AND {due} > :now"
        (counted,) = await self._database.fetch(
            f"SELECT count(*) AS due, min(w.due) AS oldest, (SELECT min({due}) {later}) AS next"
            f" FROM (SELECT {due} AS due {past} ORDER BY {due} LIMIT {COUNTED_TO}) w",
            {"now": now},
        )
        return RecheckStatus(
            name=recheck.name,
            pipeline=pipeline,
            record=recheck.record.kind,
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
