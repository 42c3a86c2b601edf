"""The verbs that both databases do with the same SQL: reading changes, cursors, schedules. Never on a hot path."""

from collections.abc import Collection, Sequence
from uuid import UUID

import orjson

from forager.core.database import Database, Row
from forager.core.errors import NotFound
from forager.core.ledger import Change, Schedule
from forager.kit.queries import loads
from forager.ledger.catalog import Catalog
from forager.ledger.shared.change_reader import ChangeReader


class SharedVerbs:
    """The part of `Ledger` that needs nothing of its database but `fetch` and `write`."""

    database: Database
    _catalog: Catalog

    async def now_ms(self) -> int:
        raise NotImplementedError

    def announce(self, url: str | None) -> None:
        """A database that many processes share keeps no address."""

    async def changes(
        self,
        after: int,
        limit: int,
        *,
        job: UUID | None = None,
        kinds: Collection[str] | None = None,
        until: int | None = None,
        bodies: bool = True,
    ) -> Sequence[Change]:
        reader = ChangeReader(self.database, self._catalog)
        return await reader.page(after, limit, job=job, kinds=kinds, until=until, bodies=bodies)

    async def last_change(self) -> int:
        return int((await self.database.fetch("SELECT change FROM tail"))[0]["change"])

    async def has_open_work(self, but: Collection[str] = ()) -> bool:
        names, values = _named(but)
        without = f" AND pipeline NOT IN ({names})" if names else ""
        rows = await self.database.fetch(
            f"SELECT 1 AS one FROM jobs WHERE finished_at IS NULL AND state <> 'paused'{without} LIMIT 1", values
        )
        return bool(rows)

    async def has_ready_work(self, pipelines: Collection[str]) -> bool:
        names, values = _named(pipelines)
        return bool(names and await self.database.fetch(_READY.format(names=names), values))

    async def wake_lanes(self) -> None:
        await self.database.write(
            "UPDATE lanes SET wake_at = CAST(:now AS BIGINT) WHERE owner IS NULL AND wake_at > CAST(:now AS BIGINT)",
            {"now": await self.now_ms()},
        )

    async def put_schedule(self, schedule: Schedule) -> None:
        await self.database.write(
            "INSERT INTO schedules (name, pipeline, params, cron, every, paused, next_at)"
            " VALUES (:name, :pipeline, :params, :cron, :every, :paused, :next_at)"
            " ON CONFLICT (name) DO UPDATE SET pipeline = excluded.pipeline, params = excluded.params,"
            " cron = excluded.cron, every = excluded.every, paused = excluded.paused, next_at = excluded.next_at",
            {
                "name": schedule.name,
                "pipeline": schedule.pipeline,
                "params": orjson.dumps(schedule.params, default=str).decode(),
                "cron": schedule.cron,
                "every": schedule.every,
                "paused": schedule.paused,
                "next_at": schedule.next_at,
            },
        )

    async def schedules(self) -> Sequence[Schedule]:
        rows = await self.database.fetch(
            "SELECT name, pipeline, params, cron, every, paused, next_at, last_at, last_job, last_error"
            " FROM schedules ORDER BY name"
        )
        return [_schedule(row) for row in rows]

    async def remove_schedule(self, name: str) -> None:
        self._expect(
            name, await self.database.write("DELETE FROM schedules WHERE name = :name RETURNING name", {"name": name})
        )

    async def pause_schedule(self, name: str, *, paused: bool, next_at: int | None = None) -> None:
        """Pause, or resume with the next moment: what was missed while paused is not made up for."""
        rows = await self.database.write(
            "UPDATE schedules SET paused = :paused, next_at = coalesce(:next_at, next_at)"
            " WHERE name = :name RETURNING name",
            {"name": name, "paused": paused, "next_at": next_at},
        )
        self._expect(name, rows)

    async def fired(
        self, name: str, *, at: int, next_at: int | None, job: UUID | None, error: str | None, expected: int | None
    ) -> bool:
        rows = await self.database.write(
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

    @staticmethod
    def _expect(name: str, rows: Sequence[Row]) -> None:
        if not rows:
            raise NotFound(f"There is no schedule {name!r}. `forager schedules list` shows those there are.")


def _named(names: Collection[str]) -> tuple[str, dict[str, str]]:
    """Names as the inside of an IN, and their values."""
    values = {f"name{number}": name for number, name in enumerate(sorted(names))}
    return ", ".join(f":{key}" for key in values), values


# Ready, running, or a suspect of a crash.
_READY = """
SELECT 1 AS one FROM jobs j WHERE j.finished_at IS NULL AND j.state <> 'paused' AND j.pipeline IN ({names})
AND EXISTS (SELECT 1 FROM tasks_now t WHERE t.job_id = j.id AND t.state IN (0, 3, 8)) LIMIT 1
"""


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
