"""What politeness keeps in the ledger: operators' rules for domains, robots.txt files, proxies."""

from sqlalchemy import BigInteger, Column, Float, Index, Integer, MetaData, SmallInteger, String, Table, Text, text
from sqlalchemy.types import Boolean

from forager.ledger.schema.core_tables import BigId, metadata

politeness_metadata = MetaData(naming_convention=metadata.naming_convention)

# What an operator says about a domain stands above every file; what is NULL here is not said.
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
    Column("currency", Text, comment="ISO 4217, for prices of pages that do not say one"),
    Column("crawl_frequency", BigInteger, comment="seconds between two crawls of a page; NULL: the general default"),
    Column("created_at", BigInteger, nullable=False),
    Column("updated_at", BigInteger, nullable=False),
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
    # Which are long past their use.
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
