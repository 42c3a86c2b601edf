"""Every table of a new store, declared in one place: what the sum of the migrations would make."""

from collections.abc import Collection

from sqlalchemy import (
    BigInteger,
    Column,
    Connection,
    Float,
    Index,
    Integer,
    MetaData,
    SmallInteger,
    String,
    Table,
    Text,
    text,
)
from sqlalchemy.types import JSON, Boolean

from forager.core.errors import StoreOutdated
from forager.ledger.catalog import Catalog
from forager.ledger.schema.core_tables import SQLITE_QUEUE_INDEXES, BigId, metadata, queue_metadata
from forager.ledger.schema.record_ddl import add_plain_tables, add_record_tables

# The archive's tables: its files, and the records whose last state is in one. See core/upkeep.py.


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


# The tables of deliveries: sinks, their positions in the change log, and the changes that they refused.


delivery_metadata = MetaData(naming_convention=metadata.naming_convention)

cursors = Table(
    "cursors",
    delivery_metadata,
    Column("sink", Text, primary_key=True),
    Column("position", BigInteger, nullable=False),
    Column("moved_at", BigInteger, nullable=False),
    Column("delivered", BigInteger, nullable=False, server_default="0", comment="changes that the sink has taken"),
    Column("rate", Float, nullable=False, server_default="0", comment="of these per second, when it last moved"),
    Column("failures", Integer, nullable=False, server_default="0", comment="in a row"),
    Column("error", Text, comment="the last"),
    Column("error_at", BigInteger),
    Column("retry_at", BigInteger, comment="NULL: it does not fail"),
    Column("failing_since", BigInteger, comment="NULL: it does not fail"),
)

# Sinks that operators added, besides those of the settings. Addresses and credentials are settings, but a webhook's
# URL.
sinks = Table(
    "sinks",
    delivery_metadata,
    Column("name", Text, primary_key=True),
    Column("type", Text, nullable=False),
    Column("kinds", JSON, comment="NULL: all"),
    Column("pipelines", JSON, comment="NULL: all"),
    Column("options", JSON, nullable=False),
    Column("created_at", BigInteger, nullable=False),
)

# Changes that a sink refused. The cursor has passed them; the log keeps them until an operator has decided.
set_aside = Table(
    "set_aside",
    delivery_metadata,
    Column("sink", Text, primary_key=True),
    Column("change_id", BigInteger, primary_key=True, autoincrement=False),
    Column("tries", Integer, nullable=False),
    Column("error", Text, nullable=False),
    Column("at", BigInteger, nullable=False),
    Column("retry", Boolean, nullable=False, server_default=text("false"), comment="to be delivered again"),
)


# The tables of politeness: operators' rules for domains, robots.txt files, proxies.


politeness_metadata = MetaData(naming_convention=metadata.naming_convention)

# An operator's rule for a domain takes precedence over every file; NULL leaves the value to the file.
domains = Table(
    "domains",
    politeness_metadata,
    Column("id", BigId, primary_key=True),
    Column("domain_name", Text, nullable=False, unique=True),
    Column("base_url", Text),
    Column("crawl_delay_seconds", Float),
    Column("max_concurrent_requests", Integer),
    Column("is_active", Boolean, nullable=False, server_default=text("true")),
    Column("tokens_per_interval", Float),
    Column("interval_seconds", Float),
    Column("min_delay_ms", Integer),
    Column("max_delay_ms", Integer),
    Column("allowed_hours_start", SmallInteger),
    Column("allowed_hours_end", SmallInteger),
    Column("respect_robots_txt", Boolean),
    Column("use_proxies", Boolean),
    Column("proxy_cooldown_seconds", Float),
    Column("block_resources", Text, comment="image, font, media, stylesheet; separated by commas"),
    Column("currency", Text, comment="ISO 4217, for prices of pages that name none"),
    Column("crawl_frequency", BigInteger, comment="seconds between two crawls of a page; NULL: the general default"),
    Column("created_at", BigInteger, nullable=False),
    Column("updated_at", BigInteger, nullable=False),
    Column("via", Boolean, comment="requests go through the unblocking service"),
    Index("ix_domains_updated_at", "updated_at"),
)

robots = Table(
    "robots",
    politeness_metadata,
    Column("origin", Text, primary_key=True),
    Column("status", Integer, comment="of the last try; NULL: no answer"),
    Column("tried_at", BigInteger, nullable=False),
    Column("body", Text, comment="the last good copy"),
    Column("good_at", BigInteger),
    # Finds files that expired long ago.
    Index("ix_robots_tried_at", "tried_at"),
)

proxies = Table(
    "proxies",
    politeness_metadata,
    Column("id", BigId, primary_key=True),
    Column("fingerprint", Text, nullable=False, unique=True, comment="keyed hash of the whole address: no two alike"),
    Column("protocol", Text, nullable=False),
    Column("url", Text, nullable=False, comment="the host, without user and password"),
    Column("port", Integer, nullable=False),
    Column("username", Text, comment="encrypted"),
    Column("password", Text, comment="encrypted"),
    Column("region", String(2)),
    Column("source", Text, nullable=False, comment="who added it: operator or settings"),
    Column("is_active", Boolean, nullable=False, server_default=text("true"), comment="the operator's switch"),
    Column("healthy", Boolean, nullable=False, server_default=text("true")),
    Column("disabled", Boolean, nullable=False, server_default=text("false"), comment="too many failures in a row"),
    Column("failure_count", Integer, nullable=False, server_default="0", comment="in a row"),
    Column("success_count", BigInteger, nullable=False, server_default="0"),
    Column("failures", BigInteger, nullable=False, server_default="0", comment="in all"),
    Column("last_used_at", BigInteger),
    Column("last_success_at", BigInteger),
    Column("last_failure_at", BigInteger),
    Column("last_check_at", BigInteger),
    Column("avg_response_time_ms", Float),
    Column("bytes", BigInteger, nullable=False, server_default="0"),
    Column("created_at", BigInteger, nullable=False),
    Column("updated_at", BigInteger, nullable=False),
)


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
    """Return every table that this program needs on this database."""
    whole = MetaData(naming_convention=metadata.naming_convention)
    for part in (*SHARED, queue_metadata) if dialect == "postgresql" else SHARED:
        for table in part.tables.values():
            table.to_metadata(whole)
    add_record_tables(whole, catalog.records.values())
    add_plain_tables(whole, catalog.tables, dialect)
    return whole
