"""Which stored pages the ledger refers to: records and unfinished tasks whose classes declare fields for them.

Read in pages, on either database, outside the writer's way. Never on a hot path: a collection of unused pages asks.
"""

from collections.abc import AsyncIterator, Sequence

import orjson

from forager.core.database import Database
from forager.core.states import TaskState
from forager.ledger.catalog import Catalog

AT_ONCE = 2_000
TASKS_AT_ONCE = 20_000
_OVER = ", ".join(str(int(state)) for state in (TaskState.COMPLETED, TaskState.SKIPPED, TaskState.CANCELLED))


class BlobReferences:
    """Implements `core.blobs.References`. A failed task counts: it can be retried."""

    def __init__(self, database: Database, catalog: Catalog) -> None:
        self._database = database
        self._catalog = catalog

    async def __call__(self) -> AsyncIterator[Sequence[str]]:
        for table in self._catalog.records.values():
            for column in table.record.blobs:
                async for urls in self._in_records(table.name, column):
                    yield urls
        fields = {kind: task.blobs for kind, task in self._catalog.tasks.items() if task.blobs}
        if fields:
            async for urls in self._in_tasks(fields):
                yield urls

    async def _in_records(self, table: str, column: str) -> AsyncIterator[Sequence[str]]:
        after = 0
        while True:
            rows = await self._database.fetch(
                f"SELECT id, {column} AS blob FROM {table} WHERE id > :after AND {column} IS NOT NULL"
                " ORDER BY id LIMIT :limit",
                {"after": after, "limit": AT_ONCE},
            )
            if not rows:
                return
            yield [row["blob"] for row in rows]
            after = rows[-1]["id"]

    async def _in_tasks(self, fields: dict[str, tuple[str, ...]]) -> AsyncIterator[Sequence[str]]:
        """By ranges of ids, so that no statement looks through the whole table."""
        last = (await self._database.fetch("SELECT COALESCE(MAX(id), 0) AS last FROM tasks"))[0]["last"]
        kinds = {f"kind{number}": kind for number, kind in enumerate(fields)}
        among = ", ".join(f":{name}" for name in kinds)
        for start in range(0, last, TASKS_AT_ONCE):
            rows = await self._database.fetch(
                f"SELECT kind, body FROM tasks WHERE id > :start AND id <= :end AND kind IN ({among})"
                f" AND state NOT IN ({_OVER})",
                {"start": start, "end": start + TASKS_AT_ONCE, **kinds},
            )
            if rows:
                yield [blob for row in rows for blob in _named(row["body"], fields[row["kind"]])]


def _named(body: bytes, fields: Sequence[str]) -> list[str]:
    try:
        task = orjson.loads(body)
    except ValueError:  # a row that does not decode becomes a dead letter when it is leased
        return []
    return [value for name in fields if isinstance(value := task.get(name), str)]
