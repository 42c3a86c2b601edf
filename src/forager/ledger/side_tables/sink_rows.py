"""The rows of the table `sinks`: which sinks an operator has added. Never on a hot path."""

from collections.abc import Awaitable, Callable, Sequence

import orjson

from forager.core.database import Database, Row
from forager.core.errors import Conflict
from forager.core.sink import SinkRow, SinkStatus
from forager.kit.queries import at, loads
from forager.ledger.side_tables.sinks import SinkTable

_INSERT = """
INSERT INTO sinks (name, type, kinds, pipelines, options, created_at)
VALUES (:name, :type, :kinds, :pipelines, :options, :now) ON CONFLICT (name) DO NOTHING RETURNING name
"""


class SinkRows:
    """Adds, lists and removes rows. Positions in the log belong to `SinkTable`."""

    def __init__(self, database: Database, table: SinkTable, now_ms: Callable[[], Awaitable[int]]) -> None:
        self._database = database
        self._table = table
        self._now_ms = now_ms

    async def all(self) -> Sequence[SinkRow]:
        """Return every row, by name."""
        rows = await self._database.fetch(
            "SELECT name, type, kinds, pipelines, options, created_at FROM sinks ORDER BY name"
        )
        return [_sink_row(row) for row in rows]

    async def add(self, row: SinkRow, *, after: int = 0) -> None:
        """Add a sink whose deliveries begin after this change. Raises `Conflict` if there is a row of that name.

        The caller pauses the sink's lane meanwhile: a process that sees the row before its position must not begin at
        the first change."""
        values = {
            "name": row.name,
            "type": row.type,
            "kinds": _names(row.kinds),
            "pipelines": _names(row.pipelines),
            "options": orjson.dumps(dict(row.options)).decode(),
            "now": await self._now_ms(),
        }
        if not await self._database.write(_INSERT, values):
            raise Conflict(f"There is a sink {row.name!r} already. Remove it first, or choose another name.")
        await self._table.replay(row.name, after)

    async def remove(self, name: str) -> None:
        """Remove a row, if there is one. `forget` removes the rest, when its deliveries have ended."""
        await self._database.write("DELETE FROM sinks WHERE name = :name", {"name": name})

    async def forget(self, name: str) -> None:
        """Remove the position of a sink and the changes that it refused."""
        await self._table.forget(name)

    async def statuses(self, names: Sequence[str]) -> list[SinkStatus]:
        """Return the status of these sinks, and of every other that the ledger knows."""
        return await self._table.statuses(names)

    async def is_delivered(self, name: str) -> bool:
        """Return whether a living session delivers this sink now."""
        return (await self._table.position(name)).owner is not None


def _names(names: frozenset[str] | None) -> str | None:
    return None if names is None else orjson.dumps(sorted(names)).decode()


def _sink_row(row: Row) -> SinkRow:
    kinds, pipelines = loads(row["kinds"]), loads(row["pipelines"])
    return SinkRow(
        row["name"],
        row["type"],
        kinds=None if kinds is None else frozenset(kinds),
        pipelines=None if pipelines is None else frozenset(pipelines),
        options=loads(row["options"]),
        created_at=at(row["created_at"]),
    )
