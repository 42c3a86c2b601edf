"""A page of a recheck, as read before its transaction: due records, and the tasks that they become.

Reading, decoding and planning happen here, outside of any transaction, so that the writer is held no longer than the
database needs. The transaction then takes only those records whose due time and version are still as they were read, so
if two processes read the same page, each record becomes one task.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from forager.core.database import Database, Row
from forager.core.ledger import NewJob
from forager.core.recheck import MOST_AT_ONCE, Recheck
from forager.core.task import Plan
from forager.ledger.catalog import Catalog
from forager.ledger.rules.jobs import Encoded, encode
from forager.ledger.schema.record_tables import RecordTable

POSTPONED_MS = 3_600_000
"""Milliseconds after which a record whose task cannot be created is tried again."""
IN_THREAD = 100
"""A page with more records than this is planned in a thread."""
LONGEST_ERROR = 1_000


class DueRow(NamedTuple):
    """A record as it was read. The transaction takes it only if it has not changed since."""

    id: int
    due: int
    version: int


class Taken(NamedTuple):
    """The result of the transaction of one page."""

    records: int = 0
    tasks: int = 0
    postponed: int = 0
    contested: bool = False
    """Some records were left because another transaction was writing them."""

    def plus(self, other: "Taken") -> "Taken":
        return Taken(
            self.records + other.records,
            self.tasks + other.tasks,
            self.postponed + other.postponed,
            self.contested or other.contested,
        )


@dataclass(slots=True)
class RecheckPage:
    recheck: Recheck
    job: NewJob
    now: int
    rows: dict[int, DueRow] = field(default_factory=dict)
    """Records that can be taken, by the row's id …"""
    plans: dict[int, Encoded] = field(default_factory=dict)
    """… and the task of each, unless its rule makes none."""
    postponed: list[DueRow] = field(default_factory=list)
    error: str | None = None
    """Why the last of these could not be planned."""
    full: bool = False
    values: dict[int, str] = field(default_factory=dict)
    """The value that selects the standing job, by the row's id, if the recheck has several."""

    def by_job(self) -> "list[RecheckPage]":
        """Return one page for each standing job. Each is a transaction of its own, which locks the rows of one job
        only."""
        if self.recheck.by is None:
            return [self]
        pages: dict[str, RecheckPage] = {}
        for number, value in self.values.items():
            page = pages.get(value)
            if page is None:
                params = {**self.recheck.params, self.recheck.by: value}
                job = replace(self.job, params=params, idempotency_key=self.recheck.job_key_of(value))
                page = pages[value] = RecheckPage(self.recheck, job, self.now, error=self.error, full=self.full)
            if number in self.rows:
                page.rows[number] = self.rows[number]
            if number in self.plans:
                page.plans[number] = self.plans[number]
        for row in self.postponed:
            pages[self.values[row.id]].postponed.append(row)
        return list(pages.values())

    @property
    def table(self) -> str:
        return self.recheck.record.table

    @property
    def error_at(self) -> int | None:
        return None if self.error is None else self.now

    def plans_of(self, taken: Sequence[int]) -> list[Encoded]:
        """Return the tasks of the records that were taken, one for each (kind, key)."""
        plans = {(plan.kind, plan.key): plan for number in taken if (plan := self.plans.get(number)) is not None}
        return list(plans.values())


async def is_paused(database: Database, recheck: Recheck) -> bool:
    return bool(
        await database.fetch("SELECT 1 AS one FROM rechecks WHERE name = :name AND paused", {"name": recheck.name})
    )


async def read_page(
    database: Database, catalog: Catalog, pipeline: str, recheck: Recheck, now: int, most: int = MOST_AT_ONCE
) -> RecheckPage:
    """Read the records that have been due for longest, and plan their tasks."""
    table = catalog.records[recheck.record.kind]
    rows = await database.fetch(_due_sql(table, recheck), {"now": now, "most": most})
    job = NewJob(pipeline, recheck.params, idempotency_key=recheck.job_key, standing=True)
    page = RecheckPage(recheck, job, now, full=len(rows) == most)
    if len(rows) > IN_THREAD:
        await asyncio.to_thread(_plan, page, table, catalog, rows)
    else:
        _plan(page, table, catalog, rows)
    return page


async def read_next_due(database: Database, recheck: Recheck, now: int) -> int | None:
    """Return the earliest due time that is still to come."""
    sql = f"SELECT {recheck.due} AS due FROM {recheck.record.table} WHERE {recheck.condition} AND {recheck.due} > :now"
    rows = await database.fetch(f"{sql} ORDER BY {recheck.due} LIMIT 1", {"now": now})
    return int(rows[0]["due"]) if rows else None


def _due_sql(table: RecordTable, recheck: Recheck) -> str:
    columns = ", ".join(("id", "version", *(f'"{name}"' for name in table.fields)))
    return (
        f"SELECT {columns} FROM {table.name} WHERE {recheck.condition} AND {recheck.due} <= :now"
        f" ORDER BY {recheck.due} LIMIT :most"
    )


def _plan(page: RecheckPage, table: RecordTable, catalog: Catalog, rows: Sequence[Row]) -> None:
    for row in rows:
        due = DueRow(row["id"], row[page.recheck.due], row["version"])
        if page.recheck.by is not None:
            page.values[due.id] = str(row[page.recheck.by])
        try:
            made = page.recheck.task(table.record_of(row))
            if made is not None:
                (page.plans[due.id],) = encode([made if isinstance(made, Plan) else Plan(made)], catalog)
        except Exception as error:  # noqa: BLE001 - a defect that shows in one record must not stop the others
            text = f"{row[table.record.key_field]}: {type(error).__name__}: {error}"
            page.error = text[:LONGEST_ERROR]
            page.postponed.append(due)
        else:
            page.rows[due.id] = due
