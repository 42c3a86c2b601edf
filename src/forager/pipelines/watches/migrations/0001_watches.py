"""Watches, and the pages that they have seen."""

import sqlalchemy as sa
from alembic import op

from forager.sdk.migrations import create_index, create_record_table, stamped

revision = "watches_0001"
down_revision = None
branch_labels = ("watches",)
depends_on = None


def upgrade() -> None:
    create_record_table(
        "watched_pages",
        sa.Column("watch", sa.Text(), nullable=False),
        sa.Column("url", sa.Text()),
        sa.Column("title", sa.Text()),
        sa.Column("text", sa.Text()),
        sa.Column("fields", sa.JSON()),
        sa.Column("sources", sa.JSON()),
        sa.Column("summary", sa.Text()),
        sa.Column("difference", sa.JSON()),
        sa.Column("seen_text", sa.Text()),
        sa.Column("noise", sa.JSON()),
        sa.Column("status", sa.BigInteger()),
        sa.Column("every", sa.BigInteger()),
        sa.Column("checks", sa.BigInteger()),
        sa.Column("checked_at", sa.BigInteger()),
        sa.Column("failed_at", sa.BigInteger()),
        sa.Column("error", sa.Text()),
        sa.Column("screenshot", sa.Text()),
        sa.Column("screenshot_before", sa.Text()),
        sa.Column("next_check_at", sa.BigInteger()),
        key="watch",
    )
    create_index("watched_pages", "next_check_at", where="next_check_at IS NOT NULL")
    op.create_table(
        "page_watches",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("url", sa.Text(), nullable=False),
        sa.Column("mode", sa.Text(), nullable=False),
        sa.Column("selector", sa.Text()),
        sa.Column("page_schema", sa.JSON()),
        sa.Column("every", sa.BigInteger(), nullable=False),
        sa.Column("render", sa.Text(), nullable=False, server_default=sa.text("'http'")),
        sa.Column("screenshots", sa.Boolean(), nullable=False, server_default=sa.text("false")),
        sa.Column("ignored", sa.JSON(), nullable=False),
        sa.Column("paused", sa.Boolean(), nullable=False, server_default=sa.text("false")),
        stamped("created_at"),
        sa.PrimaryKeyConstraint("name", name="pk_page_watches"),
    )


def downgrade() -> None:
    for table in ("page_watches", "watched_pages"):
        op.drop_table(table)
