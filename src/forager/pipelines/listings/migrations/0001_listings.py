"""Tables of listings: listings and their sources, markets, the data sources, and the result of each scrape."""

import sqlalchemy as sa
from alembic import op

from forager.sdk.migrations import create_index, create_record_table, stamped

revision = "listings_0001"
down_revision = None
branch_labels = ("listings",)
depends_on = None

_UNIT_FIELDS = ("beds", "baths", "rent", "area")


def upgrade() -> None:
    create_record_table(
        "listings",
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
        key="listing_key",
    )
    create_index("listings", "block_cell", where="block_cell IS NOT NULL")
    create_index("listings", "block_zip", where="block_zip IS NOT NULL")
    create_index("listings", "decay_rate", "confidence_base", "zero_at", "id")
    create_index("listings", "market_id", "id")
    create_index("listings", "market_id", "last_seen_at")
    create_index("listings", "market_id", "rent_min", "id")
    create_index("listings", "verify_at", "id", where="verify_at IS NOT NULL")
    create_index("listings", "zero_at", where="gone_at IS NULL")
    create_record_table(
        "listing_sources",
        sa.Column("source_key", sa.Text(), nullable=False),
        sa.Column("listing_key", sa.Text()),
        sa.Column("market_id", sa.Text()),
        sa.Column("source", sa.Text()),
        sa.Column("source_id", sa.Text()),
        sa.Column("url", sa.Text()),
        key="source_key",
    )
    create_index("listing_sources", "listing_key", "id")
    create_index("listing_sources", "market_id", "last_seen_at")
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
        stamped("created_at"),
        sa.Column("listings_rate", sa.BigInteger()),
        sa.Column("last_started_at", sa.BigInteger()),
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
        stamped("created_at"),
        sa.Column("asked", sa.Boolean(), nullable=False, server_default=sa.text("false")),
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
    create_index("source_runs", "source", "started_at")
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
        sa.Column("job_id", sa.Text()),
        sa.Column("message", sa.Text()),
        sa.PrimaryKeyConstraint("id", name="pk_market_scrapes"),
    )
    create_index("market_scrapes", "market_id", "started_at DESC")
    create_index("market_scrapes", "started_at", where="status = 'running'")
    op.create_table(
        "listing_merges",
        sa.Column("source_key", sa.Text(), nullable=False),
        sa.Column("listing_key", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("evidence", sa.JSON(), nullable=False),
        stamped("merged_at"),
        sa.PrimaryKeyConstraint("source_key", name="pk_listing_merges"),
    )
    op.create_table(
        "listing_splits",
        sa.Column("source_key", sa.Text(), nullable=False),
        sa.Column("listing_key", sa.Text(), nullable=False),
        stamped("split_at"),
        sa.PrimaryKeyConstraint("source_key", "listing_key", name="pk_listing_splits"),
    )
    op.create_table(
        "listing_units",
        sa.Column("listing_id", sa.BigInteger(), nullable=False),
        sa.Column("number", sa.BigInteger(), nullable=False),
        sa.Column("rent", sa.Float()),
        *(sa.Column(f"{field}_{end}", sa.Float()) for field in _UNIT_FIELDS for end in ("low", "high")),
        sa.PrimaryKeyConstraint("listing_id", "number", name="pk_listing_units"),
    )


def downgrade() -> None:
    op.drop_table("listing_units")
    for table in (
        "listing_splits",
        "listing_merges",
        "market_scrapes",
        "source_runs",
        "data_sources",
        "market_configs",
        "listing_sources",
        "listings",
    ):
        op.drop_table(table)
