"""Reading the change log. A change is whole when it leaves here: public ids and, for records of job scope, its body.

The log stores no body for a record of job scope: the row in the record's table is final, so storing it again would
double the size of most of the log and slow every settlement. The body is joined when the change is read, with one
query for each kind in a page (two where a row has been renamed since), never one for each change.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Any
from uuid import UUID

from forager.core.change import Change
from forager.core.database import Database
from forager.ledger.catalog import Catalog
from forager.ledger.schema.record_tables import RecordTable
from forager.ledger.shared.stored_change import StoredChange

_PAGE = """
SELECT c.id, c.kind, c.key, c.op, c.version, coalesce(j.public_id, p.public_id), coalesce(j.pipeline, p.pipeline),
  c.at, c.body
FROM (SELECT * FROM changes WHERE {asked} ORDER BY id LIMIT :limit) c
LEFT JOIN jobs j ON j.id = c.job_id LEFT JOIN past_jobs p ON p.id = c.job_id ORDER BY c.id
"""
# Bounded by the numbers of the page, so that both databases walk the same part of the same index as for the page.
_BODIES = """
SELECT {columns}, c.id FROM (SELECT id, job_id, key FROM changes WHERE id >= :first AND id <= :last AND kind = :kind
  AND body IS NULL{of_job} ORDER BY id LIMIT :limit) c
{alias}JOIN {table} r ON r.job_id = c.job_id AND r.{key} = {name}
"""
_KIND, _JOB = 1, 5
"""Columns of a page."""
_ALIAS = "JOIN aliases a ON a.identity = :identity AND a.alias = c.key "
_OF_JOB = " AND job_id = (SELECT id FROM jobs WHERE public_id = :job)"


class ChangeReader:
    """Reads pages of the log. It needs nothing of its database but `fetch_tuples`."""

    def __init__(self, database: Database, catalog: Catalog) -> None:
        self._db = database
        self._catalog = catalog

    async def page(
        self,
        after: int,
        limit: int,
        *,
        job: UUID | None = None,
        kinds: Collection[str] | None = None,
        until: int | None = None,
        bodies: bool = True,
    ) -> list[Change]:
        """Up to `limit` changes after a number, in the order of their numbers.

        `bodies=False` spares the join: changes of records of job scope then have no body.
        """
        if kinds is not None and not kinds:
            return []
        conditions, values = ["id > :after"], {"after": after, "limit": limit}
        if until is not None:
            conditions.append("id <= :until")
            values["until"] = until
        condition, more = _asked(job, kinds)
        rows = await self._db.fetch_tuples(_PAGE.format(asked=" AND ".join(conditions) + condition), {**values, **more})
        joined = await self._bodies(rows, job) if bodies else {}
        jobs = {name: UUID(name) if name else None for name in {row[_JOB] for row in rows}}
        scopes = {kind: self._scope(kind) for kind in {row[_KIND] for row in rows}}
        body_of = joined.get
        # By position: a page has up to thousands of rows, and names would cost a tenth of the whole read.
        return [
            StoredChange(n, kind, key, op, version, jobs[job], of, at, body or body_of(n), scopes[kind])
            for n, kind, key, op, version, job, of, at, body in rows
        ]

    def _scope(self, kind: str) -> str:
        table = self._catalog.records.get(kind)
        return "world" if table is None else table.record.scope

    async def _bodies(self, rows: Sequence[Sequence[Any]], job: UUID | None) -> dict[int, dict[str, Any]]:
        """The bodies, by change, of the changes in a page that are stored without one."""
        wanting: dict[str, dict[int, str]] = {}
        for number, kind, key, *_, body in rows:
            if body is None:
                wanting.setdefault(kind, {})[number] = key
        bodies: dict[int, dict[str, Any]] = {}
        for kind, keys in wanting.items():
            if self._scope(kind) == "job":
                bodies |= await self._bodies_of(self._catalog.records[kind], keys, job)
        return bodies

    async def _bodies_of(
        self, table: RecordTable, keys: Mapping[int, str], job: UUID | None
    ) -> dict[int, dict[str, Any]]:
        values = {"first": min(keys), "last": max(keys), "kind": table.record.kind, "limit": len(keys)}
        if job is not None:
            values["job"] = str(job)
        bodies = await self._join(table, values)
        if len(bodies) < len(keys) and table.record.identity is not None:
            # A row that has been renamed since stands under its stronger name; the change was made under the weaker.
            renamed = await self._join(table, {**values, "identity": table.record.identity})
            for number in renamed.keys() - bodies.keys():
                bodies[number] = {**renamed[number], table.record.key_field: keys[number]}
        return bodies

    async def _join(self, table: RecordTable, values: Mapping[str, Any]) -> dict[int, dict[str, Any]]:
        by_alias = "identity" in values
        sql = _BODIES.format(
            columns=", ".join(f'r."{column}"' for column in table.told),
            of_job=_OF_JOB if "job" in values else "",
            alias=_ALIAS if by_alias else "",
            table=table.name,
            key=f'"{table.record.key_field}"',
            name="a.key" if by_alias else "c.key",
        )
        return {row[-1]: table.parts(row) for row in await self._db.fetch_tuples(sql, values)}


def _asked(job: UUID | None, kinds: Collection[str] | None) -> tuple[str, dict[str, Any]]:
    """The conditions for a job and for kinds, with their values."""
    condition, values = "", {}
    if job is not None:
        condition, values["job"] = _OF_JOB, str(job)
    if kinds is not None:
        names = {f"kind{number}": kind for number, kind in enumerate(sorted(kinds))}
        condition += f" AND kind IN ({', '.join(f':{name}' for name in names)})"
        values |= names
    return condition, values
