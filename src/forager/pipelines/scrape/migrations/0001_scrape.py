"""What scrape finds: one row per page that was asked for and read."""

import sqlalchemy as sa
from alembic import op

revision = "scrape_0001"
down_revision = None
branch_labels = ("scrape",)
depends_on = None

# A rowid on SQLite needs INTEGER; everywhere else these are 64-bit.
BIG_ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    op.create_table(
        "scrape_results",
        sa.Column("id", BIG_ID, nullable=False),
        sa.Column("job_id", sa.BigInteger(), nullable=False),
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
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("first_seen_at", sa.BigInteger(), nullable=False),
        sa.Column("last_seen_at", sa.BigInteger(), nullable=False),
        sa.Column("times_seen", sa.BigInteger(), nullable=False),
        sa.Column("gone_at", sa.BigInteger()),
        sa.PrimaryKeyConstraint("id", name="pk_scrape_results"),
        sa.UniqueConstraint("job_id", "task_key", name="uq_scrape_results_key"),
    )


def downgrade() -> None:
    op.drop_table("scrape_results")
