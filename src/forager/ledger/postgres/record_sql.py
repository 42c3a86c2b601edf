"""The statements that store records, built once per table. `records.py` uses them."""

from dataclasses import dataclass
from functools import cache

from sqlalchemy.dialects import postgresql

from forager.ledger.postgres.arrays import document, rows_from
from forager.ledger.schema.record_tables import RecordTable

JSON = "JSON"


@dataclass(frozen=True, slots=True)
class Statements:
    types: tuple[str, ...]
    """PostgreSQL types of the record's own columns."""
    insert: str
    """Returns the keys of the rows that are new, and whether a file of the archive has ever been noted."""
    come_back: str
    lock: str
    update: str
    note: str
    """Writes quiet columns of a row that was seen; empty if there are none."""
    note_unseen: str
    """The same for a row that was not seen."""
    restate: str
    """Writes a new version of a row that was not seen; it may be gone from then on."""
    seen: str
    insert_per_job: str


@cache
def statements_for(table: RecordTable) -> Statements:
    types = tuple(_type(table, index) for index in range(len(table.fields)))
    return Statements(
        types,
        insert=_insert(table, types),
        come_back=_come_back(table),
        lock=_lock(table),
        update=_update(table, types),
        note=_note(table, types, seen=True) if table.quiet else "",
        note_unseen=_note(table, types, seen=False) if table.quiet else "",
        restate=_restate(table, types) if not table.per_job else "",
        seen=_seen(table),
        insert_per_job=_insert_per_job(table, types) if table.per_job else "",
    )


def _insert(table: RecordTable, types: tuple[str, ...]) -> str:
    """Return the statement that inserts new rows.

    Whether there is an archive is read from the sequence of its files, after the rows are inserted. A sequence has no
    versions, so the answer is that of this moment: the snapshot of the statement may be older than the first archive.
    The table itself is asked as well, because a copy of the data alone does not move the sequence.
    """
    n = len(types)
    return f"""
    WITH new AS (
      INSERT INTO {table.name} ({_columns(table)}, version, first_seen_at, last_seen_at, times_seen, changed_at)
      SELECT {_values(table, types)}, 1, ${n + 2}, ${n + 2}, coalesce(x.seen::bigint, 1), ${n + 2}
      FROM {_rows(table, types, "seen")} ORDER BY x.{_key(table)}
      ON CONFLICT ({_key(table)}) DO NOTHING RETURNING {_key(table)} AS key)
    SELECT array_agg(key),
      pg_sequence_last_value('archives_id_seq') IS NOT NULL OR EXISTS (SELECT 1 FROM archives) FROM new"""


def _come_back(table: RecordTable) -> str:
    """Return the statement that gives new rows of archived records the version after the archived one.

    It comes after the insertion: that may have waited for the transaction that archived the same record, and did not
    see what that one has written."""
    return f"""
    UPDATE {table.name} r SET version = a.version + 1 FROM archived a
    WHERE a.kind = '{table.record.kind}' AND a.key = ANY($1::text[]) AND r.{_key(table)} = a.key
    RETURNING a.key, r.version"""


def _lock(table: RecordTable) -> str:
    return f"""
    SELECT version, gone_at, {_columns(table)} FROM {table.name} WHERE {_key(table)} = ANY($1::text[])
    ORDER BY {_key(table)} FOR NO KEY UPDATE"""


def _update(table: RecordTable, types: tuple[str, ...]) -> str:
    n = len(types)
    sets = ", ".join(f'"{c}" = {_value(c, t)}' for c, t in zip(table.fields, types, strict=True))
    return f"""
    UPDATE {table.name} r SET {sets}, version = x.to_version::int, changed_at = ${n + 3}, last_seen_at = ${n + 3},
      times_seen = r.times_seen + x.seen::bigint, gone_at = NULL, gone_reason = NULL, gone_evidence = NULL
    FROM {_rows(table, types, "to_version", "seen")} WHERE r.{_key(table)} = x.{_key(table)}"""


def _note(table: RecordTable, types: tuple[str, ...], *, seen: bool) -> str:
    quiet = [(table.fields[index], types[index]) for index in table.quiet]
    n = len(quiet)
    sets = ", ".join(f'"{c}" = {_value(c, t)}' for c, t in quiet)
    columns = [*((c, t == JSON) for c, t in quiet), ("key", False), *([("seen", False)] if seen else [])]
    when = f", last_seen_at = ${n + 3}, times_seen = r.times_seen + x.seen::bigint" if seen else ""
    return f"""
    UPDATE {table.name} r SET {sets}{when}
    FROM {rows_from(columns)} AS x({", ".join(f'"{name}"' for name, _ in columns)}) WHERE r.{_key(table)} = x.key"""


def _restate(table: RecordTable, types: tuple[str, ...]) -> str:
    """Return the statement for a new version of a row. A NULL reason leaves `gone_at` as it is."""
    n = len(types)
    sets = ", ".join(f'"{c}" = {_value(c, t)}' for c, t in zip(table.fields, types, strict=True))
    columns = [*((c, t == JSON) for c, t in zip(table.fields, types, strict=True))]
    columns += [("to_version", False), ("to_reason", False), ("to_evidence", True)]
    return f"""
    UPDATE {table.name} r SET {sets}, version = x.to_version::int, changed_at = ${n + 4},
      gone_at = CASE WHEN x.to_reason IS NULL THEN r.gone_at ELSE ${n + 4} END,
      gone_reason = coalesce(x.to_reason, r.gone_reason),
      gone_evidence = coalesce({document("x.to_evidence")}, r.gone_evidence)
    FROM {rows_from(columns)} AS x({", ".join(f'"{name}"' for name, _ in columns)})
    WHERE r.{_key(table)} = x.{_key(table)}"""


def _seen(table: RecordTable) -> str:
    return f"""
    UPDATE {table.name} r SET last_seen_at = $3, times_seen = r.times_seen + x.seen
    FROM unnest($1::text[], $2::bigint[]) AS x(key, seen) WHERE r.{_key(table)} = x.key"""


def _insert_per_job(table: RecordTable, types: tuple[str, ...]) -> str:
    """`xmax` is 0 in a row that was inserted, and not in one that was there."""
    n = len(types)
    return f"""
    WITH seen AS (
      INSERT INTO {table.name} AS r (job_id, {_columns(table)}, version, first_seen_at, last_seen_at, times_seen)
      SELECT x.job::bigint, {_values(table, types)}, 1, ${n + 3}, ${n + 3}, coalesce(x.seen::bigint, 1)
      FROM {_rows(table, types, "seen", "job")} ORDER BY x.job::bigint, x.{_key(table)}
      ON CONFLICT (job_id, {_key(table)}) DO UPDATE
        SET last_seen_at = excluded.last_seen_at, times_seen = r.times_seen + excluded.times_seen
      RETURNING r.job_id, r.{_key(table)} AS key, r.xmax = 0 AS new)
    SELECT array_agg(job_id), array_agg(key) FROM seen WHERE new"""


def _key(table: RecordTable) -> str:
    return f'"{table.record.key_field}"'


def _columns(table: RecordTable) -> str:
    return ", ".join(f'"{c}"' for c in table.fields)


def _values(table: RecordTable, types: tuple[str, ...]) -> str:
    return ", ".join(_value(c, t) for c, t in zip(table.fields, types, strict=True))


def _value(column: str, kind: str) -> str:
    return document(f'x."{column}"') if kind == JSON else f'x."{column}"::{kind}'


def _rows(table: RecordTable, types: tuple[str, ...], *more: str) -> str:
    columns = [*((c, t == JSON) for c, t in zip(table.fields, types, strict=True)), *((name, False) for name in more)]
    return f"{rows_from(columns)} AS x({_columns(table)}, {', '.join(more)})"


def _type(table: RecordTable, index: int) -> str:
    return str(table.types[index].compile(dialect=postgresql.dialect()))  # type: ignore[no-untyped-call]
