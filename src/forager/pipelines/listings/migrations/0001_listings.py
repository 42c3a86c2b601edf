"""What listings keeps: listings and their sources, markets, the data source, and what each scrape did."""

import sqlalchemy as sa
from alembic import op

revision = "listings_0001"
down_revision = None
branch_labels = ("listings",)
depends_on = None

# A rowid on SQLite needs INTEGER; everywhere else these are 64-bit.
BIG_ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
NOW = {
    "sqlite": "(CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER))",
    "postgresql": "((extract(epoch FROM clock_timestamp()) * 1000)::bigint)",
}
"""The moment of the INSERT, in Unix milliseconds."""


def upgrade() -> None:
    _records()
    _tables()


def downgrade() -> None:
    for table in (
        "market_configs",
        "data_sources",
        "source_runs",
        "market_scrapes",
        "listing_merges",
        "listing_splits",
        "listings",
        "listing_sources",
    ):
        op.drop_table(table)


def _records() -> None:
    op.create_table(
        "listings",
        sa.Column("id", BIG_ID, nullable=False),
        sa.Column("confidence_base", sa.Float()),
        sa.Column("confidence_updated_at", sa.BigInteger()),
        sa.Column("decay_rate", sa.Float()),
        sa.Column("zero_at", sa.BigInteger()),
        sa.Column("verify_at", sa.BigInteger()),
        sa.Column("listing_key", sa.Text(), nullable=False),
        sa.Column("market_id", sa.Text()),
        sa.Column("title", sa.Text()),
        sa.Column("address", sa.Text()),
        sa.Column("unit", sa.Text()),
        sa.Column("city", sa.Text()),
        sa.Column("state", sa.Text()),
        sa.Column("zip", sa.Text()),
        sa.Column("latitude", sa.Float()),
        sa.Column("longitude", sa.Float()),
        sa.Column("rent_min", sa.BigInteger()),
        sa.Column("rent_max", sa.BigInteger()),
        sa.Column("beds_min", sa.Float()),
        sa.Column("beds_max", sa.Float()),
        sa.Column("baths_min", sa.Float()),
        sa.Column("baths_max", sa.Float()),
        sa.Column("area_min", sa.BigInteger()),
        sa.Column("area_max", sa.BigInteger()),
        sa.Column("amenities", sa.JSON()),
        sa.Column("photos", sa.JSON()),
        sa.Column("phone", sa.Text()),
        sa.Column("available_date", sa.Text()),
        sa.Column("units", sa.JSON()),
        sa.Column("source_url", sa.Text()),
        sa.Column("verification_status", sa.Text()),
        sa.Column("verified_at", sa.BigInteger()),
        sa.Column("block_zip", sa.Text()),
        sa.Column("block_cell", sa.Text()),
        *_kept(),
        sa.PrimaryKeyConstraint("id", name="pk_listings"),
        sa.UniqueConstraint("listing_key", name="uq_listings_key"),
    )
    op.create_index("ix_listings_decay_rate_zero_at_id", "listings", ["decay_rate", "zero_at", "id"])
    op.create_index(
        "ix_listings_verify_at_id",
        "listings",
        ["verify_at", "id"],
        sqlite_where=sa.text("verify_at IS NOT NULL"),
        postgresql_where=sa.text("verify_at IS NOT NULL"),
    )
    op.create_index("ix_listings_market_id_id", "listings", ["market_id", "id"])
    op.create_index("ix_listings_market_id_rent_min_id", "listings", ["market_id", "rent_min", "id"])
    op.create_index("ix_listings_market_id_last_seen_at", "listings", ["market_id", "last_seen_at"])
    op.create_index(
        "ix_listings_zero_at",
        "listings",
        ["zero_at"],
        sqlite_where=sa.text("gone_at IS NULL"),
        postgresql_where=sa.text("gone_at IS NULL"),
    )
    op.create_index(
        "ix_listings_block_zip",
        "listings",
        ["block_zip"],
        sqlite_where=sa.text("block_zip IS NOT NULL"),
        postgresql_where=sa.text("block_zip IS NOT NULL"),
    )
    op.create_index(
        "ix_listings_block_cell",
        "listings",
        ["block_cell"],
        sqlite_where=sa.text("block_cell IS NOT NULL"),
        postgresql_where=sa.text("block_cell IS NOT NULL"),
    )
    op.create_table(
        "listing_sources",
        sa.Column("id", BIG_ID, nullable=False),
        sa.Column("source_key", sa.Text(), nullable=False),
        sa.Column("listing_key", sa.Text()),
        sa.Column("market_id", sa.Text()),
        sa.Column("source", sa.Text()),
        sa.Column("source_id", sa.Text()),
        sa.Column("url", sa.Text()),
        *_kept(),
        sa.PrimaryKeyConstraint("id", name="pk_listing_sources"),
        sa.UniqueConstraint("source_key", name="uq_listing_sources_key"),
    )
    op.create_index("ix_listing_sources_listing_key_id", "listing_sources", ["listing_key", "id"])
    op.create_index("ix_listing_sources_market_id_last_seen_at", "listing_sources", ["market_id", "last_seen_at"])


def _tables() -> None:
    now = sa.text(NOW[op.get_bind().dialect.name])
    op.create_table(
        "market_configs",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("display_name", sa.Text(), nullable=False),
        sa.Column("city", sa.Text(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("tier", sa.Text(), nullable=False, server_default=sa.text("'standard'")),
        sa.Column("is_enabled", sa.Boolean(), nullable=False, server_default=sa.text("true")),
        sa.Column("max_listings_per_scrape", sa.BigInteger(), nullable=False, server_default=sa.text("100")),
        sa.Column("scrape_frequency_hours", sa.BigInteger()),
        sa.Column("last_scrape_at", sa.BigInteger()),
        sa.Column("last_scrape_status", sa.Text()),
        sa.Column("consecutive_failures", sa.BigInteger(), nullable=False, server_default=sa.text("0")),
        sa.Column("created_at", sa.BigInteger(), nullable=False, server_default=now),
        sa.PrimaryKeyConstraint("id", name="pk_market_configs"),
    )
    op.create_table(
        "data_sources",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("is_enabled", sa.Boolean(), nullable=False, server_default=sa.text("true")),
        sa.Column("max_requests_per_hour", sa.BigInteger()),
        sa.Column("max_requests_per_day", sa.BigInteger()),
        sa.Column("max_usd_per_month", sa.BigInteger()),
        sa.Column("scheduled", sa.Boolean(), nullable=False, server_default=sa.text("false")),
        sa.Column("created_at", sa.BigInteger(), nullable=False, server_default=now),
        sa.PrimaryKeyConstraint("id", name="pk_data_sources"),
    )
    op.create_table(
        "source_runs",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("source", sa.Text(), nullable=False),
        sa.Column("market_id", sa.Text(), nullable=False),
        sa.Column("scrape_id", sa.Text(), nullable=False),
        sa.Column("started_at", sa.BigInteger(), nullable=False),
        sa.Column("status", sa.Text(), nullable=False, server_default=sa.text("'READY'")),
        sa.Column("max_usd", sa.BigInteger(), nullable=False, server_default=sa.text("0")),
        sa.Column("cost_usd", sa.BigInteger()),
        sa.PrimaryKeyConstraint("id", name="pk_source_runs"),
    )
    op.create_index("ix_source_runs_source_started_at", "source_runs", ["source", "started_at"])
    op.create_table(
        "market_scrapes",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("market_id", sa.Text(), nullable=False),
        sa.Column("status", sa.Text(), nullable=False, server_default=sa.text("'running'")),
        sa.Column("reason", sa.Text()),
        sa.Column("run_id", sa.Text()),
        sa.Column("run_started_at", sa.BigInteger()),
        sa.Column("started_at", sa.BigInteger(), nullable=False),
        sa.Column("ended_at", sa.BigInteger()),
        sa.Column("found", sa.BigInteger(), nullable=False, server_default=sa.text("0")),
        sa.Column("normalised", sa.BigInteger(), nullable=False, server_default=sa.text("0")),
        sa.Column("errors", sa.BigInteger(), nullable=False, server_default=sa.text("0")),
        sa.Column("new", sa.BigInteger(), nullable=False, server_default=sa.text("0")),
        sa.Column("updated", sa.BigInteger(), nullable=False, server_default=sa.text("0")),
        sa.Column("merged", sa.BigInteger(), nullable=False, server_default=sa.text("0")),
        sa.Column("skipped", sa.BigInteger(), nullable=False, server_default=sa.text("0")),
        sa.Column("api_ms", sa.BigInteger(), nullable=False, server_default=sa.text("0")),
        sa.Column("cost_usd", sa.BigInteger(), nullable=False, server_default=sa.text("0")),
        sa.Column("complete", sa.Boolean(), nullable=False, server_default=sa.text("false")),
        sa.PrimaryKeyConstraint("id", name="pk_market_scrapes"),
    )
    op.create_index(
        "ix_market_scrapes_market_id_started_at", "market_scrapes", ["market_id", sa.text("started_at DESC")]
    )
    op.create_index(
        "ix_market_scrapes_started_at",
        "market_scrapes",
        ["started_at"],
        sqlite_where=sa.text("status = 'running'"),
        postgresql_where=sa.text("status = 'running'"),
    )
    op.create_table(
        "listing_merges",
        sa.Column("source_key", sa.Text(), nullable=False),
        sa.Column("listing_key", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("evidence", sa.JSON(), nullable=False),
        sa.Column("merged_at", sa.BigInteger(), nullable=False, server_default=now),
        sa.PrimaryKeyConstraint("source_key", name="pk_listing_merges"),
    )
    op.create_table(
        "listing_splits",
        sa.Column("source_key", sa.Text(), nullable=False),
        sa.Column("listing_key", sa.Text(), nullable=False),
        sa.Column("split_at", sa.BigInteger(), nullable=False, server_default=now),
        sa.PrimaryKeyConstraint("source_key", "listing_key", name="pk_listing_splits"),
    )


def _kept() -> list[sa.Column[object]]:
    """The columns that the ledger keeps for every record of the world."""
    return [
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("first_seen_at", sa.BigInteger(), nullable=False),
        sa.Column("last_seen_at", sa.BigInteger(), nullable=False),
        sa.Column("times_seen", sa.BigInteger(), nullable=False),
        sa.Column("gone_at", sa.BigInteger()),
        sa.Column("changed_at", sa.BigInteger(), nullable=False),
        sa.Column("gone_reason", sa.Text()),
        sa.Column("gone_evidence", sa.JSON()),
    ]
