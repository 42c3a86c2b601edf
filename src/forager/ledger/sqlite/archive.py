"""Removes records that are in a file of the archive, and keeps their keys. `core/archive.py` explains the protocol."""

import sqlite3
from collections.abc import Sequence

import orjson

from forager.core.archive import OldRecord
from forager.core.errors import Conflict
from forager.ledger.schema.record_tables import RecordTable
from forager.ledger.sqlite.writer_state import Memory

_COUNTS = "UPDATE archives SET state = 'moved' WHERE id = ? AND state = 'writing'"
_KEEP = """
INSERT INTO archived (kind, key, version, archive_id, archived_at) VALUES (?, ?, ?, ?, ?)
ON CONFLICT (kind, key) DO UPDATE SET version = excluded.version, archive_id = excluded.archive_id,
  archived_at = excluded.archived_at
"""
_VERSIONS = "SELECT a.key, a.version FROM json_each(?) g JOIN archived a ON a.kind = ? AND a.key = g.value"


def archive(db: sqlite3.Connection, memory: Memory, file: int, kind: str, records: Sequence[OldRecord]) -> None:
    """Remove these records and let their file count. Raises `Conflict`, so that nothing happens, if one of them is not
    as it was read or the file was forgotten."""
    table = memory.catalog.records[kind]
    if not db.execute(_COUNTS, (file,)).rowcount:
        raise Conflict("The file was taken to be abandoned.")
    as_read = [(record.id, record.version, record.seen_at) for record in records]
    gone = db.executemany(f"DELETE FROM {table.name} WHERE id = ? AND version = ? AND last_seen_at = ?", as_read)
    if gone.rowcount != len(records):
        raise Conflict("Some of the records were seen or changed meanwhile.")
    now = memory.now_ms()
    db.executemany(_KEEP, [(kind, record.key, record.version, file, now) for record in records])
    memory.archived.add(kind)


def archived_versions(
    db: sqlite3.Connection, memory: Memory, table: RecordTable, keys: Sequence[str]
) -> dict[str, int]:
    """Return the last version of each of these keys that is in the archive. A record that comes back continues from
    there: to a sink, the higher version is the later state."""
    if table.record.kind not in memory.archived or not keys:
        return {}
    return dict(db.execute(_VERSIONS, (orjson.dumps(keys).decode(), table.record.kind)).fetchall())
