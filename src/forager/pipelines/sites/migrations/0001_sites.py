"""Tables of sites: pages, addresses, and a row for each crawl."""

import sqlalchemy as sa
from alembic import op

from forager.sdk.migrations import create_index, create_record_table, stamped

revision = "sites_0001"
down_revision = None
branch_labels = ("sites",)
depends_on = None


def upgrade() -> None:
    create_record_table(
        "site_pages",
        sa.Column("url_hash", sa.Text(), nullable=False),
        sa.Column("url", sa.Text()),
        sa.Column("site", sa.Text()),
        sa.Column("title", sa.Text()),
        sa.Column("content", sa.Text()),
        sa.Column("form", sa.Text()),
        sa.Column("fields", sa.JSON()),
        sa.Column("sources", sa.JSON()),
        sa.Column("language", sa.Text()),
        sa.Column("page_kind", sa.Text()),
        sa.Column("content_hash", sa.Text()),
        sa.Column("duplicate_of", sa.Text()),
        sa.Column("links", sa.JSON()),
        sa.Column("links_out", sa.BigInteger()),
        sa.Column("links_in", sa.BigInteger()),
        sa.Column("status", sa.BigInteger()),
        sa.Column("depth", sa.BigInteger()),
        sa.Column("bytes", sa.BigInteger()),
        sa.Column("text_print", sa.Text()),
        sa.Column("crawl", sa.Text()),
        sa.Column("frequency", sa.BigInteger()),
        sa.Column("visited_at", sa.BigInteger()),
        sa.Column("etag", sa.Text()),
        sa.Column("last_modified", sa.Text()),
        sa.Column("confirmed", sa.BigInteger()),
        sa.Column("failed_at", sa.BigInteger()),
        sa.Column("visit_interval", sa.BigInteger()),
        sa.Column("next_visit_at", sa.BigInteger()),
        key="url_hash",
    )
    create_index("site_pages", "site", "id")
    create_index("site_pages", "next_visit_at", "id", where="next_visit_at IS NOT NULL")
    create_record_table(
        "site_addresses",
        sa.Column("url_hash", sa.Text(), nullable=False),
        sa.Column("url", sa.Text()),
        sa.Column("site", sa.Text()),
        sa.Column("source", sa.Text()),
        key="url_hash",
    )
    create_index("site_addresses", "site", "id")
    op.create_table(
        "site_crawls",
        sa.Column("crawl", sa.Text(), nullable=False),
        sa.Column("site", sa.Text(), nullable=False),
        sa.Column("url", sa.Text(), nullable=False),
        sa.Column("mode", sa.Text(), nullable=False),
        sa.Column("options", sa.JSON(), nullable=False),
        *(
            sa.Column(name, sa.BigInteger(), nullable=False, server_default=sa.text("0"))
            for name in ("pages", "bytes", "unchanged", "duplicates", "trapped", "addresses")
        ),
        sa.Column("job", sa.Text()),
        sa.Column("state", sa.Text()),
        stamped("started_at"),
        sa.Column("ended_at", sa.BigInteger()),
        sa.Column("linked_at", sa.BigInteger()),
        sa.PrimaryKeyConstraint("crawl", name="pk_site_crawls"),
    )
    create_index("site_crawls", "site", "started_at")


def downgrade() -> None:
    for table in ("site_crawls", "site_addresses", "site_pages"):
        op.drop_table(table)
