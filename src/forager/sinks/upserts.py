"""The SQL with which PostgreSQL and DuckDB keep the tables of `change_tables`. Pure.

Both take `INSERT … ON CONFLICT`. A row of the present state is replaced only by one with a greater change number, and a
row of a history never, so that a repeated or late delivery changes nothing.
"""

from collections.abc import Mapping

from forager.sdk.delivery import ColumnType
from forager.sinks.change_tables import ChangeTable

NOW = "_now"
"""Suffix of the views of records that are not gone."""


def created(table: ChangeTable, types: Mapping[ColumnType, str], prefix: str = "") -> list[str]:
    """Return the statements that create a table and the index for readers by time."""
    columns = [
        f"{quoted(column.name)} {types[column.type]}{' NOT NULL' if column.required else ''}"
        for column in table.columns
    ]
    key = ", ".join(map(quoted, table.key))
    name = prefix + quoted(table.name)
    made = [f"CREATE TABLE IF NOT EXISTS {name} ({', '.join(columns)}, PRIMARY KEY ({key}))"]
    if table.keeps_all:
        made.append(f"CREATE INDEX IF NOT EXISTS {quoted(table.name + '_by_time')} ON {name} (change_at)")
    return made


def widened(
    table: ChangeTable, there: Mapping[str, str], types: Mapping[ColumnType, str], prefix: str = ""
) -> list[str]:
    """Return the statements that add the columns which a table lacks. A new column may be NULL: old rows lack it."""
    return [
        f"ALTER TABLE {prefix}{quoted(table.name)} ADD COLUMN IF NOT EXISTS {quoted(column.name)} {types[column.type]}"
        for column in table.columns
        if column.name not in there
    ]


def view(table: ChangeTable, prefix: str = "") -> str | None:
    """Return the statement that creates the view of what is not gone. Columns that were added come last, as both
    databases require when a view is replaced."""
    if table.keeps_all:
        return None
    name = prefix + quoted(table.name + NOW)
    return f"CREATE OR REPLACE VIEW {name} AS SELECT * FROM {prefix}{quoted(table.name)} WHERE NOT is_gone"


def upsert(table: ChangeTable, source: str, prefix: str = "") -> str:
    """Return the statement that writes the rows of `source`, which has at most one row per key."""
    names = ", ".join(quoted(column.name) for column in table.columns)
    key = ", ".join(map(quoted, table.key))
    into = f"INSERT INTO {prefix}{quoted(table.name)} AS t ({names}) SELECT {names} FROM {source}"
    if table.keeps_all:
        return f"{into} ON CONFLICT ({key}) DO NOTHING"
    others = [column.name for column in table.columns if column.name not in table.key]
    changes = ", ".join(f"{quoted(name)} = excluded.{quoted(name)}" for name in others)
    return f"{into} ON CONFLICT ({key}) DO UPDATE SET {changes} WHERE excluded.change_id > t.change_id"


def quoted(name: str) -> str:
    """Quote an identifier. Raises `ValueError` for a name that a quote cannot hold."""
    if '"' in name or "\0" in name:
        raise ValueError(f"{name!r} is not a valid identifier")
    return f'"{name}"'
