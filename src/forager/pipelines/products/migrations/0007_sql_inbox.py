"""Requests that are made in SQL: an INSERT into `crawl_tasks`, a switch of a domain."""

import sqlalchemy as sa
from alembic import op

revision = "products_0007"
down_revision = "products_0006"
branch_labels = None
depends_on = None

NOW = {
    "sqlite": "(CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER))",
    "postgresql": "((extract(epoch FROM clock_timestamp()) * 1000)::bigint)",
}


def upgrade() -> None:
    now = sa.text(NOW[op.get_bind().dialect.name])
    op.create_table(
        "sql_inbox",
        sa.Column("id", sa.BigInteger(), nullable=False, autoincrement=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("body", sa.JSON(), nullable=False),
        sa.Column("batch", sa.Text()),
        sa.Column("error", sa.Text()),
        sa.Column("created_at", sa.BigInteger(), nullable=False, server_default=now),
        sa.PrimaryKeyConstraint("id", name="pk_sql_inbox"),
    )


def downgrade() -> None:
    op.drop_table("sql_inbox")
