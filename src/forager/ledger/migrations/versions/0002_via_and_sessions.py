"""The rule `via` of a site, the money that the unblocking service has cost, and named sessions of pages."""

import sqlalchemy as sa
from alembic import op

revision = "core_0002"
down_revision = "core_0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("domains", sa.Column("via", sa.Boolean(), comment="requests go through the unblocking service"))
    op.create_table(
        "via_spending",
        sa.Column("month", sa.Integer(), nullable=False, autoincrement=False, comment="as 202603"),
        sa.Column("day", sa.Integer(), nullable=False, comment="the last one with a request, as 20260314"),
        sa.Column("requests", sa.BigInteger(), nullable=False),
        sa.Column("spent", sa.BigInteger(), nullable=False, comment="millionths of a USD"),
        sa.Column("spent_today", sa.BigInteger(), nullable=False, comment="of that on the last day"),
        sa.PrimaryKeyConstraint("month", name="pk_via_spending"),
    )
    op.create_table(
        "page_sessions",
        sa.Column("workspace", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("hosts", sa.Text(), nullable=False, comment="JSON list"),
        sa.Column("cookies", sa.Integer(), nullable=False),
        sa.Column("visits", sa.BigInteger(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("used_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("workspace", "name", name="pk_page_sessions"),
    )


def downgrade() -> None:
    op.drop_table("page_sessions")
    op.drop_table("via_spending")
    with op.batch_alter_table("domains") as table:
        table.drop_column("via")
