"""Tables of scrape: one row for each requested page that was read."""

import sqlalchemy as sa
from alembic import op

from forager.sdk.migrations import create_record_table

revision = "scrape_0001"
down_revision = None
branch_labels = ("scrape",)
depends_on = None


def upgrade() -> None:
    create_record_table(
        "scrape_results",
        sa.Column("task_key", sa.Text(), nullable=False),
        sa.Column("target_type", sa.Text()),
        sa.Column("target_url", sa.Text()),
        sa.Column("page_url", sa.Text()),
        sa.Column("workspace_id", sa.Text()),
        sa.Column("result", sa.JSON()),
        sa.Column("provenance", sa.JSON()),
        sa.Column("pages", sa.JSON()),
        sa.Column("rendered", sa.Boolean()),
        sa.Column("fetched_at", sa.BigInteger()),
        key="task_key",
        scope="job",
    )


def downgrade() -> None:
    for table in ("scrape_results",):
        op.drop_table(table)
