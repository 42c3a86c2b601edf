"""Reads the rows of mirrored tables from the ledger's own views and tables, as they are at this moment.

A row is never made from a change: a replay of old changes then writes the present state, or nothing.
"""

from collections.abc import AsyncIterator, Collection, Iterable, Mapping, Sequence
from typing import Any
from uuid import UUID

from forager.core.database import Database, Row
from forager.core.record import Record
from forager.sdk.delivery import CHANGE_ID, Mirror, MirrorColumn, MirrorTable, column_type
from forager.sdk.queries import at, columns_of, last_change

# The table of a record kind that no pipeline declares a table for: made from the record's class. Pure.


KEPT = (
    MirrorColumn("version", "INT64"),
    MirrorColumn("first_seen_at", "TIMESTAMP"),
    MirrorColumn("gone_at", "TIMESTAMP"),
    CHANGE_ID,
)
"""Columns of every such table after the fields of the record."""


def record_table(record: type[Record]) -> MirrorTable:
    """Return the table of a record class: its fields (quiet ones left out, because they change without a change), then
    the columns of `KEPT`. A record of job scope has `job_id` before them."""
    fields = tuple(
        MirrorColumn(name, column_type(record, name)) for name in columns_of(record) if name not in record.quiet
    )
    key: tuple[str, ...] = (record.key_field,)
    if record.scope == "job":
        fields, key = (MirrorColumn("job_id", "STRING"), *fields), ("job_id", record.key_field)
    return MirrorTable(record.table, record.table, (*fields, *KEPT), key)


PAGE = 2_000
TASKS_TOGETHER = 50_000
"""Tasks of jobs that are loaded whole together: one load and one statement per table."""
MOST_TOGETHER = 1_000
"""Jobs that are loaded together: a statement names each."""


class LedgerRows:
    """The rows of every table that a warehouse mirrors."""

    def __init__(self, database: Database, mirrors: Mapping[str, Mirror], records: Iterable[type[Record]]) -> None:
        self._db = database
        self.mirrors = mirrors
        """The tables of jobs and tasks, by pipeline."""
        self.records = {record.kind: record for record in records}
        declared = {kind: table for mirror in mirrors.values() for kind, table in mirror.records.items()}
        self.declared = declared
        """The tables that pipelines declare, by kind of record."""
        self.tables = {kind: declared.get(kind) or record_table(record) for kind, record in self.records.items()}
        """The table of each kind of record."""

    async def last_change(self) -> int:
        """Return the number of the newest change. What is read after this is at least as new."""
        return await last_change(self._db)

    async def numbers(self, jobs: Iterable[str]) -> dict[str, int]:
        """Map jobs to the ledger's own numbers. Removed jobs are included; others are left out."""
        found: dict[str, int] = {}
        for chunk in _chunks(sorted(jobs)):
            for table in ("past_jobs", "jobs"):
                sql = f"SELECT id, public_id FROM {table} WHERE public_id IN :jobs"
                found |= {row["public_id"]: row["id"] for row in await self._db.fetch_by_keys(sql, {"jobs": chunk})}
        return found

    async def groups(self, jobs: Iterable[str]) -> list[set[str]]:
        """Divide jobs into groups with at most this number of tasks; a job with more is a group of its own."""
        groups: list[set[str]] = []
        room = 0
        for chunk in _chunks(sorted(jobs)):
            sql = "SELECT public_id, coalesce(total, 0) AS total FROM jobs WHERE public_id IN :jobs"
            sizes = {row["public_id"]: row["total"] for row in await self._db.fetch_by_keys(sql, {"jobs": chunk})}
            for job in chunk:
                size = 1 + sizes.get(job, 0)
                if size > room or len(groups[-1]) >= MOST_TOGETHER:
                    groups.append(set())
                    room = TASKS_TOGETHER
                groups[-1].add(job)
                room -= size
        return groups

    async def unfinished(self, pipeline: str) -> list[str]:
        """Return the jobs of a pipeline that have not ended."""
        rows = await self._db.fetch(
            "SELECT public_id FROM jobs WHERE finished_at IS NULL AND planning_until IS NULL AND pipeline = :pipeline",
            {"pipeline": pipeline},
        )
        return [row["public_id"] for row in rows]

    async def jobs(self, table: MirrorTable, jobs: Iterable[str]) -> AsyncIterator[Row]:
        """Yield the rows of these jobs; a job that was removed has none."""
        for chunk in _chunks(sorted(jobs)):
            for row in await self._db.fetch_by_keys(
                f"SELECT * FROM {table.view} WHERE job_id IN :jobs", {"jobs": chunk}
            ):
                yield row

    async def items(self, table: MirrorTable, job: int, keys: Iterable[str]) -> AsyncIterator[Row]:
        """Yield the rows of tasks or records of one job, by their keys."""
        sql = f"SELECT * FROM {table.view} WHERE job_number = {job:d} AND item IN :items"
        for chunk in _chunks(sorted(keys)):
            for row in await self._db.fetch_by_keys(sql, {"items": chunk}):
                yield row

    async def whole(self, table: MirrorTable, job: int) -> AsyncIterator[Row]:
        """Yield the rows of all tasks or records of one job, a page at a time."""
        by = table.walk
        sql = f"SELECT * FROM {table.view} WHERE job_number = :job AND {by} > :after ORDER BY {by} LIMIT {PAGE}"
        after: str | int = "" if by == "item" else 0
        while page := await self._db.fetch(sql, {"job": job, "after": after}):
            for row in page:
                yield row
            after = page[-1][by]

    async def plain(self, kind: str, job: tuple[str, int] | None, keys: Iterable[str]) -> AsyncIterator[Row]:
        """Yield the rows of records without a declared table, by their keys; `job` is (public id, number) for those of
        job scope."""
        record = self.records[kind]
        fields = [name for name in columns_of(record) if name not in record.quiet]
        names = ", ".join(f'"{name}"' for name in (*fields, "version", "first_seen_at", "gone_at"))
        of_job = "" if job is None else f" AND job_id = {job[1]:d}"
        sql = f'SELECT {names} FROM {record.table} WHERE "{record.key_field}" IN :keys{of_job}'
        for chunk in _chunks(sorted(keys)):
            for row in await self._db.fetch_by_keys(sql, {"keys": chunk}):
                shown = {name: _shown(record, name, row[name]) for name in fields}
                kept = {name: at(row[name]) for name in ("first_seen_at", "gone_at")}
                yield {**shown, **kept, "version": row["version"], "job_id": job and job[0]}

    async def archived(self, kind: str, keys: Iterable[str]) -> dict[str, int]:
        """Map the archived ones of these records to the versions that are in the archive. A record that has come back
        since then is included."""
        sql = f"SELECT key, version FROM archived WHERE kind = '{kind}' AND key IN :keys"
        found: dict[str, int] = {}
        for chunk in _chunks(sorted(keys)):
            found |= {row["key"]: row["version"] for row in await self._db.fetch_by_keys(sql, {"keys": chunk})}
        return found


def _shown(record: type[Record], name: str, stored: Any) -> Any:
    """Return a stored value as the API shows it: money as a decimal, times in UTC, JSON as a value."""
    show = columns_of(record)[name].show
    return stored if stored is None or show is None else show(stored)


def _chunks(values: Sequence[str]) -> Iterable[Sequence[str]]:
    return (values[start : start + PAGE] for start in range(0, len(values), PAGE))


# The SQL that the warehouse runs. Pure. Names are those of record classes and mirrors, quoted; values are parameters,
# but for job ids, which are UUIDs.


MOST_CONSTANTS = 10_000
"""Jobs that a statement names. Its text may have a megabyte; without the names, it reads the whole table."""
REMOVED = "is_removed"
"""A column of staging tables only: the row of this key is to be deleted."""


def type_of(column: MirrorColumn) -> str:
    """Return the type of a column, as in CREATE TABLE."""
    if column.type == "STRUCT":
        return f"STRUCT<{', '.join(f'{quoted(each.name)} {type_of(each)}' for each in column.fields)}>"
    return column.type


def staged_type(column: MirrorColumn) -> str:
    """Return the type of a column in a staging table. JSON is loaded as text and parsed by MERGE."""
    return "STRING" if column.type == "JSON" else type_of(column)


def widen(where: str, column: MirrorColumn, dataset: str) -> str:
    """Add a column to a table, unless another process has done so."""
    name = quoted(f"{dataset}.{where}")
    return f"ALTER TABLE {name} ADD COLUMN IF NOT EXISTS {quoted(column.name)} {type_of(column)}"


def merge(table: MirrorTable, staging: str, dataset: str, jobs: Collection[str]) -> str:
    """Merge a staging table. A row is replaced only by one with a greater change number.

    `jobs` are named as constants, so that BigQuery reads only the blocks of these jobs: the cost of a batch grows with
    the batch, not with the table.
    """
    names = [column.name for column in table.columns]
    values = {
        column.name: f"PARSE_JSON(s.{quoted(column.name)}, wide_number_mode=>'round')"
        if column.type == "JSON"
        else f"s.{quoted(column.name)}"
        for column in table.columns
    }
    same = " AND ".join(f"t.{quoted(name)} = s.{quoted(name)}" for name in table.key)
    if table.key[0] == "job_id" and len(jobs) <= MOST_CONSTANTS:
        same += f" AND t.`job_id` IN ({', '.join(_literal(job) for job in sorted(jobs))})"
    newer = "WHEN MATCHED AND s.`change_id` > COALESCE(t.`change_id`, 0)"
    return (
        f"MERGE {quoted(f'{dataset}.{table.name}')} t USING {quoted(f'{dataset}.{staging}')} s ON {same}"
        f" {newer} AND s.`{REMOVED}` THEN DELETE"
        f" {newer} THEN UPDATE SET {', '.join(f'{quoted(name)} = {values[name]}' for name in names)}"
        f" WHEN NOT MATCHED AND NOT s.`{REMOVED}` THEN"
        f" INSERT ({', '.join(map(quoted, names))}) VALUES ({', '.join(values.values())})"
    )


def quoted(name: str) -> str:
    """Quote an identifier. Raises `ValueError` for a name that a quote cannot hold."""
    if "`" in name or "\\" in name or "\n" in name:
        raise ValueError(f"{name!r} is not a valid identifier")
    return f"`{name}`"


def _literal(job: str) -> str:
    return f"'{UUID(job)}'"
