"""Records as of a moment: what each of them said then, from its row if it has not changed since, else from the log.

Quiet fields, `last_seen_at` and `times_seen` have no history: they are empty here. A record that has been merged into
another since is listed once, under a name that it had.
"""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from pydantic import TypeAdapter, ValidationError

from forager.core.errors import FieldError, Rejected
from forager.kit.queries import Database, Page, Row, at, bare_type, columns_of, loads, walk
from forager.ledger.catalog import Catalog
from forager.ledger.reports.record_filters import NO_FILTERS, Filters, read_filters, stored_value
from forager.ledger.reports.record_walks import as_people_see, walk_through
from forager.ledger.schema.record_tables import RecordTable

NOT_KEPT = ("last_seen_at", "times_seen")
_FEW = tuple(f"k{number}" for number in range(100))
_MARKS = ", ".join(f":{name}" for name in _FEW)
# The last version that a record had by then; every other change of it stays unread.
_THEN = f"""
SELECT c.key, c.op, c.version, c.at, c.body FROM changes c
WHERE c.kind = :kind AND c.body IS NOT NULL AND c.key IN ({_MARKS}) AND c.version = (
  SELECT max(n.version) FROM changes n
  WHERE n.key = c.key AND n.kind = :kind AND n.body IS NOT NULL AND n.at <= :as_of)
"""
_ALIASES = f"SELECT alias, key FROM aliases WHERE identity = :identity AND key IN ({_MARKS})"
# An update of a thing that is gone repeats neither reason nor evidence: the first of these changes has them.
_GONE = """
SELECT at, body FROM changes WHERE key = :key AND kind = :kind AND body IS NOT NULL AND op = 'gone'
  AND version <= :version ORDER BY version DESC
"""
_OLDEST = "SELECT min(at) AS at FROM changes WHERE key = :key AND kind = :kind AND body IS NOT NULL"


async def page_as_of(
    db: Database,
    catalog: Catalog,
    table: RecordTable,
    moment: datetime,
    *,
    job: int | None,
    filters: Mapping[str, str],
    cursor: str | None,
    limit: int,
) -> Page[dict[str, Any]]:
    """Return records that were known at the moment, with what they said then; filters apply to that.

    Raises `Rejected` if retention has removed the version that one of them had then.
    """
    then, chosen = round(moment.timestamp() * 1000), read_filters(table.record, filters)
    # Rows of job scope are final. For others a filter applies to the values of then, which no index has.
    plan = walk_through(catalog, table, job, chosen if table.per_job else NO_FILTERS, as_of=then, mark=chosen.mark)
    rows, following = await walk(db, plan, cursor, limit)
    if table.per_job:
        return Page(items=[as_people_see(table, row) for row in rows], next_cursor=following)
    versions = await _versions(db, table, [row for row in rows if row["changed_at"] > then], then)
    items = []
    for row in rows:
        version = versions.get(row[table.record.key_field])
        if _matches(table, row, version, chosen):
            items.append(_as_it_was(table, row) if version is None else await _as_told(db, table, row, version))
    return Page(items=items, next_cursor=following)


async def _versions(db: Database, table: RecordTable, rows: Sequence[Row], then: int) -> dict[str, Row]:
    """The change that each of these records, which have changed since, was at by then; by its key of today."""
    kind, keys = table.record.kind, [row[table.record.key_field] for row in rows]
    versions = {row["key"]: row for row in await _in_few(db, _THEN, keys, {"kind": kind, "as_of": then})}
    missing = [key for key in keys if key not in versions]
    if missing and table.record.identity is not None:
        named = await _in_few(db, _ALIASES, missing, {"identity": table.record.identity})
        key_of = {row["alias"]: row["key"] for row in named}
        earlier = await _in_few(db, _THEN, list(key_of), {"kind": kind, "as_of": then})
        for row in sorted(earlier, key=lambda row: int(row["at"])):
            if row["op"] != "gone":
                versions[key_of[row["key"]]] = row
    for key in missing:
        if key not in versions:
            raise await _removed(db, kind, key)
    return versions


async def _removed(db: Database, kind: str, key: str) -> Rejected:
    (row,) = await db.fetch(_OLDEST, {"key": key, "kind": kind})
    oldest = "" if row["at"] is None else f" The oldest version that is left is of {_shown(row['at'])}."
    problem = FieldError(
        "as_of", f"what the {kind} {key!r} said at that moment was removed by retention.{oldest} Use a later moment"
    )
    return Rejected(f"as_of: {problem.message}.", fields=[problem])


def _shown(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _matches(table: RecordTable, row: Row, version: Row | None, filters: Filters) -> bool:
    if not filters.values:
        return True
    if version is None:
        return all(row[name] == value for name, value in filters.values.items())
    body = loads(version["body"])
    return all(stored_value(table.record, name, body.get(name)) == value for name, value in filters.values.items())


def _as_it_was(table: RecordTable, row: Row) -> dict[str, Any]:
    """A record that has not changed since."""
    return {**as_people_see(table, row), **_unknown(table)}


async def _as_told(db: Database, table: RecordTable, row: Row, version: Row) -> dict[str, Any]:
    body = loads(version["body"])
    fields = {name: _typed(table, name, body.get(name)) for name in table.fields}
    kept = {"version": version["version"], "first_seen_at": at(row["first_seen_at"]), "changed_at": at(version["at"])}
    gone = await _gone(db, table, version, body) if version["op"] == "gone" else dict.fromkeys(_GONE_FIELDS)
    shown = {**fields, **dict.fromkeys(table.kept), **kept, **gone}
    return {**shown, **_unknown(table)}


async def _gone(db: Database, table: RecordTable, version: Row, body: Mapping[str, Any]) -> dict[str, Any]:
    first, why = version, body.get("gone")
    if why is None:
        values = {"key": version["key"], "kind": table.record.kind, "version": version["version"]}
        for row in await db.fetch(_GONE, values):
            first, why = row, loads(row["body"]).get("gone")
            if why is not None:
                break
    told = why or {}
    return {"gone_at": at(first["at"]), "gone_reason": told.get("reason"), "gone_evidence": told.get("evidence")}


def _typed(table: RecordTable, name: str, value: Any) -> Any:
    """Convert a value of the log to the type in the record's row. A value that the class no longer accepts is returned
    as it is."""
    column = columns_of(table.record)[name]
    if value is None or column.kind == "json":
        return value
    try:
        return TypeAdapter(bare_type(table.record.model_fields[name].annotation)).validate_python(value)
    except ValidationError:
        return value


def _unknown(table: RecordTable) -> dict[str, None]:
    return dict.fromkeys((*(name for name in table.fields if name in table.record.quiet), *NOT_KEPT))


async def _in_few(db: Database, sql: str, keys: Sequence[str], values: Mapping[str, Any]) -> list[Row]:
    """The rows of all keys, a hundred at a time: as many values as the statement has."""
    rows: list[Row] = []
    for first in range(0, len(keys), len(_FEW)):
        few = keys[first : first + len(_FEW)]
        named = {**dict.fromkeys(_FEW, few[0]), **dict(zip(_FEW, few, strict=False))}
        rows += await db.fetch(sql, {**values, **named})
    return rows


_GONE_FIELDS = ("gone_at", "gone_reason", "gone_evidence")
