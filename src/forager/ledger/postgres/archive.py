"""Removes records that are in a file of the archive, and keeps their keys. `core/archive.py` explains the protocol."""

from collections.abc import Sequence

from forager.core.archive import OldRecord
from forager.core.errors import Conflict
from forager.ledger.catalog import Catalog
from forager.ledger.postgres.connection import NOW, Db

_COUNTS = "UPDATE archives SET state = 'moved' WHERE id = $1 AND state = 'writing' RETURNING 1"
# Rows are locked in the order of their keys, as settlements do. One that waited for the lock looks at the row again.
_REMOVE = """
WITH old AS MATERIALIZED (
  SELECT r.id FROM unnest($1::bigint[], $2::int[], $3::bigint[]) AS x(id, version, seen_at)
  JOIN {table} r ON r.id = x.id AND r.version = x.version AND r.last_seen_at = x.seen_at
  ORDER BY r."{key}" FOR UPDATE OF r)
DELETE FROM {table} r USING old WHERE r.id = old.id RETURNING r.id
"""
_KEEP = f"""
INSERT INTO archived (kind, key, version, archive_id, archived_at)
SELECT $1, x.key, x.version, $2, {NOW} FROM unnest($3::text[], $4::int[]) AS x(key, version)
ON CONFLICT (kind, key) DO UPDATE SET version = excluded.version, archive_id = excluded.archive_id,
  archived_at = excluded.archived_at
"""


async def archive(db: Db, catalog: Catalog, file: int, kind: str, records: Sequence[OldRecord]) -> None:
    """Remove these records and let their file count. Raises `Conflict`, so that nothing happens, if one of them is not
    as it was read or the file was forgotten."""
    table = catalog.records[kind]
    if await db.fetchval(_COUNTS, file) is None:
        raise Conflict("The file was taken to be abandoned.")
    versions = [record.version for record in records]
    as_read = [record.id for record in records], versions, [record.seen_at for record in records]
    gone = await db.fetch(_REMOVE.format(table=table.name, key=table.record.key_field), *as_read)
    if len(gone) != len(records):
        raise Conflict("Some of the records were seen or changed meanwhile.")
    await db.execute(_KEEP, kind, file, [record.key for record in records], versions)
