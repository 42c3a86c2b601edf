"""Schedules in the ledger: one row for each, on either database. Never on a hot path."""

from collections.abc import Sequence
from uuid import UUID

import orjson

from forager.core.database import Database, Row
from forager.core.names import no_such
from forager.core.schedules import Schedule
from forager.kit.queries import loads

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
        """Pause, or resume with the next moment: what was missed while paused is not made up for."""
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
