"""Files of the archive, and which records are in them. Never on a hot path."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from forager.core.archive import ArchivedRecord, ArchiveFile, NewFile, OldRecord
from forager.core.database import Database, Row
from forager.core.errors import Rejected
from forager.kit.queries import at
from forager.ledger.catalog import Catalog
from forager.ledger.reports.record_walks import as_people_see
from forager.ledger.schema.record_tables import RecordTable

_OLD = "last_seen_at < :before AND changed_at < :before AND id < (SELECT max(id) FROM {table})"
_FILE = "id, kind, place, path, records, bytes, digest, state, created_at"


class ArchiveTable:
    """Implements `core.archive.Archives`."""

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
