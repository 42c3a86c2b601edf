"""`Database` on PostgreSQL, for everything that is not a hot path: on connections without the hot path's planner
settings."""

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from forager.core.database import Dialect, Row
from forager.ledger.postgres.connection import Connections
from forager.ledger.postgres.names import numbered

SEARCH_SETTINGS = (
    "SET LOCAL enable_bitmapscan = on; SET LOCAL plan_cache_mode = force_custom_plan;"
    " SET LOCAL max_parallel_workers_per_gather = 0"  # several processes for one search would slow down all others
)


class PostgresDatabase:
    dialect: Dialect = "postgresql"

    def __init__(self, connections: Connections) -> None:
        self._connections = connections

    async def fetch(self, sql: str, values: Mapping[str, Any] | None = None) -> Sequence[Row]:
        text, ordered = numbered(sql, values)
        async with self._connections.reading() as db:
            return [dict(row) for row in await db.fetch(text, *ordered)]

    async def fetch_tuples(self, sql: str, values: Mapping[str, Any] | None = None) -> Sequence[Any]:
        text, ordered = numbered(sql, values)
        async with self._connections.reading() as db:
            return await db.fetch(text, *ordered)

    async def fetch_by_keys(self, sql: str, keys: Mapping[str, Sequence[str]]) -> Sequence[Row]:
        """Read on a connection of the hot path, whose planner settings allow nothing but index scans and nested loops:
        a list of 100 keys makes the planner prefer a scan of a table of some 10,000 rows, which takes longer."""
        text, ordered = numbered(_with_arrays(sql), keys)
        async with self._connections.reading(by_keys=True) as db:
            return [dict(row) for row in await db.fetch(text, *ordered)]

    async def fetch_by_words(self, sql: str, values: Mapping[str, Any] | None = None) -> Sequence[Row]:
        """Read with planner settings of its own, for one transaction: reports may use no bitmap scan, and a full-text
        index has no other; a plan for any words is ten times slower for most of them."""
        text, ordered = numbered(sql, values)
        async with self._connections.reading_together() as db:
            await db.execute(SEARCH_SETTINGS)
            return [dict(row) for row in await db.fetch(text, *ordered)]

    async def fetch_fresh(self, sql: str, values: Mapping[str, Any] | None = None) -> Sequence[Row]:
        return await self.fetch(sql, values)

    async def write(self, sql: str, values: Mapping[str, Any] | None = None) -> Sequence[Row]:
        text, ordered = numbered(sql, values)
        rows = await self._connections.run(lambda db: db.fetch(text, *ordered))
        return [dict(row) for row in rows]


@lru_cache(maxsize=256)
def _with_arrays(sql: str) -> str:
    return re.sub(r"\bIN (:[A-Za-z_]\w*)", r"= ANY(\1::text[])", sql)
