"""Storing what was found. World records merge into one row per natural key; job records keep the first of each job.

A field that is None says nothing, so it never overwrites. A change is written only where something really changed.
Rows are inserted and locked in the order of their keys, so that two settlements never wait for each other crosswise.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy.dialects import postgresql

from forager.core.record import Record
from forager.ledger.catalog import Catalog
from forager.ledger.changelog import NewChange
from forager.ledger.counting import Deltas
from forager.ledger.known_as import NO_NAMES, Names
from forager.ledger.postgres.aliases import learn_aliases
from forager.ledger.postgres.connection import Db
from forager.ledger.tables import RecordTable
from forager.ledger.text import clean

Found = tuple[int, Record]
"""(job, record)"""
Sighting = tuple[int, list[Any]]
"""(job, values)"""


async def store_records(db: Db, catalog: Catalog, found: Sequence[Found], deltas: Deltas, now: int) -> list[NewChange]:
    """Store records in the order of their finding; returns their changes, not yet numbered."""
    by_kind: defaultdict[str, list[Found]] = defaultdict(list)
    for item in found:
        by_kind[item[1].kind].append(item)
    changes: list[NewChange] = []
    names = await learn_aliases(db, catalog, found, changes)
    for kind in sorted(by_kind):
        table = catalog.records[kind]
        known = names.get(table.record.identity or "", NO_NAMES)
        store = _store_per_job if table.per_job else _store_world
        changes.extend(await store(db, table, by_kind[kind], known, deltas, now))
    return changes


async def _store_world(
    db: Db, table: RecordTable, found: list[Found], names: Names, deltas: Deltas, now: int
) -> list[NewChange]:
    sightings: defaultdict[str, list[Sighting]] = defaultdict(list)
    for job, record in found:
        key, values = _named(table, record, names)
        sightings[key].append((job, values))
    merged = {key: merge_all(seen[0][1], seen[1:]) for key, seen in sightings.items()}
    new = await _insert_new(db, table, merged, {key: len(seen) for key, seen in sightings.items()}, now)
    for key in new:
        deltas.add(sightings[key][0][0], discoveries=1)
    old = {key: seen for key, seen in sightings.items() if key not in new}
    changed = await _merge_into(db, table, old, names, now) if old else {}
    kind = table.record.kind
    return [
        *(NewChange(kind, k, "new", 1, sightings[k][0][0], table.body(merged[k])) for k in sightings if k in new),
        *(NewChange(kind, k, "changed", *changed[k]) for k in sightings if k in changed),
    ]


async def _insert_new(
    db: Db, table: RecordTable, rows: Mapping[str, list[Any]], seen: Mapping[str, int], now: int
) -> set[str]:
    """Insert what is not there; waits for whoever inserts the same key at this moment."""
    keys = sorted(rows)
    columns = [[rows[key][i] for key in keys] for i in range(len(table.fields))]
    got = await db.fetch(_insert_sql(table), *columns, [seen[key] for key in keys], now)
    return {row[0] for row in got}


async def _merge_into(
    db: Db, table: RecordTable, old: Mapping[str, list[Sighting]], names: Names, now: int
) -> dict[str, tuple[int, int, bytes]]:
    """Merge sightings into rows that are there: (version, job, body) of those that changed."""
    rows = await db.fetch(_lock_sql(table), sorted(old))
    changed: dict[str, tuple[int, int, bytes]] = {}
    updates: list[tuple[list[Any], int, int]] = []
    for row in rows:
        version, before = row[0], list(row[1:])
        key = before[table.key_index]
        values, job = before, None
        for of_job, seen in old[key]:
            merged = merge(values, seen)
            if job is None and (merged != before or key in names.renamed):
                job = of_job
            values = merged
        if job is not None:
            version += 1
            changed[key] = (version, job, table.body(values))
        updates.append((values, version, len(old[key])))
    kept = [u for u in updates if u[0][table.key_index] not in changed]
    moved = [u for u in updates if u[0][table.key_index] in changed]
    if moved:
        columns = [[values[i] for values, _, _ in moved] for i in range(len(table.fields))]
        await db.execute(_update_sql(table), *columns, [u[1] for u in moved], [u[2] for u in moved], now)
    if kept:
        await db.execute(_seen_sql(table), [u[0][table.key_index] for u in kept], [u[2] for u in kept], now)
    return changed


async def _store_per_job(
    db: Db, table: RecordTable, found: list[Found], names: Names, deltas: Deltas, now: int
) -> list[NewChange]:
    """The first in a job wins; later ones only raise `times_seen`. The change has no body: the row is final."""
    first: dict[tuple[int, str], list[Any]] = {}
    seen: defaultdict[tuple[int, str], int] = defaultdict(int)
    for job, record in found:
        key, values = _named(table, record, names)
        seen[job, key] += 1
        first.setdefault((job, key), values)
    at = sorted(first)
    columns = [[first[where][i] for where in at] for i in range(len(table.fields))]
    rows = await db.fetch(_per_job_sql(table), *columns, [seen[where] for where in at], now, [job for job, _ in at])
    new = {(row[0], row[1]) for row in rows if row[2]}
    for job, _ in new:
        deltas.add(job, records=1)
    return [NewChange(table.record.kind, key, "new", 1, job) for job, key in first if (job, key) in new]


def merge(old: list[Any], new: list[Any]) -> list[Any]:
    return [o if n is None else n for o, n in zip(old, new, strict=True)]


def merge_all(values: list[Any], more: Sequence[Sighting]) -> list[Any]:
    for _, seen in more:
        values = merge(values, seen)
    return values


def _named(table: RecordTable, record: Record, names: Names) -> tuple[str, list[Any]]:
    key = names.of(record)
    values = [clean(value) if isinstance(value, str) else value for value in table.values(record)]
    values[table.key_index] = key
    return key, values


def _insert_sql(table: RecordTable) -> str:
    n = len(table.fields)
    return f"""
    INSERT INTO {table.name} ({_columns(table)}, version, first_seen_at, last_seen_at, times_seen)
    SELECT {_values(table)}, 1, ${n + 2}, ${n + 2}, x.seen FROM {_unnest(table, ("seen", "bigint"))}
    ORDER BY x.{_key(table)} ON CONFLICT ({_key(table)}) DO NOTHING RETURNING {_key(table)}"""


def _lock_sql(table: RecordTable) -> str:
    return f"""
    SELECT version, {_columns(table)} FROM {table.name} WHERE {_key(table)} = ANY($1::text[])
    ORDER BY {_key(table)} FOR NO KEY UPDATE"""


def _update_sql(table: RecordTable) -> str:
    n = len(table.fields)
    sets = ", ".join(f'"{c}" = {_cast("x", c, table)}' for c in table.fields)
    return f"""
    UPDATE {table.name} r SET {sets}, version = x.to_version, last_seen_at = ${n + 3},
      times_seen = r.times_seen + x.seen, gone_at = NULL
    FROM {_unnest(table, ("to_version", "int"), ("seen", "bigint"))} WHERE r.{_key(table)} = x.{_key(table)}"""


def _seen_sql(table: RecordTable) -> str:
    return f"""
    UPDATE {table.name} r SET last_seen_at = $3, times_seen = r.times_seen + x.seen, gone_at = NULL
    FROM unnest($1::text[], $2::bigint[]) AS x(key, seen) WHERE r.{_key(table)} = x.key"""


def _per_job_sql(table: RecordTable) -> str:
    """`xmax` is 0 in a row that was inserted, and not in one that was there."""
    n = len(table.fields)
    source = _unnest(table, ("seen", "bigint"))
    jobs = source.replace(") AS x(", f", ${n + 3}::bigint[]) AS x(")[:-1] + ", job)"
    return f"""
    INSERT INTO {table.name} AS r (job_id, {_columns(table)}, version, first_seen_at, last_seen_at, times_seen)
    SELECT x.job, {_values(table)}, 1, ${n + 2}, ${n + 2}, x.seen FROM {jobs} ORDER BY x.job, x.{_key(table)}
    ON CONFLICT (job_id, {_key(table)}) DO UPDATE
      SET last_seen_at = excluded.last_seen_at, times_seen = r.times_seen + excluded.times_seen
    RETURNING r.job_id, r.{_key(table)}, r.xmax = 0"""


def _key(table: RecordTable) -> str:
    return f'"{table.record.key_field}"'


def _columns(table: RecordTable) -> str:
    return ", ".join(f'"{c}"' for c in table.fields)


def _values(table: RecordTable) -> str:
    return ", ".join(_cast("x", c, table) for c in table.fields)


def _cast(of: str, column: str, table: RecordTable) -> str:
    """JSON travels as text: an array of JSON could not tell a missing value from a JSON null."""
    return f'{of}."{column}"{"::json" if _type(table, column) == "JSON" else ""}'


def _unnest(table: RecordTable, *more: tuple[str, str]) -> str:
    types = ["text" if (t := _type(table, c)) == "JSON" else t for c in table.fields] + [t for _, t in more]
    arrays = ", ".join(f"${i}::{t}[]" for i, t in enumerate(types, 1))
    return f"unnest({arrays}) AS x({_columns(table)}, {', '.join(name for name, _ in more)})"


def _type(table: RecordTable, column: str) -> str:
    kind = table.types[table.fields.index(column)]
    return str(kind.compile(dialect=postgresql.dialect()))  # type: ignore[no-untyped-call]
