"""The archive of an application: where it is, how its files are written, and what else goes with archived records."""

import asyncio
import io
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime
from typing import Any, Literal

import orjson

from forager.core.clock import Clock
from forager.core.errors import NotFound, Rejected
from forager.core.ledger import Ledger
from forager.core.record import Record
from forager.core.upkeep import ArchivedRecord, Archives, NewFile
from forager.engine.archive import Archiver, FileFormat, Moved
from forager.sdk.parquet import ParquetTable
from forager.sdk.search import TextIndex
from forager.settings import Settings
from forager.storage.folder import open_storage
from forager.storage.settings import S3Settings

Format = Literal["parquet", "jsonl"]
KEPT: dict[str, Any] = {
    "id": int,
    "version": int,
    "first_seen_at": datetime,
    "last_seen_at": datetime,
    "times_seen": int,
    "changed_at": datetime,
    "gone_at": datetime,
    "gone_reason": str,
    "gone_evidence": dict,
}
"""The ledger's columns of a record: the first columns of a file."""


class Archive:
    """Moves inactive records to files, and finds them again. `sinks` returns the names of the configured sinks;
    `search` returns the full-text index of a record class that has one."""

    def __init__(
        self,
        settings: Settings,
        ledger: Ledger,
        archives: Archives,
        records: Mapping[str, type[Record]],
        clock: Clock,
        sinks: Callable[[], Collection[str]],
        search: Callable[[type[Record]], TextIndex],
    ) -> None:
        self._settings = settings
        self._ledger = ledger
        self._archives = archives
        self._records = records
        self._clock = clock
        self._sinks = sinks
        self._search = search

    async def count(self, kind: str, inactive_for: float) -> int:
        """Count the records that were neither seen nor changed for this number of seconds, and whose changes every sink
        has delivered."""
        return await self._archives.count(kind, await self._before(inactive_for))

    async def move(self, kind: str, inactive_for: float, form: Format, *, after: int = 0, seconds: float) -> Moved:
        """Move such records to files, until all are moved or the time is over. `after`: the id to begin after."""
        self._archives.check(kind)
        before = await self._before(inactive_for)
        archiver, ends = self._archiver(kind, form), self._clock.monotonic() + seconds
        await archiver.recover()
        done = Moved(after=after, more=True)
        while done.more and self._clock.monotonic() < ends:
            step = await archiver.move(kind, before, done.after)
            done = Moved(done.records + step.records, done.files + step.files, step.after, step.more)
        return done

    async def find(self, kind: str, key: str) -> ArchivedRecord:
        """Return the location of a record's last archived state. Raises `NotFound`."""
        found = await self._archives.find(kind, key)
        if found is None:
            raise NotFound(f"No {kind} with the key {key!r} is in the archive.")
        return found

    async def _before(self, inactive_for: float) -> int:
        now = round((await self._ledger.now()).timestamp() * 1000)
        return min(now - round(inactive_for * 1000), await self._ledger.undelivered_since(self._sinks()))

    def _archiver(self, kind: str, form: Format) -> Archiver:
        where = self._settings.archive
        if where is None:
            raise Rejected("No archive is configured. Set FORAGER_ARCHIVE to a folder or to s3://bucket/prefix.")
        record = self._records[kind]
        return Archiver(
            self._ledger,
            self._archives,
            open_storage(where, self._settings.of(S3Settings)),
            str(where),
            parquet_files(record) if form == "parquet" else JSON_LINES,
            self._clock,
            removed=self._forget,
        )

    async def _forget(self, new: NewFile, content: bytes) -> None:
        """Remove the records in a file from their search index. Raises `ServiceAway` if it cannot be reached."""
        record = self._records.get(new.kind)
        if record is not None and record.search:
            keys = await asyncio.to_thread(_keys_in, new.path, content, record.key_field)
            await self._search(record).forget(keys)


def parquet_files(record: type[Record]) -> FileFormat:
    """Return the format of Parquet files for one kind of record. Raises `Rejected` if pyarrow is not installed."""
    table = ParquetTable(KEPT, record, "rest")

    def encode(rows: Sequence[Mapping[str, Any]]) -> bytes:
        return table.encode([({name: row[name] for name in KEPT}, _own(row)) for row in rows])

    def count(content: bytes) -> int:
        import pyarrow.parquet

        return int(pyarrow.parquet.read_metadata(io.BytesIO(content)).num_rows)

    return FileFormat("parquet", encode, count)


def _keys_in(path: str, content: bytes, key_field: str) -> dict[int, str]:
    """Return the key of each record in a file, by its id."""
    if path.endswith(".jsonl"):
        rows = [orjson.loads(line) for line in content.splitlines()]
        return {row["id"]: row[key_field] for row in rows}
    import pyarrow.parquet

    columns = pyarrow.parquet.read_table(io.BytesIO(content), columns=["id", key_field]).to_pydict()
    return dict(zip(columns["id"], columns[key_field], strict=True))


def _own(row: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name not in KEPT}


def _json_lines(rows: Sequence[Mapping[str, Any]]) -> bytes:
    return b"".join(orjson.dumps(row, default=str, option=orjson.OPT_UTC_Z) + b"\n" for row in rows)


JSON_LINES = FileFormat("jsonl", _json_lines, lambda content: content.count(b"\n"))
