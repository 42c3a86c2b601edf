"""The SQLAlchemy tables and indexes that record classes declare."""

from collections.abc import Iterable
from typing import Any

import orjson
from sqlalchemy import (
    BigInteger,
    Column,
    Index,
    MetaData,
    PrimaryKeyConstraint,
    Table,
    UniqueConstraint,
    text,
)
from sqlalchemy.sql.elements import TextClause

from forager.core.errors import Rejected
from forager.core.record import Index as DeclaredIndex
from forager.core.table import TableRow
from forager.ledger.schema.core_tables import BigId
from forager.ledger.schema.record_tables import RecordTable, sql_type
from forager.sdk.migrations import NOW, record_columns
from forager.sdk.queries import columns_of


def add_record_tables(metadata: MetaData, tables: Iterable[RecordTable]) -> None:
    """Declare the SQLAlchemy tables that `RecordTable`s describe."""
    for table in tables:
        _declare(metadata, table)


def _declare(metadata: MetaData, table: RecordTable) -> Table:
    record = table.record
    scope = [Column("job_id", BigInteger, nullable=False)] if table.per_job else []
    own = [
        Column(name, kind, nullable=name != record.key_field)
        for name, kind in zip(table.fields, table.types, strict=True)
    ]
    # The key first: who looks for a thing in whatever job finds it by the same index. A job's own records are read in
    # the order of their finding: there the next one is written next to the last, which costs next to nothing.
    unique = (record.key_field, "job_id") if table.per_job else (record.key_field,)
    of_job = [Index(f"ix_{record.table}_job", "job_id", "id")] if table.per_job else []
    return Table(
        record.table,
        metadata,
        Column("id", BigId, primary_key=True),
        *scope,
        *own,
        *record_columns(record.scope),
        UniqueConstraint(*unique, name=f"uq_{record.table}_key"),
        *of_job,
        *(declared_index(record.table, index) for index in record.indexes),
    )


def declared_index(table: str, index: DeclaredIndex) -> Index:
    where = None if index.where is None else text(index.where)
    columns = [text(column) if " " in column else column for column in index.columns]
    kind = "uq" if index.unique else "ix"
    return Index(
        f"{kind}_{table}_{'_'.join(index.names)}",
        *columns,
        unique=index.unique,
        sqlite_where=where,
        postgresql_where=where,
    )


# The SQLAlchemy tables that a pipeline's plain tables declare.


def add_plain_tables(metadata: MetaData, rows: Iterable[type[TableRow]], dialect: str) -> None:
    """Declare the tables. Raises `Rejected` for a class with a declaration that no table can have."""
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
