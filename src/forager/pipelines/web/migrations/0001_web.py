"""Tables of web search: results by job, and the scrape job that reads them."""

import sqlalchemy as sa
from alembic import op

from forager.sdk.migrations import create_record_table, stamped

revision = "web_0001"
down_revision = None
branch_labels = ("web",)
depends_on = None


def upgrade() -> None:
    create_record_table(
        "web_results",
        sa.Column("position", sa.Text(), nullable=False),
        sa.Column("query", sa.Text()),
        sa.Column("title", sa.Text()),
        sa.Column("url", sa.Text()),
        sa.Column("snippet", sa.Text()),
        sa.Column("published", sa.Text()),
        key="position",
        scope="job",
    )
    op.create_table(
        "web_readings",
        sa.Column("search", sa.Text(), nullable=False),
        sa.Column("job", sa.Text(), nullable=False),
        stamped("created_at"),
        sa.PrimaryKeyConstraint("search", name="pk_web_readings"),
    )


def downgrade() -> None:
    for table in ("web_readings", "web_results"):
        op.drop_table(table)
