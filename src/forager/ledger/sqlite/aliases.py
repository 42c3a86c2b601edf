"""Aliases: a record may be seen under a weaker key before its stronger key is known. It then moves to the stronger key
for good."""

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
    """Return whether a kind has aliases at all. Most do not, and checking every record would be slow."""
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
