"""Stores records. World-scoped records are merged into one row per key; job-scoped records keep the first of each job.

A field that is None never overwrites a stored value. A change is written only if a field changed that is not quiet, or
if a record that was gone is seen again. Rows are inserted and locked in key order, so that two settlements cannot
deadlock.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence, Sized
from dataclasses import dataclass
from functools import cache
from itertools import compress
from operator import itemgetter
from typing import Any, TypeVar

import orjson
from sqlalchemy.dialects import postgresql

from forager.core.ledger import Settlement
from forager.core.record import Record
from forager.ledger.catalog import Catalog
from forager.ledger.postgres.connection import Db, TryAgain, as_json, document, documents, pairs, rows_from
from forager.ledger.rules.changes import Deltas, NewChange, row_renamed
from forager.ledger.rules.records import (
    NO_NAMES,
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
from forager.sdk.queries import Encoder

# Aliases: a record may be seen under a weaker key before its stronger key is known. It is renamed when both are seen
# together.
#
# Renaming considers all stored rows, not only new aliases: a row that another session wrote under the weaker key at the
# same moment is renamed when the record is seen again.


# The records of a group of settlements, by kind. This is a hot path, so as few objects as possible are created.


Finding = tuple[int, Sequence[Record]]
"""(job, what one of its tasks found)"""
NamedRow = TypeVar("NamedRow")


@dataclass(slots=True)
class RecordsOfKind:
    """Records of one kind in the order of discovery. All lists have the same length."""

    table: RecordTable
    jobs: list[int]
    records: list[Record]
    keys: list[str]

    def rename(self, stronger: Mapping[str, str]) -> None:
        """Replace each key by its strongest alias."""
        if stronger:
            self.keys = [stronger.get(key, key) for key in self.keys]

    def rows(self) -> list[list[Any]]:
        """Return the records as rows of the table, under these keys."""
        values, index = self.table.values, self.table.key_index
        rows = [values(record) for record in self.records]
        for row, key in zip(rows, self.keys, strict=True):
            row[index] = key
        return rows


def by_kind(catalog: Catalog, findings: Sequence[Finding]) -> dict[str, RecordsOfKind]:
    jobs = [job for job, own in findings for _ in own]
    records = [record for _, own in findings for record in own]
    kinds = [record.kind for record in records]
    batches = {}
    for kind in dict.fromkeys(kinds):
        mine = [each == kind for each in kinds]
        table, own = catalog.records[kind], list(compress(records, mine))
        keys = [clean(record.key()) for record in own]
        batches[kind] = RecordsOfKind(table, list(compress(jobs, mine)), own, keys)
    return batches


def first_and_again(names: Sequence[NamedRow]) -> tuple[dict[NamedRow, int], dict[NamedRow, list[int]]]:
    """Return the first position of each key, and the further positions of keys that occur more than once."""
    first: dict[NamedRow, int] = {}
    again: dict[NamedRow, list[int]] = {}
    for at, name in enumerate(names):
        if first.setdefault(name, at) != at:
            again.setdefault(name, []).append(at)
    return first, again


async def learn_aliases(
    db: Db, catalog: Catalog, kinds: Mapping[str, RecordsOfKind], changes: list[NewChange]
) -> dict[str, Names]:
    """Store the aliases in these records, and return all known aliases by identity. `kinds` holds the records by
    kind."""
    identities = {batch.table.record.identity for batch in kinds.values()}
    return {
        identity: await _names(
            db, catalog, identity, [f for f in kinds.values() if f.table.record.identity == identity], changes
        )
        for identity in sorted(identity for identity in identities if identity)
    }


async def _names(
    db: Db, catalog: Catalog, identity: str, own: Sequence[RecordsOfKind], changes: list[NewChange]
) -> Names:
    shown = {
        clean(other): (key, job)
        for batch in own
        if batch.table.record.other_keys is not Record.other_keys
        for key, job, record in zip(batch.keys, batch.jobs, batch.records, strict=True)
        for other in record.other_keys()
    }
    asked = shown.keys() | {key for batch in own for key in batch.keys}
    known: dict[str, str] = pairs(await db.fetch(_KNOWN, identity, as_json([*asked])))
    mine = Names.resolved({**known, **{alias: key for alias, (key, _) in shown.items()}})
    strong = {alias: mine.stronger[alias] for alias in shown if mine.stronger[alias] != alias}
    await _learn(db, identity, {alias: key for alias, key in strong.items() if known.get(alias) != key})
    for table in catalog.records.values():
        if table.record.identity == identity:
            rename = _rename_per_job if table.per_job else _rename_world
            mine.renamed |= await rename(db, table, strong, {a: job for a, (_, job) in shown.items()}, changes)
    return mine


async def stronger_names(db: Db, table: RecordTable, keys: Iterable[str]) -> dict[str, str]:
    """Map each of these keys that is an alias to its stronger key."""
    identity = table.record.identity
    if identity is None:
        return {}
    return pairs(await db.fetch(_KNOWN, identity, as_json([clean(key) for key in keys])))


async def _learn(db: Db, identity: str, fresh: Mapping[str, str]) -> None:
    """Redirect the aliases of the weaker key to the stronger one, so that one lookup is always enough."""
    if not fresh:
        return
    weaker = sorted(fresh)
    values = (identity, weaker, [fresh[alias] for alias in weaker])
    await db.execute(
        "INSERT INTO aliases (identity, alias, key) SELECT $1, x.alias, x.key"
        " FROM unnest($2::text[], $3::text[]) AS x(alias, key) ORDER BY x.alias"
        " ON CONFLICT (identity, alias) DO UPDATE SET key = excluded.key",
        *values,
    )
    await db.execute(_TAKE_OVER, *values)


async def _rename_per_job(
    db: Db, table: RecordTable, strong: Mapping[str, str], jobs: Mapping[str, int], changes: list[NewChange]
) -> set[str]:
    """Rename job-scoped rows to the stronger key, unless the job saw the record under both: then they stay."""
    key = f'"{table.record.key_field}"'
    there = await _standing(db, table, strong)
    for alias in there:
        moved = await db.fetch(
            f"UPDATE {table.name} r SET {key} = $2 WHERE {key} = $1 AND NOT EXISTS"
            f" (SELECT 1 FROM {table.name} o WHERE o.job_id = r.job_id AND o.{key} = $2) RETURNING r.job_id, r.version",
            alias,
            strong[alias],
        )
        for job, version in moved:
            changes.extend(row_renamed(table.record, alias, strong[alias], job, version))
    return set()


async def _rename_world(
    db: Db, table: RecordTable, strong: Mapping[str, str], jobs: Mapping[str, int], changes: list[NewChange]
) -> set[str]:
    """Rename the row to the stronger key, with a `gone` change for the weaker one. If both rows exist, the weaker one
    is merged into the other and deleted."""
    renamed: set[str] = set()
    field_ = table.record.key_field
    for alias, version in (await _standing(db, table, strong)).items():
        key = strong[alias]
        moved = await db.fetchval(
            f'UPDATE {table.name} SET "{field_}" = $2 WHERE "{field_}" = $1 AND NOT EXISTS'
            f' (SELECT 1 FROM {table.name} WHERE "{field_}" = $2) RETURNING 1',
            alias,
            key,
        )
        if moved is None:
            await _merge(db, table, alias, key)
        body = orjson.dumps({field_: key})
        changes.append(NewChange(table.record.kind, alias, "gone", version + 1, jobs[alias], body))
        renamed.add(key)
    return renamed


async def _standing(db: Db, table: RecordTable, strong: Mapping[str, str]) -> dict[str, int]:
    """Lock and return the rows under a weaker key, with their versions."""
    if not strong:
        return {}
    key = f'"{table.record.key_field}"'
    rows = await db.fetch(
        f"SELECT {key}, version FROM {table.name} WHERE {key} = ANY($1::text[]) ORDER BY {key} FOR UPDATE",
        sorted(strong),
    )
    return pairs(rows)


async def _merge(db: Db, table: RecordTable, alias: str, key: str) -> None:
    name, field_ = table.name, f'"{table.record.key_field}"'
    fill = ", ".join(f'"{c}" = coalesce(r."{c}", weaker."{c}")' for c in table.fields if c != table.record.key_field)
    await db.execute(
        f"UPDATE {name} r SET {fill}, times_seen = r.times_seen + weaker.times_seen,"
        " version = greatest(r.version, weaker.version),"
        f" first_seen_at = least(r.first_seen_at, weaker.first_seen_at) FROM {name} AS weaker"
        f" WHERE r.{field_} = $2 AND weaker.{field_} = $1",
        alias,
        key,
    )
    await db.execute(f"DELETE FROM {name} WHERE {field_} = $1", alias)


_KNOWN = """
SELECT alias, key FROM aliases WHERE identity = $1 AND alias = ANY(ARRAY(SELECT json_array_elements_text($2::json)))
"""
_TAKE_OVER = """
UPDATE aliases a SET key = x.key FROM unnest($2::text[], $3::text[]) AS x(alias, key)
WHERE a.identity = $1 AND a.key = x.alias
"""


# The statements that store records, built once per table. `records.py` uses them.


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
    """Writes quiet columns of a row that was seen; empty if the table has no quiet columns."""
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

    Whether an archive exists is read from the sequence of its files, after the rows are inserted. A sequence has no
    versions, so its value is current, whereas the snapshot of the statement may be older than the first archive. The
    table itself is checked as well, because a copy of the data alone does not move the sequence.
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

    It comes after the insertion, which may have waited for the transaction that archived the same record and did not
    see its writes."""
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


async def _store_world(db: Db, batch: RecordsOfKind, renamed: set[str], deltas: Deltas, now: int) -> list[NewChange]:
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
    """Return the merged values, and the first job whose values changed a field that is not quiet (None if no job
    did)."""
    teller: int | None = None
    known = old
    for job, told in sightings:
        merged = table.merge(known, [_cleaned(told)])
        if teller is None and table.is_change(known, merged):
            teller = job
        known = merged
    return teller, known


async def _store_per_job(db: Db, batch: RecordsOfKind, deltas: Deltas, now: int) -> list[NewChange]:
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
    """Return the quiet columns of rows that are clean already, then their keys."""
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


# Writing records that were not seen: updates, things that are gone, and rows that failed validation.


_COLUMNS = RejectedRow._fields
_KEEP_REJECTED = f"""
INSERT INTO rejected ({", ".join(_COLUMNS)}, at)
SELECT x.job_id::bigint, x.task_id::bigint, x.kind, x.key, x.reason, x.payload, $7
FROM {rows_from([(name, name == "payload") for name in _COLUMNS])} AS x({", ".join(_COLUMNS)})
"""


async def store_in_order(
    db: Db, catalog: Catalog, settlements: Sequence[Settlement], deltas: Deltas, now: int
) -> list[NewChange]:
    """Store all observations of these settlements, those of each record in their order. Returns the changes."""
    changes: list[NewChange] = []
    for batch in in_batches(settlements):
        if batch.seen:
            changes += await store_records(db, catalog, batch.seen, deltas, now)
        if batch.unseen:
            changes += await update_unseen(db, catalog, batch.unseen, now)
    return changes


async def keep_rejected(db: Db, settlements: Sequence[Settlement], deltas: Deltas, now: int) -> None:
    """Keep the rows that failed validation, and count them on their jobs."""
    rows = rejected_rows(settlements)
    if not rows:
        return
    *columns, payloads = zip(*rows, strict=True)
    await db.execute(_KEEP_REJECTED, *map(as_json, columns), documents(payloads), now)
    for job, count in Counter(row.job_id for row in rows).items():
        deltas.add(job, rejected=count)


async def update_unseen(db: Db, catalog: Catalog, unseen: Sequence[Unseen], now: int) -> list[NewChange]:
    """Merge updates into stored rows, and mark what is gone. Returns the changes."""
    kinds: defaultdict[str, list[Unseen]] = defaultdict(list)
    for each in unseen:
        kinds[each.record.kind].append(each)
    changes: list[NewChange] = []
    for kind in sorted(kinds):
        table = catalog.records[kind]
        stronger = await stronger_names(db, table, [each.record.key() for each in kinds[kind]])
        told = by_key(table, kinds[kind], stronger)
        rows = [
            StoredRow(row[0], row[1], list(row[2:])) for row in await db.fetch(statements_for(table).lock, sorted(told))
        ]
        result = restate(table, told, {row.values[table.key_index]: row for row in rows})
        await _write(db, table, result, now)
        changes += result.changes
    return changes


async def _write(db: Db, table: RecordTable, result: Restatement, now: int) -> None:
    sql = statements_for(table)
    if result.restated:
        gone = [row.gone for row in result.restated]
        await db.execute(
            sql.restate,
            *columns_of(table, [row.values for row in result.restated]),
            as_json([row.version for row in result.restated]),
            as_json([None if each is None else clean(each.reason) for each in gone]),
            documents([None if each is None else lenient_json(each.evidence) for each in gone]),
            now,
        )
    if result.noted:
        await db.execute(sql.note_unseen, *quiet_columns(table, result.noted))
