"""The walks that lists and exports of records take: through a whole table, or through what one job found."""

from dataclasses import replace
from typing import Any
from uuid import UUID

from forager.core.errors import Rejected
from forager.kit.queries import JOB_NAME, JOB_NAMES, Row, Walk, at, loads
from forager.ledger.catalog import Catalog
from forager.ledger.reports.record_filters import Filters
from forager.ledger.schema.record_tables import RecordTable


def walk_through(
    catalog: Catalog,
    table: RecordTable,
    job: int | None,
    filters: Filters,
    *,
    as_of: int | None = None,
    mark: str | None = None,
) -> Walk:
    """All records of a table, or those that a job found, in the order of their finding.

    `as_of`: only records that had been seen by then, in Unix milliseconds. `mark` names the filters in the cursor.
    """
    mark = filters.mark if mark is None else mark
    plan = _all_of(table, filters, mark) if job is None else _of_job(catalog, table, job, filters, mark)
    if as_of is None:
        return plan
    row = "r" if plan.columns == _FOUND else "w"
    return replace(
        plan,
        of=f"{plan.of} as of {as_of}",
        only=(*plan.only, f"{row}.first_seen_at <= :as_of"),
        values={**plan.values, "as_of": as_of},
    )


def as_people_see(table: RecordTable, row: Row) -> dict[str, Any]:
    """A row with the types of its record, and the times that the ledger keeps."""
    own = table.decode({name: row[name] for name in table.fields})
    kept = {name: at(row[name]) if name.endswith("_at") else row[name] for name in table.kept}
    if "gone_evidence" in kept:
        kept["gone_evidence"] = loads(kept["gone_evidence"])
    return {**({"job": UUID(row["public_id"])} if table.per_job else {}), **own, **kept}


def _all_of(table: RecordTable, filters: Filters, mark: str) -> Walk:
    scope, joins = (f", {JOB_NAME}", JOB_NAMES) if table.per_job else ("", "")
    return Walk(
        f"records {table.name}{mark}",
        f"SELECT * FROM {table.name}",
        filters.order,
        filters.conditions(filters.driving),
        columns=f"w.*{scope}",
        joins=joins,
        only=filters.conditions(filters.rest, "w"),
        values=filters.bound,
    )


def _of_job(catalog: Catalog, table: RecordTable, job: int, filters: Filters, mark: str) -> Walk:
    field = table.record.key_field
    of = f"records {table.name} of job {job}{mark}"
    if table.per_job:
        return Walk(
            of,
            f"SELECT * FROM {table.name}",
            ("id",),
            ("job_id = :job",),
            columns=f"w.*, {JOB_NAME}",
            joins=JOB_NAMES,
            only=filters.conditions(tuple(filters.values), "w"),
            values={**filters.bound, "job": job},
        )
    seen_by = next(
        (
            t
            for t in catalog.records.values()
            if t.per_job and t.record.identity == table.record.identity and t.record.identity is not None
        ),
        None,
    )
    if seen_by is None:
        raise Rejected(f"Records of kind {table.record.kind!r} belong to no job: export them without one.")
    # What a job found of the world is what its own records of the same identity point at.
    return Walk(
        of,
        f"SELECT id, {seen_by.record.key_field} AS {field} FROM {seen_by.name}",
        ("id",),
        ("job_id = :job",),
        columns=_FOUND,
        joins=f"JOIN {table.name} r ON r.{field} = w.{field}",
        only=filters.conditions(tuple(filters.values), "r"),
        values={**filters.bound, "job": job},
    )


_FOUND = "r.*"
"""The row is that of the record in the world, not the one that the walk goes along."""
