"""Stores records. World-scoped records are merged into one row per key; job-scoped records keep the first of each job.

A field that is None never overwrites a stored value. A change is written only if a field changed that is not quiet, or
if a record that was gone is seen again. Rows are written in key order: adjacent index entries cost a third less than
scattered ones.
"""

import sqlite3
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any

import orjson

from forager.core.ledger import Settlement
from forager.core.record import Record
from forager.ledger.rules.changes import Deltas, NewChange, row_renamed
from forager.ledger.rules.records import (
    NO_NAMES,
    NUL,
    Names,
    RejectedRow,
    Restatement,
    StoredRow,
    Unseen,
    by_key,
    clean,
    in_batches,
    lenient_json,
    rejected_rows,
    restate,
)
from forager.ledger.schema.record_tables import RecordTable, Values
from forager.ledger.sqlite.connection import insert_many
from forager.ledger.sqlite.state import Memory
from forager.ledger.sqlite.upkeep import archived_versions

Found = tuple[int, Record]
"""(job, record)"""
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
    """Return the merged values, and the first job whose values changed a field that is not quiet (None if no job
    did)."""
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


# Writing records that were not seen: updates, things that are gone, and rows that failed validation.


def store_in_order(
    db: sqlite3.Connection, memory: Memory, settlements: Sequence[Settlement], deltas: Deltas, now: int
) -> list[NewChange]:
    """Store all observations of these settlements, those of each record in their order. Returns the changes."""
    changes: list[NewChange] = []
    for batch in in_batches(settlements):
        seen = [(job, record) for job, records in batch.seen for record in records]
        if seen:
            changes += store_records(db, memory, seen, deltas, now)
        if batch.unseen:
            changes += update_unseen(db, memory, batch.unseen, now)
    return changes


def keep_rejected(db: sqlite3.Connection, settlements: Sequence[Settlement], deltas: Deltas, now: int) -> None:
    """Keep the rows that failed validation, and count them on their jobs."""
    rows = rejected_rows(settlements)
    if rows:
        insert_many(db, f"rejected ({', '.join(RejectedRow._fields)}, at)", [(*row, now) for row in rows])
    for job, count in Counter(map(_JOB, rows)).items():
        deltas.add(job, rejected=count)


def update_unseen(db: sqlite3.Connection, memory: Memory, unseen: Sequence[Unseen], now: int) -> list[NewChange]:
    """Merge updates into stored rows, and mark what is gone. Returns the changes."""
    kinds: defaultdict[str, list[Unseen]] = defaultdict(list)
    for each in unseen:
        kinds[each.record.kind].append(each)
    changes: list[NewChange] = []
    for kind, own in kinds.items():
        table = memory.catalog.records[kind]
        stronger = stronger_names(db, memory, table, [each.record.key() for each in own])
        told = by_key(table, own, stronger)
        result = restate(table, told, rows_by_key(db, table, told))
        _write(db, table, result, now)
        changes += result.changes
    return changes


def _write(db: sqlite3.Connection, table: RecordTable, result: Restatement, now: int) -> None:
    key = table.record.key_field
    fields = sets(table.fields)
    changed = [row for row in result.restated if row.gone is None]
    db.executemany(
        f"UPDATE {table.name} SET {fields}, version = ?, changed_at = ? WHERE {key} = ?",
        [(*row.values, row.version, now, row.values[table.key_index]) for row in changed],
    )
    db.executemany(
        f"UPDATE {table.name} SET {fields}, version = ?, changed_at = ?, gone_at = ?, gone_reason = ?,"
        f" gone_evidence = ? WHERE {key} = ?",
        [
            (
                *row.values,
                row.version,
                now,
                now,
                clean(row.gone.reason),
                lenient_json(row.gone.evidence),
                row.values[table.key_index],
            )
            for row in result.restated
            if row.gone is not None
        ],
    )
    if result.noted:
        quiet = sets(table.fields[index] for index in table.quiet)
        db.executemany(
            f"UPDATE {table.name} SET {quiet} WHERE {key} = ?",
            [(*(values[index] for index in table.quiet), values[table.key_index]) for values in result.noted],
        )


# Aliases: a record may be seen under a weaker key before its stronger key is known. From then on it has the stronger
# key.


def learn_aliases(
    db: sqlite3.Connection, memory: Memory, records: Mapping[str, Sequence[Found]], changes: list[NewChange]
) -> dict[str, Names]:
    """Store the aliases in these records, and return all known aliases by identity. Rows under a weaker key are
    renamed. `found` holds the records by kind."""
    of: defaultdict[str, list[Sequence[Found]]] = defaultdict(list)
    for kind, items in records.items():
        if identity := memory.catalog.records[kind].record.identity:
            of[identity].append(items)
    return {identity: _names(db, memory, identity, kinds, changes) for identity, kinds in of.items()}


def _names(
    db: sqlite3.Connection, memory: Memory, identity: str, records: list[Sequence[Found]], changes: list[NewChange]
) -> Names:
    shown = {
        clean(other): (clean(r.key()), job)
        for kind in records
        if _shows(kind)
        for job, r in kind
        for other in r.other_keys()
    }
    if not shown and identity not in memory.aliased:
        return NO_NAMES
    keys = {clean(r.key()) for kind in records for _, r in kind}
    known = _known(db, identity, [*keys, *shown])
    says = {**known, **{alias: key for alias, (key, _) in shown.items()}}
    mine = Names.resolved(says)
    for alias, (_, job) in shown.items():
        key = mine.stronger[alias]
        if key not in (alias, known.get(alias)):
            memory.aliased.add(identity)
            _learn(db, identity, alias, key)
            if _rename(db, memory, identity, alias, key, job, changes):
                mine.renamed.add(key)
    return mine


def stronger_names(db: sqlite3.Connection, memory: Memory, table: RecordTable, keys: Iterable[str]) -> dict[str, str]:
    """Map each of these keys that is an alias to its stronger key."""
    identity = table.record.identity
    if identity is None or identity not in memory.aliased:
        return {}
    return _known(db, identity, [clean(key) for key in keys])


def _known(db: sqlite3.Connection, identity: str, names: Sequence[str]) -> dict[str, str]:
    rows = db.execute(
        "SELECT a.alias, a.key FROM json_each(?) g CROSS JOIN aliases a ON a.identity = ? AND a.alias = g.value",
        (orjson.dumps(names).decode(), identity),
    )
    return dict(rows.fetchall())


def _shows(kind: Sequence[Found]) -> bool:
    """Return whether a kind has aliases. Most do not, and checking every record would be slow."""
    return type(kind[0][1]).other_keys is not Record.other_keys


def _learn(db: sqlite3.Connection, identity: str, alias: str, key: str) -> None:
    """Redirect the aliases of the weaker key to the stronger one, so that one lookup is always enough."""
    db.execute("UPDATE aliases SET key = ? WHERE identity = ? AND key = ?", (key, identity, alias))
    db.execute(
        "INSERT INTO aliases (identity, alias, key) VALUES (?, ?, ?)"
        " ON CONFLICT (identity, alias) DO UPDATE SET key = excluded.key",
        (identity, alias, key),
    )


def _rename(
    db: sqlite3.Connection, memory: Memory, identity: str, alias: str, key: str, job: int, changes: list[NewChange]
) -> bool:
    """Rename rows from the weaker key to the stronger one, with a `gone` change for the weaker key.

    If both rows exist, a world row is merged into the other and deleted; job-scoped rows stay as they were seen.
    """
    renamed = False
    for table in memory.catalog.records.values():
        if table.record.identity != identity:
            continue
        field_ = table.record.key_field
        if table.per_job:
            moved = db.execute(
                f"UPDATE OR IGNORE {table.name} SET {field_} = ? WHERE {field_} = ? RETURNING job_id, version",
                (key, alias),
            )
            changes.extend(c for of, version in moved for c in row_renamed(table.record, alias, key, of, version))
            continue
        row = db.execute(f"SELECT version FROM {table.name} WHERE {field_} = ?", (alias,)).fetchone()
        if row is None:
            continue
        db.execute(f"UPDATE OR IGNORE {table.name} SET {field_} = ? WHERE {field_} = ?", (key, alias))
        _merge(db, table, alias, key)
        body = orjson.dumps({field_: key})
        changes.append(NewChange(table.record.kind, alias, "gone", row[0] + 1, job, body))
        renamed = True
    return renamed


def _merge(db: sqlite3.Connection, table: RecordTable, alias: str, key: str) -> None:
    """Merge the weaker row into the stronger one. Does nothing if the weaker row could simply be renamed."""
    name, field_ = table.name, table.record.key_field
    fill = ", ".join(f"{c} = coalesce({name}.{c}, weaker.{c})" for c in table.fields if c != field_)
    db.execute(
        f"UPDATE {name} SET {fill}, times_seen = {name}.times_seen + weaker.times_seen,"
        f" version = max({name}.version, weaker.version),"
        f" first_seen_at = min({name}.first_seen_at, weaker.first_seen_at) FROM {name} AS weaker"
        f" WHERE {name}.{field_} = ? AND weaker.{field_} = ?",
        (key, alias),
    )
    db.execute(f"DELETE FROM {name} WHERE {field_} = ?", (alias,))
