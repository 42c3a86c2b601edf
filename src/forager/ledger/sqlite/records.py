"""Storing what was found. World records merge into one row per natural key; job records keep the first of each job.

A field that is None says nothing, so it never overwrites. A change is written only where something really changed.
"""

import sqlite3
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

import orjson

from forager.core.record import Record
from forager.ledger.sqlite.changes import NewChange
from forager.ledger.sqlite.counters import Deltas
from forager.ledger.sqlite.memory import Memory
from forager.ledger.tables import RecordTable

Found = tuple[int, Record]
"""(job, record)"""


def store_records(
    db: sqlite3.Connection, memory: Memory, found: Sequence[Found], deltas: Deltas, now: int
) -> list[NewChange]:
    """Store records in the order of their finding; returns their changes, not yet numbered."""
    by_kind: defaultdict[str, list[Found]] = defaultdict(list)
    for item in found:
        by_kind[item[1].kind].append(item)
    names = _learn_aliases(db, memory, found)
    changes: list[NewChange] = []
    for kind, items in by_kind.items():
        table = memory.catalog.records[kind]
        store = _store_per_job if table.per_job else _store_world
        changes.extend(store(db, table, items, names.get(table.record.identity or "", {}), deltas, now))
    return changes


def _store_world(
    db: sqlite3.Connection, table: RecordTable, found: list[Found], names: dict[str, str], deltas: Deltas, now: int
) -> list[NewChange]:
    rows = _rows_by_key(db, table, (names.get(r.key(), r.key()) for _, r in found))
    new: dict[str, None] = {}
    changed: dict[str, None] = {}
    seen: defaultdict[str, int] = defaultdict(int)
    jobs: dict[str, int] = {}
    for job, record in found:
        key = names.get(record.key(), record.key())
        values = table.values(record)
        values[table.key_index] = key
        known = rows.get(key)
        if known is None:
            rows[key] = (1, values)
            new[key] = None
            jobs[key] = job
            deltas.add(job, discoveries=1)
        else:
            version, old = known
            merged = [o if v is None else v for v, o in zip(values, old, strict=True)]
            if merged != old:
                if key not in new and key not in changed:
                    changed[key] = None
                    jobs[key] = job
                    version += 1
                rows[key] = (version, merged)
        seen[key] += 1
    _insert(db, table, [(rows[key][1], seen[key], None) for key in new], now)
    _update(db, table, [(*rows[key], seen[key]) for key in changed], now)
    db.executemany(
        f"UPDATE {table.name} SET last_seen_at = ?, times_seen = times_seen + ?, gone_at = NULL"
        f" WHERE {table.record.key_field} = ?",
        [(now, seen[key], key) for key in seen if key not in new and key not in changed],
    )
    return [
        NewChange(
            table.record.kind,
            key,
            "new" if key in new else "changed",
            rows[key][0],
            jobs[key],
            table.body(rows[key][1]),
        )
        for key in (*new, *changed)
    ]


def _store_per_job(
    db: sqlite3.Connection, table: RecordTable, found: list[Found], names: dict[str, str], deltas: Deltas, now: int
) -> list[NewChange]:
    """The first in a job wins; later ones only raise `times_seen`. The change has no body: the row is final."""
    first: dict[tuple[int, str], list[Any]] = {}
    seen: defaultdict[tuple[int, str], int] = defaultdict(int)
    for job, record in found:
        key = names.get(record.key(), record.key())
        at = (job, key)
        seen[at] += 1
        if at not in first:
            values = table.values(record)
            values[table.key_index] = key
            first[at] = values
    field = table.record.key_field
    there = {
        (job, key)
        for job, key in db.execute(
            f"SELECT r.job_id, r.{field} FROM json_each(?) g JOIN {table.name} r"
            f" ON r.job_id = g.value->>0 AND r.{field} = g.value->>1",
            (orjson.dumps(list(first)).decode(),),
        )
    }
    new = [at for at in first if at not in there]
    _insert(db, table, [(first[at], seen[at], at[0]) for at in new], now)
    db.executemany(
        f"UPDATE {table.name} SET last_seen_at = ?, times_seen = times_seen + ? WHERE job_id = ? AND {field} = ?",
        [(now, seen[at], *at) for at in first if at in there],
    )
    for job, _ in new:
        deltas.add(job, records=1)
    return [NewChange(table.record.kind, key, "new", 1, job) for job, key in new]


def _rows_by_key(db: sqlite3.Connection, table: RecordTable, keys: Iterable[str]) -> dict[str, tuple[int, list[Any]]]:
    columns = ", ".join(f"r.{c}" for c in table.fields)
    rows = db.execute(
        f"SELECT r.version, {columns} FROM json_each(?) g JOIN {table.name} r ON r.{table.record.key_field} = g.value",
        (orjson.dumps(list(dict.fromkeys(keys))).decode(),),
    )
    return {row[1 + table.key_index]: (row[0], list(row[1:])) for row in rows}


def _insert(
    db: sqlite3.Connection, table: RecordTable, rows: list[tuple[list[Any], int, int | None]], now: int
) -> None:
    columns = ("job_id", *table.fields) if table.per_job else table.fields
    db.executemany(
        f"INSERT INTO {table.name} ({', '.join(columns)}, version, first_seen_at, last_seen_at, times_seen)"
        f" VALUES ({'?, ' * len(columns)}1, ?, ?, ?)",
        [(*((job,) if table.per_job else ()), *values, now, now, times) for values, times, job in rows],
    )


def _update(db: sqlite3.Connection, table: RecordTable, rows: list[tuple[int, list[Any], int]], now: int) -> None:
    sets = ", ".join(f"{c} = ?" for c in table.fields)
    db.executemany(
        f"UPDATE {table.name} SET {sets}, version = ?, last_seen_at = ?, times_seen = times_seen + ?, gone_at = NULL"
        f" WHERE {table.record.key_field} = ?",
        [(*values, version, now, times, values[table.key_index]) for version, values, times in rows],
    )


def _learn_aliases(db: sqlite3.Connection, memory: Memory, found: Sequence[Found]) -> dict[str, dict[str, str]]:
    """Weaker names of a thing, old and new, by identity. A row that stood under a weaker name gets the stronger one."""
    names: defaultdict[str, dict[str, str]] = defaultdict(dict)
    for identity in {r.identity for _, r in found if r.identity}:
        keys = {r.key() for _, r in found if r.identity == identity}
        new = {other: r.key() for _, r in found if r.identity == identity for other in r.other_keys()}
        rows = db.execute(
            "SELECT a.alias, a.key FROM json_each(?) g JOIN aliases a ON a.identity = ? AND a.alias = g.value",
            (orjson.dumps([*keys, *new]).decode(), identity),
        )
        known = dict(rows.fetchall())
        fresh = {alias: key for alias, key in new.items() if known.get(alias) != key}
        db.executemany(
            "INSERT INTO aliases (identity, alias, key) VALUES (?, ?, ?)"
            " ON CONFLICT (identity, alias) DO UPDATE SET key = excluded.key",
            [(identity, alias, key) for alias, key in fresh.items()],
        )
        for alias, key in fresh.items():
            _rename(db, memory, identity, alias, key)
        names[identity] = {**known, **new}
    return names


def _rename(db: sqlite3.Connection, memory: Memory, identity: str, alias: str, key: str) -> None:
    """Rows that stand under the weaker name go over to the stronger. Where both stand, a world row gives what the other
    lacks and goes; job rows stay as they were seen."""
    for table in memory.catalog.records.values():
        if table.record.identity != identity:
            continue
        field = table.record.key_field
        db.execute(f"UPDATE OR IGNORE {table.name} SET {field} = ? WHERE {field} = ?", (key, alias))
        if table.per_job:
            continue
        fill = ", ".join(f"{c} = coalesce({table.name}.{c}, weaker.{c})" for c in table.fields if c != field)
        db.execute(
            f"UPDATE {table.name} SET {fill} FROM {table.name} AS weaker"
            f" WHERE {table.name}.{field} = ? AND weaker.{field} = ?",
            (key, alias),
        )
        db.execute(f"DELETE FROM {table.name} WHERE {field} = ?", (alias,))
