"""Aliases: a record may be seen under a weaker key before its stronger key is known. It is renamed when both are seen
together.

Renaming considers all stored rows, not only new aliases: a row that another session wrote under the weaker key at the
same moment is renamed when the record is seen again.
"""

from collections.abc import Iterable, Mapping, Sequence

import orjson

from forager.core.record import Record
from forager.ledger.catalog import Catalog
from forager.ledger.postgres.arrays import as_json
from forager.ledger.postgres.connection import Db, pairs
from forager.ledger.postgres.records_by_kind import Found
from forager.ledger.schema.record_tables import RecordTable
from forager.ledger.shared.alias_names import Names
from forager.ledger.shared.changelog import NewChange, row_renamed
from forager.ledger.shared.text import clean


async def learn_aliases(
    db: Db, catalog: Catalog, kinds: Mapping[str, Found], changes: list[NewChange]
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


async def _names(db: Db, catalog: Catalog, identity: str, own: Sequence[Found], changes: list[NewChange]) -> Names:
    shown = {
        clean(other): (key, job)
        for batch in own
        if batch.table.record.other_keys is not Record.other_keys
        for key, job, record in zip(batch.keys, batch.jobs, batch.records, strict=True)
        for other in record.other_keys()
    }
    asked = shown.keys() | {key for batch in own for key in batch.keys}
    known: dict[str, str] = pairs(await db.fetch(_KNOWN, identity, as_json([*asked])))
    mine = Names.said({**known, **{alias: key for alias, (key, _) in shown.items()}})
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
