"""Records of any kind: their history from the change log, and whole tables page by page for an export."""

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from pydantic import Field, TypeAdapter, ValidationError
from sqlalchemy.types import JSON

from forager.core.database import Database, Row
from forager.core.errors import FieldError, NotFound, Rejected
from forager.core.ids import unknown_choice
from forager.ledger.catalog import Catalog
from forager.ledger.reports.record_filters import (
    NO_FILTERS,
    Filters,
    as_people_see,
    filter_names,
    read_filters,
    stored_value,
    walk_through,
)
from forager.ledger.schema.record_tables import RecordTable
from forager.sdk.queries import (
    JOB_NAME,
    JOB_NAMES,
    MOST,
    QueryPage,
    Walk,
    at,
    bare_type,
    columns_of,
    job_number,
    loads,
    stored_key,
    walk,
)
from forager.sdk.reports import ChangeReport, Report


class RecordKind(Report):
    """A kind of records, and how its lists and exports look."""

    kind: str
    key: str = Field(description="The field that identifies a record.")
    per_job: bool = Field(description="True if each job has records of its own; otherwise each exists once.")
    fields: list[str] = Field(description="The fields of a record in a list, in this order.")
    nested: list[str] = Field(description="The fields that may hold an object or a list.")
    filters: list[str] = Field(description="Fields that a list can be filtered by.")


# Records as of a moment: the state of each at that time, from its row if it has not changed since, otherwise from the
# log.
#
# Quiet fields, `last_seen_at` and `times_seen` have no history: they are empty here. A record that has been merged into
# another since is listed once, under a name that it had.


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
    newest: bool,
) -> QueryPage[dict[str, Any]]:
    """Return the records that existed at the moment, in their state of that time; filters apply to that state.

    Raises `Rejected` if retention has removed the version that one of them had then.
    """
    then, chosen = round(moment.timestamp() * 1000), read_filters(table.record, filters)
    # Rows of job scope are final. For others a filter applies to the values of then, which no index has.
    plan = walk_through(catalog, table, job, chosen if table.per_job else NO_FILTERS, as_of=then, mark=chosen.mark)
    rows, following = await walk(db, _reversed_if(plan, newest=newest), cursor, limit)
    if table.per_job:
        return QueryPage(items=[as_people_see(table, row) for row in rows], next_cursor=following)
    versions = await _versions(db, table, [row for row in rows if row["changed_at"] > then], then)
    items = []
    for row in rows:
        version = versions.get(row[table.record.key_field])
        if _matches(table, row, version, chosen):
            items.append(_as_it_was(table, row) if version is None else await _as_told(db, table, row, version))
    return QueryPage(items=items, next_cursor=following)


async def _versions(db: Database, table: RecordTable, rows: Sequence[Row], then: int) -> dict[str, Row]:
    """Return the change that each of these records, which have changed since, was at by then; by its key of today."""
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
        "as_of", f"what the {kind} {key!r} was at that moment was removed by retention.{oldest} Use a later moment"
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
    """Return a record that has not changed since."""
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
    """Return the rows of all keys, read a hundred keys at a time, which is the number of parameters in the
    statement."""
    rows: list[Row] = []
    for first in range(0, len(keys), len(_FEW)):
        few = keys[first : first + len(_FEW)]
        named = {**dict.fromkeys(_FEW, few[0]), **dict(zip(_FEW, few, strict=False))}
        rows += await db.fetch(sql, {**values, **named})
    return rows


_GONE_FIELDS = ("gone_at", "gone_reason", "gone_evidence")


LONGEST_SHOWN = 100
"""Characters of a record's key in a cursor, which must stay short."""


async def history(
    db: Database, catalog: Catalog, kind: str, key: str, *, cursor: str | None, limit: int
) -> QueryPage[ChangeReport]:
    """Return the changes of one record of world scope, newest first. A record of job scope is final: it has no
    history."""
    known = key if kind == "job" else await stored_key(db, table_of(catalog, kind).record, key)
    plan = Walk(
        f"history of {kind} {known[:LONGEST_SHOWN]}",
        "SELECT id, kind, key, op, version, job_id, at, body FROM changes",
        ("version", "id"),
        ("kind = :kind", "key = :key", "body IS NOT NULL"),
        descending=True,
        columns=f"w.*, {JOB_NAME}",
        joins=JOB_NAMES,
        values={"kind": kind, "key": known},
    )
    rows, following = await walk(db, plan, cursor, limit)
    return QueryPage(items=[change_report(row) for row in rows], next_cursor=following)


async def one_record(db: Database, catalog: Catalog, kind: str, key: str, *, job: UUID | None) -> dict[str, Any]:
    """Return a record by its key or an alias. A record of job scope also needs its job."""
    table = table_of(catalog, kind)
    field, stored = table.record.key_field, await stored_key(db, table.record, key)
    chosen, values = f"{field} = :key", {"key": read_filters(table.record, {field: stored}).values[field]}
    if table.per_job:
        if job is None:
            problem = FieldError("job", f"is needed: a {kind} belongs to a job")
            raise Rejected(f"job: {problem.message}", fields=[problem])
        chosen, values = f"{chosen} AND job_id = :job", {**values, "job": await job_number(db, job, past=True)}
    joins = JOB_NAMES if table.per_job else ""
    scope = f", {JOB_NAME}" if table.per_job else ""
    rows = await db.fetch(f"SELECT w.*{scope} FROM (SELECT * FROM {table.name} WHERE {chosen}) w {joins}", values)
    if not rows:
        raise NotFound(f"There is no {kind} {key!r}.")
    return as_people_see(table, rows[0])


async def export_page(
    db: Database,
    catalog: Catalog,
    kind: str,
    *,
    job: UUID | None,
    filters: Mapping[str, str],
    as_of: datetime | None,
    cursor: str | None,
    limit: int,
    newest: bool = False,
) -> QueryPage[dict[str, Any]]:
    """Records of a kind, in the order of their finding: all of them, or those of one job; `newest` reverses it.

    `filters` maps fields to text. Rows that an index selects may be sorted by key instead. `as_of`: return their state
    at that moment instead of the current one.
    """
    table = table_of(catalog, kind)
    number = None if job is None else await job_number(db, job, past=True)
    if as_of is not None:
        return await page_as_of(
            db, catalog, table, as_of, job=number, filters=filters, cursor=cursor, limit=limit, newest=newest
        )
    plan = _reversed_if(walk_through(catalog, table, number, read_filters(table.record, filters)), newest=newest)
    rows, following = await walk(db, plan, cursor, limit)
    return QueryPage(items=[as_people_see(table, row) for row in rows], next_cursor=following)


def _reversed_if(plan: Walk, *, newest: bool) -> Walk:
    """Return the walk, or the same one backwards, which has cursors of its own."""
    return replace(plan, of=f"{plan.of}, newest first", descending=True) if newest else plan


async def export(
    db: Database,
    catalog: Catalog,
    kind: str,
    *,
    job: UUID | None,
    filters: Mapping[str, str],
    as_of: datetime | None,
    limit: int = MOST,
) -> AsyncIterator[Sequence[Mapping[str, Any]]]:
    """Page after page, so that memory stays small however much there is."""
    cursor: str | None = None
    while True:
        page = await export_page(db, catalog, kind, job=job, filters=filters, as_of=as_of, cursor=cursor, limit=limit)
        if page.items:
            yield page.items
        if page.next_cursor is None:
            return
        cursor = page.next_cursor


def record_kind(table: RecordTable) -> RecordKind:
    """Describe a kind of records."""
    fields = [*(["job"] if table.per_job else []), *table.fields, *table.kept]
    leaves = [name for name, kind in zip(table.fields, table.types, strict=True) if isinstance(kind, JSON)]
    return RecordKind(
        kind=table.record.kind,
        key=table.record.key_field,
        per_job=table.per_job,
        fields=fields,
        nested=[*leaves, *(name for name in table.kept if name == "gone_evidence")],
        filters=list(filter_names(table.record)),
    )


def table_of(catalog: Catalog, kind: str) -> RecordTable:
    table = catalog.records.get(kind)
    if table is None:
        problem = FieldError("kind", unknown_choice("kind", kind, catalog.records))
        raise Rejected(f"kind: {problem.message}", fields=[problem])
    return table


# Converts rows to reports: milliseconds to times, numbers to public ids, internal states to public ones.


def change_report(row: Row) -> ChangeReport:
    job = row["public_id"]
    return ChangeReport(
        id=row["id"],
        kind=row["kind"],
        key=row["key"],
        op=row["op"],
        version=row["version"],
        job=UUID(job) if job else None,
        at=datetime.fromtimestamp(row["at"] / 1000, UTC),
        body=loads(row["body"]),
    )
