"""The SQL that the warehouse runs. Pure. Names are those of record classes and mirrors, quoted; values are parameters,
but for job ids, which are UUIDs."""

from collections.abc import Collection
from uuid import UUID

from forager.kit.mirror import MirrorColumn, MirrorTable

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
