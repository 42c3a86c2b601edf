"""Storing what was found. World records merge into one row per natural key; job records keep the first of each job.

A field that is None says nothing, so it never overwrites. A change is written only where something really changed.
"""

import sqlite3
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson

from forager.core.record import Record
from forager.ledger.changelog import NewChange
from forager.ledger.counting import Deltas
from forager.ledger.sqlite.bulk import insert_many
from forager.ledger.sqlite.memory import Memory
from forager.ledger.tables import RecordTable

Found = tuple[int, Record]
"""(job, record)"""
FoundRow = tuple[int, str, list[Any]]
"""(job, key, columns)"""


def store_records(
    db: sqlite3.Connection, memory: Memory, found: Sequence[Found], deltas: Deltas, now: int
) -> list[NewChange]:
    """Store records in the order of their finding; returns their changes, not yet numbered."""
    by_kind: defaultdict[str, list[Found]] = defaultdict(list)
    for item in found:
        by_kind[item[1].kind].append(item)
    changes: list[NewChange] = []
    names = _learn_aliases(db, memory, found, changes)
    for kind, items in by_kind.items():
        table = memory.catalog.records[kind]
        known = names.get(table.record.identity or "", _NO_NAMES)
        rows = _as_rows(table, items, known.stronger)
        if table.per_job:
            changes.extend(_store_per_job(db, table, rows, deltas, now))
        else:
            changes.extend(_store_world(db, table, rows, known.renamed, deltas, now))
    return changes


def _as_rows(table: RecordTable, found: list[Found], stronger: dict[str, str]) -> list[FoundRow]:
    """Each record's key, as it is known, and its columns: worked out once, since every record passes here."""
    rows: list[FoundRow] = []
    index = table.key_index
    for job, record in found:
        values = table.values(record)
        key = values[index] = stronger.get(values[index], values[index])
        rows.append((job, key, values))
    return rows


@dataclass(slots=True)
class _Names:
    """By which names the things of one identity are known."""

    stronger: dict[str, str] = field(default_factory=dict)
    renamed: set[str] = field(default_factory=set)
    """Keys whose row stood under a weaker name until now: that is a change, whatever else the answer says."""


_NO_NAMES = _Names()


def _store_world(
    db: sqlite3.Connection, table: RecordTable, found: list[FoundRow], renamed: set[str], deltas: Deltas, now: int
) -> list[NewChange]:
    rows = _rows_by_key(db, table, (key for _, key, _ in found))
    new: dict[str, None] = {}
    changed: dict[str, None] = {}
    seen: defaultdict[str, int] = defaultdict(int)
    jobs: dict[str, int] = {}
    for job, key, values in found:
        known = rows.get(key)
        if known is None:
            rows[key] = (1, values)
            new[key] = None
            jobs[key] = job
        else:
            version, old = known
            merged = [o if v is None else v for v, o in zip(values, old, strict=True)]
            if merged != old or key in renamed:
                if key not in new and key not in changed:
                    changed[key] = None
                    jobs[key] = job
                    version += 1
                rows[key] = (version, merged)
        seen[key] += 1
    for job, count in Counter(jobs[key] for key in new).items():
        deltas.add(job, discoveries=count)
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
    db: sqlite3.Connection, table: RecordTable, found: list[FoundRow], deltas: Deltas, now: int
) -> list[NewChange]:
    """The first in a job wins; later ones only raise `times_seen`. The change has no body: the row is final."""
    first: dict[tuple[int, str], list[Any]] = {}
    seen: defaultdict[tuple[int, str], int] = defaultdict(int)
    for job, key, values in found:
        at = (job, key)
        seen[at] += 1
        first.setdefault(at, values)
    key_field = table.record.key_field
    there = {
        (job, key)
        for job, key in db.execute(
            f"SELECT r.job_id, r.{key_field} FROM json_each(?) g JOIN {table.name} r"
            f" ON r.job_id = g.value->>0 AND r.{key_field} = g.value->>1",
            (orjson.dumps(list(first)).decode(),),
        )
    }
    new = [at for at in first if at not in there]
    _insert(db, table, [(first[at], seen[at], at[0]) for at in new], now)
    db.executemany(
        f"UPDATE {table.name} SET last_seen_at = ?, times_seen = times_seen + ? WHERE job_id = ? AND {key_field} = ?",
        [(now, seen[at], *at) for at in first if at in there],
    )
    for job, count in Counter(job for job, _ in new).items():
        deltas.add(job, records=count)
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
    insert_many(
        db,
        f"{table.name} ({', '.join(columns)}, version, first_seen_at, last_seen_at, times_seen)",
        [(*((job,) if table.per_job else ()), *values, 1, now, now, times) for values, times, job in rows],
    )


def _update(db: sqlite3.Connection, table: RecordTable, rows: list[tuple[int, list[Any], int]], now: int) -> None:
    sets = ", ".join(f"{c} = ?" for c in table.fields)
    db.executemany(
        f"UPDATE {table.name} SET {sets}, version = ?, last_seen_at = ?, times_seen = times_seen + ?, gone_at = NULL"
        f" WHERE {table.record.key_field} = ?",
        [(*values, version, now, times, values[table.key_index]) for version, values, times in rows],
    )


def _learn_aliases(
    db: sqlite3.Connection, memory: Memory, found: Sequence[Found], changes: list[NewChange]
) -> dict[str, _Names]:
    """Weaker names of a thing, old and new, by identity. A row that stood under a weaker name gets the stronger one."""
    names: dict[str, _Names] = {}
    for identity in {r.identity for _, r in found if r.identity}:
        keys = {r.key() for _, r in found if r.identity == identity}
        shown = {other: (r.key(), job) for job, r in found if r.identity == identity for other in r.other_keys()}
        rows = db.execute(
            "SELECT a.alias, a.key FROM json_each(?) g JOIN aliases a ON a.identity = ? AND a.alias = g.value",
            (orjson.dumps([*keys, *shown]).decode(), identity),
        )
        known = dict(rows.fetchall())
        says = {**known, **{alias: key for alias, (key, _) in shown.items()}}
        mine = names[identity] = _Names({name: _strongest(name, says) for name in says})
        for alias, (_, job) in shown.items():
            key = mine.stronger[alias]
            if key not in (alias, known.get(alias)):
                _learn(db, identity, alias, key)
                if _rename(db, memory, identity, alias, key, job, changes):
                    mine.renamed.add(key)
    return names


def _strongest(name: str, says: dict[str, str]) -> str:
    passed = {name}
    while name in says and says[name] not in passed:
        name = says[name]
        passed.add(name)
    return name


def _learn(db: sqlite3.Connection, identity: str, alias: str, key: str) -> None:
    """Whatever was an alias of the weaker name is one of the stronger from now on, so that one look is enough."""
    db.execute("UPDATE aliases SET key = ? WHERE identity = ? AND key = ?", (key, identity, alias))
    db.execute(
        "INSERT INTO aliases (identity, alias, key) VALUES (?, ?, ?)"
        " ON CONFLICT (identity, alias) DO UPDATE SET key = excluded.key",
        (identity, alias, key),
    )


def _rename(
    db: sqlite3.Connection, memory: Memory, identity: str, alias: str, key: str, job: int, changes: list[NewChange]
) -> bool:
    """Rows that stand under the weaker name go over to the stronger, and the log says that the weaker one is gone.

    Where both stand, a world row gives what the other lacks and goes; job rows stay as they were seen.
    """
    renamed = False
    for table in memory.catalog.records.values():
        if table.record.identity != identity:
            continue
        field_ = table.record.key_field
        if table.per_job:
            db.execute(f"UPDATE OR IGNORE {table.name} SET {field_} = ? WHERE {field_} = ?", (key, alias))
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
    """Does nothing where the weaker row could simply take the stronger name."""
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
