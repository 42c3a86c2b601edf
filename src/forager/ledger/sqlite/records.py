"""Stores records. World-scoped records are merged into one row per key; job-scoped records keep the first of each job.

A field that is None never overwrites a stored value. A change is written only if a field changed that is not quiet, or
if a record that was gone is seen again. Rows are written in key order: adjacent index entries cost a third less than
scattered ones.
"""

import sqlite3
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any

import orjson

from forager.ledger.schema.record_tables import RecordTable, Values
from forager.ledger.shared.alias_names import NO_NAMES
from forager.ledger.shared.changelog import NewChange
from forager.ledger.shared.counting import Deltas
from forager.ledger.shared.text import NUL, clean
from forager.ledger.shared.unseen import StoredRow
from forager.ledger.sqlite.aliases import Found, learn_aliases
from forager.ledger.sqlite.archive import archived_versions
from forager.ledger.sqlite.bulk import insert_many
from forager.ledger.sqlite.writer_state import Memory

FoundRow = tuple[int, str, Values]
"""(job, key, columns)"""
_JOB = itemgetter(0)
_KEY = itemgetter(1)
_JOB_AND_KEY = itemgetter(0, 1)


def store_records(
    db: sqlite3.Connection, memory: Memory, records: Sequence[Found], deltas: Deltas, now: int
) -> list[NewChange]:
    """Store records, those with the same key in the order of discovery. Returns their changes, not yet numbered."""
    by_kind: defaultdict[str, list[Found]] = defaultdict(list)
    for item in records:
        by_kind[item[1].kind].append(item)
    changes: list[NewChange] = []
    names = learn_aliases(db, memory, by_kind, changes)
    for kind, items in by_kind.items():
        table = memory.catalog.records[kind]
        known = names.get(table.record.identity or "", NO_NAMES)
        rows = _as_rows(table, items, known.stronger)
        if table.per_job:
            changes.extend(_store_per_job(db, table, rows, deltas, now))
        else:
            changes.extend(_store_world(db, memory, table, rows, known.renamed, deltas, now))
    return changes


def _as_rows(table: RecordTable, records: list[Found], stronger: dict[str, str]) -> list[FoundRow]:
    """Return each record's stored key and its columns. Computed once, because this is a hot path."""
    rows: list[FoundRow] = []
    index, values_of = table.key_index, table.values
    for job, record in records:
        values = values_of(record)
        key = values[index]
        if NUL in key:
            key = values[index] = clean(key)
        if key in stronger:
            key = values[index] = stronger[key]
        rows.append((job, key, values))
    rows.sort(key=_JOB_AND_KEY if table.per_job else _KEY)
    return rows


def _store_world(
    db: sqlite3.Connection,
    memory: Memory,
    table: RecordTable,
    sightings: list[FoundRow],
    renamed: set[str],
    deltas: Deltas,
    now: int,
) -> list[NewChange]:
    first, again = _apart(sightings, _KEY)
    merged = {
        key: table.merge(None, [first[key][2], *(values for _, _, values in again.get(key, ()))])
        for key in (again if table.plain else first)
    }
    rows = [
        (*merged.get(key, row[2]), 1, now, now, 1 + len(again.get(key, ())), now)
        if merged
        else (*row[2], 1, now, now, 1, now)
        for key, row in first.items()
    ]
    known = _insert(db, table, rows, list(first))
    new = [row for row in first.values() if row[1] not in known]
    for job, count in Counter(map(_JOB, new)).items():
        deltas.add(job, discoveries=count)
    kind, body = table.record.kind, table.body
    back = _come_back(db, memory, table, [key for _, key, _ in new])
    changes = [
        NewChange(kind, key, "new", 1 + back.get(key, 0), job, body(merged.get(key, values)))
        for job, key, values in new
    ]
    if known:
        sights = {key: [row, *again.get(key, ())] for key, row in first.items() if key in known}
        changes += _see_again(db, table, sights, renamed, now)
    return changes


def _come_back(db: sqlite3.Connection, memory: Memory, table: RecordTable, keys: list[str]) -> dict[str, int]:
    """Give new rows of archived records the version after the archived one. Returns the archived versions."""
    back = archived_versions(db, memory, table, keys)
    if back:
        db.executemany(
            f"UPDATE {table.name} SET version = ? WHERE {table.record.key_field} = ?",
            [(version + 1, key) for key, version in back.items()],
        )
    return back


def _apart(
    rows: list[FoundRow], name: Callable[[FoundRow], Any]
) -> tuple[dict[Any, FoundRow], dict[Any, list[FoundRow]]]:
    """Split rows into the first of each key, and the others for keys with several."""
    first: dict[Any, FoundRow] = {}
    again: defaultdict[Any, list[FoundRow]] = defaultdict(list)
    for row in rows:
        if first.setdefault(name(row), row) is not row:
            again[name(row)].append(row)
    return first, again


def _see_again(
    db: sqlite3.Connection, table: RecordTable, sights: dict[str, list[FoundRow]], renamed: set[str], now: int
) -> list[NewChange]:
    """Merge records into rows that existed before."""
    changes: list[NewChange] = []
    changed: list[tuple[Any, ...]] = []
    noted: list[tuple[Any, ...]] = []
    same: list[tuple[Any, ...]] = []
    for key, (version, gone_at, old) in rows_by_key(db, table, sights).items():
        rows = sights[key]
        job, values = _change(table, old, rows)
        if job is None and key not in renamed and gone_at is None:
            if values is old or values == old:
                same.append((now, len(rows), key))
            else:
                noted.append((*(values[index] for index in table.quiet), now, len(rows), key))
            continue
        changed.append((*values, version + 1, now, now, len(rows), key))
        job = rows[0][0] if job is None else job
        changes.append(NewChange(table.record.kind, key, "changed", version + 1, job, table.body(values)))
    seen = f"last_seen_at = ?, times_seen = times_seen + ? WHERE {table.record.key_field} = ?"
    back = "version = ?, changed_at = ?, gone_at = NULL, gone_reason = NULL, gone_evidence = NULL"
    db.executemany(f"UPDATE {table.name} SET {sets(table.fields)}, {back}, {seen}", changed)
    if noted:
        quiet = sets(table.fields[index] for index in table.quiet)
        db.executemany(f"UPDATE {table.name} SET {quiet}, {seen}", noted)
    db.executemany(f"UPDATE {table.name} SET {seen}", same)
    return changes


def sets(columns: Iterable[str]) -> str:
    return ", ".join(f"{column} = ?" for column in columns)


def _change(table: RecordTable, old: Values, rows: list[FoundRow]) -> tuple[int | None, Values]:
    """Return the job whose answer first changed a field that is not quiet, if one did, and the merged values."""
    teller: int | None = None
    known = old
    for job, _, values in rows:
        merged = table.merge(known, [values])
        if teller is None and table.is_change(known, merged):
            teller = job
        known = merged
    return teller, known


def _store_per_job(
    db: sqlite3.Connection, table: RecordTable, records: list[FoundRow], deltas: Deltas, now: int
) -> list[NewChange]:
    """The first in a job wins; later ones only raise `times_seen`. The change is stored without a body, because the row
    is final: the body of the change is read from the row."""
    first, again = _apart(records, _JOB_AND_KEY)
    rows = [
        (job, *values, 1, now, now, 1 + len(again.get((job, key), ()))) if again else (job, *values, 1, now, now, 1)
        for job, key, values in first.values()
    ]
    known = _insert(db, table, rows, list(first))
    if known:
        db.executemany(
            f"UPDATE {table.name} SET last_seen_at = ?, times_seen = times_seen + ?"
            f" WHERE job_id = ? AND {table.record.key_field} = ?",
            [(now, 1 + len(again.get(at, ())), *at) for at in known],
        )
    new = [at for at in first if at not in known]
    for job, count in Counter(map(_JOB, new)).items():
        deltas.add(job, records=count)
    return [NewChange(table.record.kind, key, "new", 1, job) for job, key in new]


def rows_by_key(db: sqlite3.Connection, table: RecordTable, keys: Iterable[str]) -> dict[str, StoredRow]:
    """Return the world-scoped rows with these keys."""
    columns = ", ".join(f"r.{c}" for c in table.fields)
    rows = db.execute(
        f"SELECT r.version, r.gone_at, {columns} FROM json_each(?) g"
        f" JOIN {table.name} r ON r.{table.record.key_field} = g.value",
        (orjson.dumps(list(keys)).decode(),),
    )
    return {row[2 + table.key_index]: StoredRow(row[0], row[1], list(row[2:])) for row in rows}


def _insert(db: sqlite3.Connection, table: RecordTable, rows: list[tuple[Any, ...]], names: list[Any]) -> set[Any]:
    """Insert new rows. Returns the keys that existed before.

    Most records of a first run are new, so nothing is read before the insert; only if it refused some are those looked
    up.
    """
    (newest,) = db.execute(f"SELECT coalesce(max(id), 0) FROM {table.name}").fetchone()
    before = db.total_changes
    insert_many(
        db,
        f"{table.name} ({'job_id, ' if table.per_job else ''}{', '.join(table.fields)},"
        f" version, first_seen_at, last_seen_at, times_seen{'' if table.per_job else ', changed_at'})",
        rows,
        "ON CONFLICT DO NOTHING",
    )
    if db.total_changes - before == len(rows):
        return set()
    return _older(db, table, names, newest)


def _older(db: sqlite3.Connection, table: RecordTable, names: list[Any], newest: int) -> set[Any]:
    """Return those of these keys whose row is not newer than `newest`."""
    key = table.record.key_field
    which = f"FROM json_each(?) g CROSS JOIN {table.name} r ON r.{key} = g.value WHERE r.id <= ?"
    if not table.per_job:
        rows = db.execute(f"SELECT r.{key} {which}", (orjson.dumps(names).decode(), newest))
        return {name for (name,) in rows}
    there: set[Any] = set()
    for job, keys in groupby(names, itemgetter(0)):
        asked = orjson.dumps([key for _, key in keys]).decode()
        there.update(db.execute(f"SELECT r.job_id, r.{key} {which} AND r.job_id = ?", (asked, newest, job)))
    return there
