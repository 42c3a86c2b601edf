"""Stores records. World-scoped records are merged into one row per key; job-scoped records keep the first of each job.

A field that is None never overwrites a stored value. A change is written only if a field changed that is not quiet, or
if a record that was gone is seen again. Rows are inserted and locked in key order, so that two settlements cannot
deadlock.
"""

from collections import Counter
from collections.abc import Mapping, Sequence, Sized
from operator import itemgetter
from typing import Any, TypeVar

from forager.core.record import Record
from forager.kit.queries import Encoder
from forager.ledger.catalog import Catalog
from forager.ledger.postgres.aliases import learn_aliases
from forager.ledger.postgres.arrays import as_json, documents
from forager.ledger.postgres.connection import Db, TryAgain
from forager.ledger.postgres.record_sql import JSON, statements_for
from forager.ledger.postgres.records_by_kind import Finding, Found, by_kind, first_and_again
from forager.ledger.schema.record_tables import RecordTable, Values
from forager.ledger.shared.alias_names import NO_NAMES
from forager.ledger.shared.changelog import NewChange
from forager.ledger.shared.counting import Deltas
from forager.ledger.shared.text import clean

N = TypeVar("N")
Sighting = tuple[int, Values]
"""(job, values)"""
_NUL_IN_JSON = "\\u0000"


async def store_records(
    db: Db, catalog: Catalog, findings: Sequence[Finding], deltas: Deltas, now: int
) -> list[NewChange]:
    """Store records in the order of discovery. Returns their changes, not yet numbered."""
    kinds = by_kind(catalog, findings)
    changes: list[NewChange] = []
    names = await learn_aliases(db, catalog, kinds, changes)
    for kind in sorted(kinds):
        batch = kinds[kind]
        known = names.get(batch.table.record.identity or "", NO_NAMES)
        batch.rename(known.stronger)
        if batch.table.per_job:
            changes += await _store_per_job(db, batch, deltas, now)
        else:
            changes += await _store_world(db, batch, known.renamed, deltas, now)
    return changes


async def _store_world(db: Db, batch: Found, renamed: set[str], deltas: Deltas, now: int) -> list[NewChange]:
    table, jobs, rows = batch.table, batch.jobs, batch.rows()
    first, again = first_and_again(batch.keys)
    merged = {key: rows[at] for key, at in first.items()}
    for key in again if table.plain else first:
        merged[key] = table.merge(None, [rows[at] for at in (first[key], *again.get(key, ()))])
    new = await _insert_new(db, table, merged, again, now)
    for job, count in Counter([jobs[first[key]] for key in new]).items():
        deltas.add(job, discoveries=count)
    kind, body = table.record.kind, table.body
    changes = [NewChange(kind, k, "new", new[k], jobs[at], body(merged[k])) for k, at in first.items() if k in new]
    if len(new) < len(first):
        old = {
            key: [(jobs[at], rows[at]) for at in (where, *again.get(key, ()))]
            for key, where in first.items()
            if key not in new
        }
        changed = await _merge_into(db, table, old, renamed, now)
        changes += [NewChange(kind, key, "changed", *changed[key]) for key in old if key in changed]
    return changes


async def _insert_new(
    db: Db, table: RecordTable, rows: Mapping[str, list[Any]], again: Mapping[str, Sized], now: int
) -> dict[str, int]:
    """Insert new rows. Waits for a transaction that is inserting the same key. Returns the version of each new one."""
    keys = sorted(rows)
    columns = columns_of(table, [rows[key] for key in keys])
    sql = statements_for(table)
    row = await db.fetchrow(sql.insert, *columns, _times_seen(keys, again), now)
    if row is None or not row[0]:
        return {}
    new = dict.fromkeys(row[0], 1)
    # A file of the archive is noted before its records are removed. So an insertion that comes after a removal, or has
    # waited for it, finds that there is an archive.
    if row[1]:
        new.update((key, version) for key, version in await db.fetch(sql.come_back, row[0]))
    return new


async def _merge_into(
    db: Db, table: RecordTable, old: Mapping[str, list[Sighting]], renamed: set[str], now: int
) -> dict[str, tuple[int, int, bytes]]:
    """Merge sightings into existing rows. Returns (version, job, body) of those that changed."""
    sql = statements_for(table)
    changed: dict[str, tuple[int, int, bytes]] = {}
    moved: list[tuple[Values, int, int]] = []
    noted: list[tuple[Values, int]] = []
    kept: list[tuple[str, int]] = []
    rows = await db.fetch(sql.lock, sorted(old))
    if len(rows) < len(old):
        raise TryAgain("another transaction has moved one of these records to the archive")
    for row in rows:
        version, gone_at, before = row[0], row[1], list(row[2:])
        key = before[table.key_index]
        job, values = _change(table, before, old[key])
        if job is not None or key in renamed or gone_at is not None:
            job = old[key][0][0] if job is None else job
            changed[key] = (version + 1, job, table.body(values))
            moved.append((values, version + 1, len(old[key])))
        elif values != before:
            noted.append((values, len(old[key])))
        else:
            kept.append((key, len(old[key])))
    if moved:
        columns = columns_of(table, [values for values, _, _ in moved])
        await db.execute(sql.update, *columns, as_json([m[1] for m in moved]), as_json([m[2] for m in moved]), now)
    if noted:
        await db.execute(
            sql.note, *quiet_columns(table, [values for values, _ in noted]), as_json([n[1] for n in noted]), now
        )
    if kept:
        await db.execute(sql.seen, [key for key, _ in kept], [times for _, times in kept], now)
    return changed


def _change(table: RecordTable, old: Values, sightings: Sequence[Sighting]) -> tuple[int | None, Values]:
    """Return the job whose answer first changed a field that is not quiet, if one did, and the merged values."""
    teller: int | None = None
    known = old
    for job, told in sightings:
        merged = table.merge(known, [_cleaned(told)])
        if teller is None and table.is_change(known, merged):
            teller = job
        known = merged
    return teller, known


async def _store_per_job(db: Db, batch: Found, deltas: Deltas, now: int) -> list[NewChange]:
    """The first in a job wins; later ones only raise `times_seen`. The change is stored without a body, because the row
    is final: the body of the change is read from the row."""
    table = batch.table
    first, again = first_and_again(list(zip(batch.jobs, batch.keys, strict=True)))
    names = sorted(
        first, key=itemgetter(1)
    )  # presorted: the statement sorts them by job as well, and so has less to do
    row = await db.fetchrow(
        statements_for(table).insert_per_job,
        *_final_columns(table, [batch.records[first[name]] for name in names], [key for _, key in names]),
        _times_seen(names, again),
        as_json([job for job, _ in names]),
        now,
    )
    new = set(zip(row[0] or (), row[1] or (), strict=True)) if row else set()
    for job, count in Counter([job for job, _ in new]).items():
        deltas.add(job, records=count)
    kind = table.record.kind
    return [NewChange(kind, name[1], "new", 1, name[0]) for name in first if name in new]


def columns_of(table: RecordTable, rows: list[list[Any]]) -> list[str | None]:
    """Return rows as parameters. NUL, which PostgreSQL's text cannot contain, is replaced; it is rare, so a whole
    column is checked at once."""
    types = statements_for(table).types
    columns = _encoded(types, rows)
    if any(_NUL_IN_JSON in c for kind, c in zip(types, columns, strict=True) if kind != JSON and c is not None):
        for row in rows:
            row[:] = _cleaned(row)
        columns = _encoded(types, rows)
    return columns


def quiet_columns(table: RecordTable, rows: list[Values]) -> list[str | None]:
    """The quiet columns of rows that are clean already, then their keys."""
    columns = list(zip(*rows, strict=True))
    types = statements_for(table).types
    quiet = [documents(columns[at]) if types[at] == JSON else as_json(columns[at]) for at in table.quiet]
    return [*quiet, as_json(columns[table.key_index])]


def _encoded(types: Sequence[str], rows: list[list[Any]]) -> list[str | None]:
    columns = zip(*rows, strict=True)
    return [documents(c) if kind == JSON else as_json(c) for kind, c in zip(types, columns, strict=True)]


def _final_columns(table: RecordTable, records: list[Record], keys: list[str]) -> list[str | None]:
    """Encode job-scoped records directly as parameters: nothing is merged into them, so they need not become rows
    first."""
    columns = [list(column) for column in zip(*map(table.pick, records), strict=True)]
    columns[table.key_index] = keys
    return [
        as_json(column) if kind == JSON else _final(column, encode)
        for kind, encode, column in zip(statements_for(table).types, table.encoders, columns, strict=True)
    ]


def _final(column: list[Any], encode: Encoder | None) -> str | None:
    if encode is not None:
        column = [None if value is None else encode(value) for value in column]
    text = as_json(column)
    return as_json(_cleaned(column)) if text is not None and _NUL_IN_JSON in text else text


def _cleaned(values: list[Any]) -> list[Any]:
    return [clean(value) if isinstance(value, str) else value for value in values]


def _times_seen(names: Sequence[N], again: Mapping[N, Sized]) -> str | None:
    return as_json([1 + len(again.get(name, ())) for name in names]) if again else None
