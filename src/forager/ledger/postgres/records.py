"""Storing what was found. World records merge into one row per natural key; job records keep the first of each job.

A field that is None says nothing, so it never overwrites. A change is written only where something really changed.
Rows are inserted and locked in the order of their keys, so that two settlements never wait for each other crosswise.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from forager.core.record import Record
from forager.ledger.catalog import Catalog
from forager.ledger.changelog import NewChange
from forager.ledger.counting import Deltas
from forager.ledger.known_as import NO_NAMES, Names
from forager.ledger.postgres.aliases import Found, learn_aliases
from forager.ledger.postgres.arrays import documents, scalars, unless_all
from forager.ledger.postgres.connection import Db
from forager.ledger.postgres.record_sql import JSON, statements_for
from forager.ledger.tables import RecordTable
from forager.ledger.text import NUL, clean

Sighting = tuple[int, list[Any]]
"""(job, values)"""
_NUL_IN_JSON = "\\u0000"


async def store_records(
    db: Db, catalog: Catalog, found: Sequence[tuple[int, Record]], deltas: Deltas, now: int
) -> list[NewChange]:
    """Store records in the order of their finding; returns their changes, not yet numbered."""
    by_kind: defaultdict[str, list[Found]] = defaultdict(list)
    for job, record in found:
        key = record.key()
        by_kind[record.kind].append((job, clean(key) if NUL in key else key, record))
    changes: list[NewChange] = []
    names = await learn_aliases(db, catalog, by_kind, changes)
    for kind in sorted(by_kind):
        table = catalog.records[kind]
        known = names.get(table.record.identity or "", NO_NAMES)
        store = _store_per_job if table.per_job else _store_world
        changes.extend(await store(db, table, by_kind[kind], known, deltas, now))
    return changes


async def _store_world(
    db: Db, table: RecordTable, found: list[Found], names: Names, deltas: Deltas, now: int
) -> list[NewChange]:
    sightings: dict[str, list[Sighting]] = {}
    for job, key, values in _named(table, found, names):
        sightings.setdefault(key, []).append((job, values))
    merged = {key: merge_all(seen[0][1], seen[1:]) for key, seen in sightings.items()}
    new = await _insert_new(db, table, merged, {key: len(seen) for key, seen in sightings.items()}, now)
    for job, count in Counter([sightings[key][0][0] for key in new]).items():
        deltas.add(job, discoveries=count)
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
    columns = _columns(table, [rows[key] for key in keys])
    return set(
        await db.fetchval(statements_for(table).insert, *columns, _seen_column([seen[key] for key in keys]), now) or ()
    )


async def _merge_into(
    db: Db, table: RecordTable, old: Mapping[str, list[Sighting]], names: Names, now: int
) -> dict[str, tuple[int, int, bytes]]:
    """Merge sightings into rows that are there: (version, job, body) of those that changed."""
    sql = statements_for(table)
    rows = await db.fetch(sql.lock, sorted(old))
    changed: dict[str, tuple[int, int, bytes]] = {}
    updates: list[tuple[list[Any], int, int]] = []
    for row in rows:
        version, before = row[0], list(row[1:])
        key = before[table.key_index]
        values, job = before, None
        for of_job, seen in old[key]:
            merged = merge(values, _cleaned(seen))
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
        columns = _columns(table, [u[0] for u in moved])
        await db.execute(sql.update, *columns, scalars([u[1] for u in moved]), scalars([u[2] for u in moved]), now)
    if kept:
        await db.execute(sql.seen, [u[0][table.key_index] for u in kept], [u[2] for u in kept], now)
    return changed


async def _store_per_job(
    db: Db, table: RecordTable, found: list[Found], names: Names, deltas: Deltas, now: int
) -> list[NewChange]:
    """The first in a job wins; later ones only raise `times_seen`. The change has no body: the row is final."""
    first: dict[tuple[int, str], list[Any]] = {}
    seen: defaultdict[tuple[int, str], int] = defaultdict(int)
    for job, key, values in _named(table, found, names):
        where = (job, key)
        seen[where] += 1
        first.setdefault(where, values)
    at = sorted(first)
    row = await db.fetchrow(
        statements_for(table).insert_per_job,
        *_columns(table, [first[where] for where in at]),
        _seen_column([seen[where] for where in at]),
        scalars([job for job, _ in at]),
        now,
    )
    new = set(zip(row[0] or (), row[1] or (), strict=True)) if row else set()
    for job, count in Counter([job for job, _ in new]).items():
        deltas.add(job, records=count)
    return [NewChange(table.record.kind, key, "new", 1, job) for job, key in first if (job, key) in new]


def merge(old: list[Any], new: list[Any]) -> list[Any]:
    return [o if n is None else n for o, n in zip(old, new, strict=True)]


def merge_all(values: list[Any], more: Sequence[Sighting]) -> list[Any]:
    for _, seen in more:
        values = merge(values, seen)
    return values


def _named(table: RecordTable, found: Iterable[Found], names: Names) -> Iterable[tuple[int, str, list[Any]]]:
    """(job, key, values): each thing under the name by which it is known."""
    index, stronger = table.key_index, names.stronger
    for job, key, record in found:
        values = table.values(record)
        key = values[index] = stronger.get(key, key)
        yield job, key, values


def _columns(table: RecordTable, rows: list[list[Any]]) -> list[str | None]:
    """Rows as parameters. NUL, which PostgreSQL's text cannot hold, is replaced in the rows themselves; it is rare, so
    that a whole column is looked at in one go."""
    types = statements_for(table).types
    columns = _encoded(types, rows)
    if any(_NUL_IN_JSON in c for kind, c in zip(types, columns, strict=True) if kind != JSON and c is not None):
        for row in rows:
            row[:] = _cleaned(row)
        columns = _encoded(types, rows)
    return columns


def _encoded(types: Sequence[str], rows: list[list[Any]]) -> list[str | None]:
    columns = zip(*rows, strict=True)
    return [documents(c) if kind == JSON else scalars(c) for kind, c in zip(types, columns, strict=True)]


def _cleaned(values: list[Any]) -> list[Any]:
    return [clean(value) if isinstance(value, str) else value for value in values]


def _seen_column(counts: list[int]) -> str | None:
    usual = unless_all(1, counts)
    return None if usual is None else scalars(usual)
