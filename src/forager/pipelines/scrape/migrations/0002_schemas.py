"""Schemas of pages: fields that users have defined."""

import sqlalchemy as sa
from alembic import op

from forager.sdk.migrations import stamped

revision = "scrape_0002"
down_revision = "scrape_0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "page_schemas",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("body", sa.JSON(), nullable=False),
        sa.Column("learnt", sa.JSON()),
        stamped("created_at"),
        sa.PrimaryKeyConstraint("name", name="pk_page_schemas"),
    )


def downgrade() -> None:
    op.drop_table("page_schemas")
