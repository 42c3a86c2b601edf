"""Making and moving the schema. A fresh store is created whole; an existing one is migrated by Alembic."""

from pathlib import Path

from sqlalchemy import create_engine, text

from forager.ledger.catalog import Catalog
from forager.ledger.schema import SQLITE_QUEUE_INDEXES, metadata
from forager.ledger.tables import add_record_tables


def create_sqlite(path: Path, catalog: Catalog) -> None:
    add_record_tables(metadata, [t for t in catalog.records.values() if t.name not in metadata.tables])
    engine = create_engine(f"sqlite:///{path}")
    with engine.begin() as db:
        metadata.create_all(db)
        for statement in SQLITE_QUEUE_INDEXES:
            db.execute(text(statement))
        db.execute(text("INSERT INTO tail (one, change, claim) VALUES (1, 0, 0)"))
    engine.dispose()
