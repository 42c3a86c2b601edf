"""What products keeps: pages, one per URL, and items, the products that they show."""

import sqlalchemy as sa
from alembic import op

revision = "products_0001"
down_revision = None
branch_labels = ("products",)
depends_on = None

# A rowid on SQLite needs INTEGER; everywhere else these are 64-bit.
BIG_ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    op.create_table(
        "pages",
        sa.Column("id", BIG_ID, nullable=False),
        sa.Column("url_hash", sa.Text(), nullable=False),
        sa.Column("url", sa.Text()),
        sa.Column("domain", sa.Text()),
        sa.Column("priority", sa.BigInteger()),
        sa.Column("frequency", sa.BigInteger()),
        sa.Column("usual_frequency", sa.BigInteger()),
        sa.Column("recrawl", sa.Boolean()),
        sa.Column("max_retries", sa.BigInteger()),
        sa.Column("render", sa.Text()),
        sa.Column("outcome", sa.Text()),
        sa.Column("http_status", sa.BigInteger()),
        sa.Column("crawled_at", sa.BigInteger()),
        sa.Column("fetched_at", sa.BigInteger()),
        sa.Column("html", sa.Text()),
        sa.Column("etag", sa.Text()),
        sa.Column("last_modified", sa.Text()),
        sa.Column("confirmed", sa.BigInteger()),
        sa.Column("misses", sa.BigInteger()),
        sa.Column("product_url", sa.Text()),
        sa.Column("offer", sa.Text()),
        sa.Column("failed_at", sa.BigInteger()),
        sa.Column("crawl_interval", sa.BigInteger()),
        sa.Column("next_crawl_at", sa.BigInteger()),
        *_kept(),
        sa.PrimaryKeyConstraint("id", name="pk_pages"),
        sa.UniqueConstraint("url_hash", name="uq_pages_key"),
    )
    due = sa.text("next_crawl_at IS NOT NULL")
    op.create_index(
        "ix_pages_next_crawl_at_id", "pages", ["next_crawl_at", "id"], sqlite_where=due, postgresql_where=due
    )
    op.create_index("ix_pages_domain_id", "pages", ["domain", "id"])
    op.create_table(
        "items",
        sa.Column("id", BIG_ID, nullable=False),
        sa.Column("url_hash", sa.Text(), nullable=False),
        sa.Column("url", sa.Text()),
        sa.Column("domain", sa.Text()),
        sa.Column("product_name", sa.Text()),
        sa.Column("description", sa.Text()),
        sa.Column("price", sa.BigInteger()),
        sa.Column("currency", sa.Text()),
        sa.Column("availability", sa.Text()),
        sa.Column("rating", sa.BigInteger()),
        sa.Column("review_count", sa.BigInteger()),
        sa.Column("brand", sa.Text()),
        sa.Column("category", sa.Text()),
        sa.Column("sku", sa.Text()),
        sa.Column("gtin", sa.Text()),
        sa.Column("images", sa.JSON()),
        sa.Column("metadata", sa.JSON()),
        sa.Column("content_hash", sa.Text()),
        sa.Column("page_hash", sa.Text()),
        sa.Column("evidence", sa.JSON()),
        sa.Column("shown", sa.JSON()),
        sa.Column("unseen", sa.JSON()),
        sa.Column("fetched_at", sa.BigInteger()),
        sa.Column("parser", sa.Text()),
        sa.Column("parser_version", sa.BigInteger()),
        sa.Column("quarantined", sa.JSON()),
        sa.Column("held", sa.JSON()),
        sa.Column("pictures_due_at", sa.BigInteger()),
        *_kept(),
        sa.PrimaryKeyConstraint("id", name="pk_items"),
        sa.UniqueConstraint("url_hash", name="uq_items_key"),
    )
    for column in ("domain", "brand", "category"):
        op.create_index(f"ix_items_{column}_id", "items", [column, "id"])
    wait = sa.text("pictures_due_at IS NOT NULL")
    columns = ["pictures_due_at", "id"]
    op.create_index("ix_items_pictures_due_at_id", "items", columns, sqlite_where=wait, postgresql_where=wait)


def downgrade() -> None:
    op.drop_table("items")
    op.drop_table("pages")


def _kept() -> list[sa.Column[object]]:
    """The columns that the ledger keeps in every record table of world scope."""
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
