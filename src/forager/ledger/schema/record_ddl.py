"""The SQLAlchemy tables and indexes that record classes declare."""

from collections.abc import Iterable
from typing import Any

from sqlalchemy import BigInteger, Column, Index, Integer, MetaData, Table, Text, UniqueConstraint, text
from sqlalchemy.types import JSON

from forager.core.record import Index as DeclaredIndex
from forager.ledger.schema.core_tables import BigId
from forager.ledger.schema.record_tables import RecordTable


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
    # the order of their finding: there the next one is written beside the last, which costs next to nothing.
    unique = (record.key_field, "job_id") if table.per_job else (record.key_field,)
    of_job = [Index(f"ix_{record.table}_job", "job_id", "id")] if table.per_job else []
    return Table(
        record.table,
        metadata,
        Column("id", BigId, primary_key=True),
        *scope,
        *own,
        Column("version", Integer, nullable=False),
        Column("first_seen_at", BigInteger, nullable=False),
        Column("last_seen_at", BigInteger, nullable=False),
        Column("times_seen", BigInteger, nullable=False),
        Column("gone_at", BigInteger),
        *([] if table.per_job else _kept_in_the_world()),
        UniqueConstraint(*unique, name=f"uq_{record.table}_key"),
        *of_job,
        *(declared_index(record.table, index) for index in record.indexes),
    )


def _kept_in_the_world() -> list[Column[Any]]:
    return [
        Column("changed_at", BigInteger, nullable=False),
        Column("gone_reason", Text),
        Column("gone_evidence", JSON),
    ]


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
