"""The small port under what is not a hot path: reports, schedules, cursors. Portable SQL with `:name` values."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal, Protocol

Row = dict[str, Any]
Dialect = Literal["sqlite", "postgresql"]


class Database(Protocol):
    @property
    def dialect(self) -> Dialect:
        """Which database it is, for the few statements that cannot be written portably."""
        ...

    async def fetch(self, sql: str, values: Mapping[str, Any] | None = None) -> Sequence[Row]:
        """Read rows, outside the writer's way."""
        ...

    async def fetch_fresh(self, sql: str, values: Mapping[str, Any] | None = None) -> Sequence[Row]:
        """Read a few rows by their keys that were written a moment ago: what holds them is in memory still."""
        ...

    async def write(self, sql: str, values: Mapping[str, Any] | None = None) -> Sequence[Row]:
        """Run one writing statement in a transaction of its own; returns what it says it RETURNS."""
        ...
