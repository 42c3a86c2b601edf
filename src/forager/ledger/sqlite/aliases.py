"""Weaker and stronger names of one thing. What stood under a weaker name goes over to the stronger, for good."""

import sqlite3
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

import orjson

from forager.core.record import Record
from forager.ledger.schema.record_tables import RecordTable
from forager.ledger.shared.alias_names import NO_NAMES, Names
from forager.ledger.shared.changelog import NewChange, row_renamed
from forager.ledger.shared.text import clean
from forager.ledger.sqlite.writer_state import Memory

Found = tuple[int, Record]
"""(job, record)"""


def learn_aliases(
    db: sqlite3.Connection, memory: Memory, found: Mapping[str, Sequence[Found]], changes: list[NewChange]
) -> dict[str, Names]:
    """Weaker names of things, old and new, by identity; `found` is by kind. A row that stood under a weaker name gets
    the stronger one."""
    of: defaultdict[str, list[Sequence[Found]]] = defaultdict(list)
    for kind, items in found.items():
        if identity := memory.catalog.records[kind].record.identity:
            of[identity].append(items)
    return {identity: _names(db, memory, identity, kinds, changes) for identity, kinds in of.items()}


def _names(
    db: sqlite3.Connection, memory: Memory, identity: str, found: list[Sequence[Found]], changes: list[NewChange]
) -> Names:
    shown = {
        clean(other): (clean(r.key()), job)
        for kind in found
        if _shows(kind)
        for job, r in kind
        for other in r.other_keys()
    }
    if not shown and identity not in memory.aliased:
        return NO_NAMES
    keys = {clean(r.key()) for kind in found for _, r in kind}
    known = _known(db, identity, [*keys, *shown])
    says = {**known, **{alias: key for alias, (key, _) in shown.items()}}
    mine = Names.said(says)
    for alias, (_, job) in shown.items():
        key = mine.stronger[alias]
        if key not in (alias, known.get(alias)):
            memory.aliased.add(identity)
            _learn(db, identity, alias, key)
            if _rename(db, memory, identity, alias, key, job, changes):
                mine.renamed.add(key)
    return mine


def stronger_names(db: sqlite3.Connection, memory: Memory, table: RecordTable, keys: Iterable[str]) -> dict[str, str]:
    """The stronger name of each of these keys that is a weaker one."""
    identity = table.record.identity
    if identity is None or identity not in memory.aliased:
        return {}
    return _known(db, identity, [clean(key) for key in keys])


def _known(db: sqlite3.Connection, identity: str, names: Sequence[str]) -> dict[str, str]:
    rows = db.execute(
        "SELECT a.alias, a.key FROM json_each(?) g JOIN aliases a ON a.identity = ? AND a.alias = g.value",
        (orjson.dumps(names).decode(), identity),
    )
    return dict(rows.fetchall())


def _shows(kind: Sequence[Found]) -> bool:
    """Whether records of a kind have other names at all: most kinds do not, and every record would be asked."""
    return type(kind[0][1]).other_keys is not Record.other_keys


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
