"""Tables of scrape: one row for each requested page that was read."""

import sqlalchemy as sa
from alembic import op

from forager.sdk.migrations import create_index, create_record_table, stamped

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
        sa.Column("from_store", sa.Boolean()),
        sa.Column("stored_pages", sa.JSON()),
        key="task_key",
        scope="job",
    )
    op.create_table(
        "page_schemas",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("body", sa.JSON(), nullable=False),
        sa.Column("learnt", sa.JSON()),
        stamped("created_at"),
        sa.PrimaryKeyConstraint("name", name="pk_page_schemas"),
    )
    op.create_table(
        "described_answers",
        sa.Column("page_hash", sa.Text(), nullable=False),
        sa.Column("question_hash", sa.Text(), nullable=False),
        sa.Column("found", sa.JSON(), nullable=False),
        sa.Column("model", sa.Text(), nullable=False),
        sa.Column("tokens_in", sa.BigInteger(), nullable=False),
        sa.Column("tokens_out", sa.BigInteger(), nullable=False),
        sa.Column("cost", sa.BigInteger(), nullable=False),
        stamped("created_at"),
        sa.PrimaryKeyConstraint("page_hash", "question_hash", name="pk_described_answers"),
    )
    op.create_index("ix_described_answers_created_at", "described_answers", ["created_at"])
    create_index("scrape_results", "target_url", "fetched_at", where="stored_pages IS NOT NULL")


def downgrade() -> None:
    op.drop_table("described_answers")
    op.drop_table("page_schemas")
    for table in ("scrape_results",):
        op.drop_table(table)
