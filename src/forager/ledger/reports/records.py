"""Records of any kind: their history from the change log, and whole tables page by page for an export."""

from collections.abc import AsyncIterator, Mapping, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy.types import JSON

from forager.core.errors import FieldError, NotFound, Rejected
from forager.core.names import unknown_choice
from forager.kit.queries import (
    JOB_NAME,
    JOB_NAMES,
    MOST,
    Database,
    Page,
    Walk,
    job_number,
    stored_key,
    walk,
)
from forager.kit.reports import ChangeReport
from forager.ledger.catalog import Catalog
from forager.ledger.reports.as_of import page_as_of
from forager.ledger.reports.models import RecordKind
from forager.ledger.reports.record_filters import filter_names, read_filters
from forager.ledger.reports.record_walks import as_people_see, walk_through
from forager.ledger.reports.rows import change_report
from forager.ledger.schema.record_tables import RecordTable

LONGEST_SHOWN = 100
"""Characters of a record's key in a cursor, which must stay short."""


async def history(
    db: Database, catalog: Catalog, kind: str, key: str, *, cursor: str | None, limit: int
) -> Page[ChangeReport]:
    """What happened to one record of world scope, newest first. A record of job scope is final: it has no history."""
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
    return Page(items=[change_report(row) for row in rows], next_cursor=following)


async def one_record(db: Database, catalog: Catalog, kind: str, key: str, *, job: UUID | None) -> dict[str, Any]:
    """By its key or an alias of it. A record of job scope also needs its job."""
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
) -> Page[dict[str, Any]]:
    """Records of a kind, in the order of their finding: all of them, or those of one job.

    `filters`: field by field, as text. Rows that an index chooses may come in the order of their key instead.
    `as_of`: what they said at that moment instead of today.
    """
    table = table_of(catalog, kind)
    number = None if job is None else await job_number(db, job, past=True)
    if as_of is not None:
        return await page_as_of(db, catalog, table, as_of, job=number, filters=filters, cursor=cursor, limit=limit)
    plan = walk_through(catalog, table, number, read_filters(table.record, filters))
    rows, following = await walk(db, plan, cursor, limit)
    return Page(items=[as_people_see(table, row) for row in rows], next_cursor=following)


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
