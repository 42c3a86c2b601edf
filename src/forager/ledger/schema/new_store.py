"""Every table of a new store, declared in one place: what the sum of the migrations would make."""

from collections.abc import Collection

from sqlalchemy import Connection, MetaData, text

from forager.core.errors import StoreOutdated
from forager.ledger.catalog import Catalog
from forager.ledger.schema.archive_tables import archive_metadata
from forager.ledger.schema.core_tables import SQLITE_QUEUE_INDEXES, metadata
from forager.ledger.schema.delivery_tables import delivery_metadata
from forager.ledger.schema.plain_ddl import add_plain_tables
from forager.ledger.schema.politeness_tables import politeness_metadata
from forager.ledger.schema.queue_tables import queue_metadata
from forager.ledger.schema.record_ddl import add_record_tables

SHARED = (metadata, delivery_metadata, archive_metadata, politeness_metadata)
"""Tables of both databases, but those of records and of pipelines."""


def create_tables(connection: Connection, catalog: Catalog, existing: Collection[str]) -> None:
    """Create all tables and indexes. Raises `StoreOutdated` if one of the names is taken by an existing table."""
    schema = full_schema(catalog, connection.dialect.name)
    if taken := set(existing) & set(schema.tables):
        raise StoreOutdated(
            f"The store has tables that are not Forager's ({', '.join(sorted(taken)[:3])}): "
            "give Forager a database of its own."
        )
    schema.create_all(connection, checkfirst=False)
    if connection.dialect.name == "sqlite":
        for statement in SQLITE_QUEUE_INDEXES:
            connection.execute(text(statement))


def full_schema(catalog: Catalog, dialect: str) -> MetaData:
    """Return every table that this program wants on this database."""
    whole = MetaData(naming_convention=metadata.naming_convention)
    for part in (*SHARED, queue_metadata) if dialect == "postgresql" else SHARED:
        for table in part.tables.values():
            table.to_metadata(whole)
    add_record_tables(whole, catalog.records.values())
    add_plain_tables(whole, catalog.tables, dialect)
    return whole
