"""The query port for everything that is not a hot path: reports, schedules, cursors. Portable SQL with `:name`
values."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal, Protocol

Row = dict[str, Any]
Dialect = Literal["sqlite", "postgresql"]


class Database(Protocol):
    @property
    def dialect(self) -> Dialect:
        """The kind of database, for the few statements that cannot be written portably."""
        ...

    async def fetch(self, sql: str, values: Mapping[str, Any] | None = None) -> Sequence[Row]:
        """Read rows, without blocking the writer."""
        ...

    async def fetch_by_keys(self, sql: str, keys: Mapping[str, Sequence[str]]) -> Sequence[Row]:
        """Read rows by lists of texts: `column IN :name` in the statement stands for the list `name`.

        The plan walks indexes whatever the statistics are, so a table that has grown since they were collected is read
        no slower. The length of a list does not change the statement. Without an index this reads the whole table.
        """
        ...

    async def fetch_by_words(self, sql: str, values: Mapping[str, Any] | None = None) -> Sequence[Row]:
        """Read rows by a full-text condition. The plan is made for these values: how common a word is decides whether
        the full-text index or the order of ids reaches the newest matches sooner.
        """
        ...

    async def fetch_tuples(self, sql: str, values: Mapping[str, Any] | None = None) -> Sequence[Any]:
        """Read rows as sequences, in the order of the statement's columns: for pages of thousands of rows, where
        building a dictionary for each would take as long as reading them."""
        ...

    async def fetch_fresh(self, sql: str, values: Mapping[str, Any] | None = None) -> Sequence[Row]:
        """Read a few rows by key that were written a moment ago and are still in memory."""
        ...

    async def write(self, sql: str, values: Mapping[str, Any] | None = None) -> Sequence[Row]:
        """Run one writing statement in its own transaction. Returns the rows of its RETURNING clause."""
        ...
