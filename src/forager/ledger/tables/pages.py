"""The id of the folder of stored pages that belongs to the ledger."""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import Any

import orjson

from forager.core.database import Database, Row
from forager.core.errors import Rejected
from forager.core.states import TaskState
from forager.core.storage import blobs_in
from forager.core.upkeep import ArchivedRecord, ArchiveFile, NewFile, OldRecord
from forager.ledger.catalog import Catalog
from forager.ledger.reports.record_filters import as_people_see
from forager.ledger.schema.record_tables import RecordTable
from forager.sdk.queries import at


class BlobFolderTable:
    """One row, written by the first process that works on the ledger."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def get(self) -> str | None:
        """Return the id of the ledger's folder; None if it has none yet."""
        rows = await self._database.fetch("SELECT folder FROM blob_folder")
        return str(rows[0]["folder"]) if rows else None

    async def claim(self, folder: str) -> str:
        """Note this folder as the ledger's, unless it has one. Returns the one that it has then: of several processes
        that do this at once, one succeeds."""
        await self._database.write(
            "INSERT INTO blob_folder (one, folder) VALUES (1, :folder) ON CONFLICT (one) DO NOTHING", {"folder": folder}
        )
        return await self.get() or folder

    async def replace(self, folder: str) -> None:
        """Note this folder as the ledger's, whichever it had before."""
        await self._database.write(
            "INSERT INTO blob_folder (one, folder) VALUES (1, :folder)"
            " ON CONFLICT (one) DO UPDATE SET folder = excluded.folder",
            {"folder": folder},
        )


# Finds the stored pages to which records and unfinished tasks refer, by the fields that their classes declare.
#
# Read in pages, on either database, outside the writer. Only a collection of unused pages calls it; never a hot path.


AT_ONCE = 2_000
TASKS_AT_ONCE = 20_000
_OVER = ", ".join(str(int(state)) for state in (TaskState.COMPLETED, TaskState.SKIPPED, TaskState.CANCELLED))


class BlobReferences:
    """Implements `core.storage.References`. A failed task counts: it can be retried."""

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
            yield [url for row in rows for url in blobs_in(row["blob"])]
            after = rows[-1]["id"]

    async def _in_tasks(self, fields: dict[str, tuple[str, ...]]) -> AsyncIterator[Sequence[str]]:
        """Read by ranges of ids, so that no statement scans the whole table."""
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
    return [url for name in fields for url in blobs_in(task.get(name))]


# Files of the archive, and which records are in them. Never on a hot path.


_OLD = "last_seen_at < :before AND changed_at < :before AND id < (SELECT max(id) FROM {table})"
_FILE = "id, kind, place, path, records, bytes, digest, state, created_at"


class ArchiveTable:
    """Implements `core.upkeep.Archives`."""

    def __init__(self, database: Database, catalog: Catalog, now_ms: Callable[[], Awaitable[int]]) -> None:
        self._database = database
        self._catalog = catalog
        self._now_ms = now_ms

    def check(self, kind: str) -> None:
        self._table(kind)

    async def count(self, kind: str, before: int) -> int:
        table = self._table(kind)
        sql = f"SELECT count(*) AS n FROM {table.name} WHERE {_OLD.format(table=table.name)}"
        return int((await self._database.fetch(sql, {"before": before}))[0]["n"])

    async def read(self, kind: str, before: int, after: int, most: int) -> Sequence[OldRecord]:
        table = self._table(kind)
        rows = await self._database.fetch(
            f"SELECT * FROM {table.name} WHERE id > :after AND {_OLD.format(table=table.name)} ORDER BY id LIMIT :most",
            {"before": before, "after": after, "most": most},
        )
        return [_old(table, row) for row in rows]

    async def begin(self, new: NewFile) -> int:
        values: Mapping[str, Any] = {
            "kind": new.kind,
            "place": new.place,
            "path": new.path,
            "records": new.records,
            "bytes": new.bytes,
            "digest": new.digest,
            "now": await self._now_ms(),
        }
        rows = await self._database.write(
            "INSERT INTO archives (kind, place, path, records, bytes, digest, state, created_at)"
            " VALUES (:kind, :place, :path, :records, :bytes, :digest, 'writing', :now) RETURNING id",
            values,
        )
        return int(rows[0]["id"])

    async def drop(self, file: int) -> bool:
        sql = "UPDATE archives SET state = 'dropped' WHERE id = :id AND state IN ('writing', 'dropped') RETURNING id"
        return bool(await self._database.write(sql, {"id": file}))

    async def forget(self, file: int) -> None:
        await self._database.write("DELETE FROM archives WHERE id = :id AND state = 'dropped'", {"id": file})

    async def list_(self, file: int) -> None:
        sql = "UPDATE archives SET state = 'listed' WHERE id = :id AND state = 'moved'"
        await self._database.write(sql, {"id": file})

    async def unfinished(self, place: str, begun_before: int) -> Sequence[ArchiveFile]:
        rows = await self._database.fetch(
            f"SELECT {_FILE} FROM archives WHERE state <> 'listed' AND place = :place"
            " AND (state <> 'writing' OR created_at < :before) ORDER BY id",
            {"place": place, "before": begun_before},
        )
        return [_file(row) for row in rows]

    async def find(self, kind: str, key: str) -> ArchivedRecord | None:
        rows = await self._database.fetch(
            "SELECT a.version, a.archived_at, f.place, f.path FROM archived a JOIN archives f ON f.id = a.archive_id"
            " WHERE a.kind = :kind AND a.key = :key",
            {"kind": self._table(kind).record.kind, "key": key},
        )
        if not rows:
            return None
        row, moment = rows[0], at(rows[0]["archived_at"])
        assert moment is not None  # noqa: S101 - the column is NOT NULL
        return ArchivedRecord(kind, key, int(row["version"]), moment, row["place"], row["path"])

    def _table(self, kind: str) -> RecordTable:
        table = self._catalog.records.get(kind)
        if table is None or table.per_job:
            kinds = sorted(name for name, each in self._catalog.records.items() if not each.per_job)
            raise Rejected(f"Records of kind {kind!r} cannot be archived. Choose from {', '.join(kinds)}.")
        return table


def _old(table: RecordTable, row: Row) -> OldRecord:
    key = row[table.record.key_field]
    return OldRecord(
        row["id"], key, row["version"], row["last_seen_at"], {"id": row["id"], **as_people_see(table, row)}
    )


def _file(row: Row) -> ArchiveFile:
    new = NewFile(row["kind"], row["place"], row["path"], row["records"], row["bytes"], row["digest"])
    moment = at(row["created_at"])
    assert moment is not None  # noqa: S101 - the column is NOT NULL
    return ArchiveFile(row["id"], new, row["state"], moment)
