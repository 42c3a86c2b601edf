"""The SQLAlchemy tables that a pipeline's plain tables declare."""

from collections.abc import Iterable
from typing import Any

import orjson
from sqlalchemy import Column, MetaData, PrimaryKeyConstraint, Table, text
from sqlalchemy.sql.elements import TextClause

from forager.core.errors import Rejected
from forager.core.table import TableRow
from forager.kit.queries import columns_of
from forager.ledger.schema.column_types import sql_type
from forager.ledger.schema.record_ddl import declared_index

NOW = {
    "sqlite": "(CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER))",
    "postgresql": "((extract(epoch FROM clock_timestamp()) * 1000)::bigint)",
}
"""The default of a stamped column: the moment of the INSERT in Unix milliseconds. Migrations write the same text."""


def add_plain_tables(metadata: MetaData, rows: Iterable[type[TableRow]], dialect: str) -> None:
    """Declare the tables. Raises `Rejected` for a class that declares what a table cannot have."""
    for row in rows:
        _check(row)
        Table(
            row.table,
            metadata,
            *(_column(row, name, dialect) for name in row.model_fields),
            PrimaryKeyConstraint(*row.key, name=f"pk_{row.table}"),
            *(declared_index(row.table, index) for index in row.indexes),
        )


def _column(row: type[TableRow], name: str, dialect: str) -> Column[Any]:
    column = columns_of(row)[name]
    stamped = name in row.stamped
    default = text(NOW[dialect]) if stamped else _default(row, name)
    nullable = column.nullable and not stamped
    return Column(name, sql_type(column.kind), nullable=nullable, server_default=default, autoincrement=False)


def _default(row: type[TableRow], name: str) -> TextClause | None:
    info, column = row.model_fields[name], columns_of(row)[name]
    value = None if info.is_required() else column.encoded(info.get_default(call_default_factory=True))
    if value is None:
        return None
    if isinstance(value, bool):
        return text("true" if value else "false")
    if isinstance(value, int | float):
        return text(orjson.dumps(value).decode())
    quoted = str(value).replace("'", "''").replace(":", "\\:")  # SQLAlchemy reads `:name` as a parameter
    return text(f"'{quoted}'")


def _check(row: type[TableRow]) -> None:
    name, fields = row.__name__, row.model_fields.keys()
    if wrong := {*row.key, *row.stamped} - fields:
        raise Rejected(f"{name} names {', '.join(sorted(wrong))} in `key` or `stamped`, which are not fields of it.")
    if not row.key or any(columns_of(row)[column].nullable for column in row.key):
        raise Rejected(f"{name} needs a `key` of columns that are never NULL.")
    if wrong := {column for column in row.stamped if columns_of(row)[column].kind != "bigint"}:
        raise Rejected(f"{name}.stamped names {', '.join(sorted(wrong))}, which hold no time.")
    for index in row.indexes:
        if wrong := set(index.names) - fields:
            raise Rejected(f"An index of {name} names {', '.join(sorted(wrong))}, which are not columns of it.")
