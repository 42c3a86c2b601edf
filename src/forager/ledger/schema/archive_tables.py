"""What the archive keeps in the ledger: its files, and the records whose last state is in one. See core/archive.py."""

from sqlalchemy import BigInteger, Column, Index, Integer, MetaData, Table, Text, text

from forager.ledger.schema.core_tables import BigId, metadata

archive_metadata = MetaData(naming_convention=metadata.naming_convention)

archives = Table(
    "archives",
    archive_metadata,
    Column("id", BigId, primary_key=True),
    Column("kind", Text, nullable=False),
    Column("place", Text, nullable=False, comment="the folder or the address in S3"),
    Column("path", Text, nullable=False),
    Column("records", Integer, nullable=False),
    Column("bytes", BigInteger, nullable=False),
    Column("digest", Text, nullable=False, comment="SHA-256 of the file"),
    Column("state", Text, nullable=False, comment="writing, dropped: it does not count; moved, listed: it does"),
    Column("created_at", BigInteger, nullable=False),
    Index(
        "ix_archives_unfinished",
        "id",
        sqlite_where=text("state <> 'listed'"),
        postgresql_where=text("state <> 'listed'"),
    ),
)

archived = Table(
    "archived",
    archive_metadata,
    Column("kind", Text, primary_key=True),
    Column("key", Text, primary_key=True),
    Column("version", Integer, nullable=False, comment="a record that comes back continues from here"),
    Column("archive_id", BigInteger, nullable=False),
    Column("archived_at", BigInteger, nullable=False),
)
