"""`Database` on PostgreSQL, for everything that is not a hot path: on connections without the hot path's planner
settings."""

from collections.abc import Mapping, Sequence
from typing import Any

from forager.core.database import Dialect, Row
from forager.ledger.postgres.connection import Connections, translated_errors
from forager.ledger.postgres.names import numbered


class PostgresDatabase:
    dialect: Dialect = "postgresql"

    def __init__(self, connections: Connections) -> None:
        self._connections = connections

    async def fetch(self, sql: str, values: Mapping[str, Any] | None = None) -> Sequence[Row]:
        text, ordered = numbered(sql, values)
        async with translated_errors(), self._connections.reports.acquire() as db:
            return [dict(row) for row in await db.fetch(text, *ordered)]

    async def fetch_fresh(self, sql: str, values: Mapping[str, Any] | None = None) -> Sequence[Row]:
        return await self.fetch(sql, values)

    async def write(self, sql: str, values: Mapping[str, Any] | None = None) -> Sequence[Row]:
        text, ordered = numbered(sql, values)
        rows = await self._connections.run(lambda db: db.fetch(text, *ordered))
        return [dict(row) for row in rows]
