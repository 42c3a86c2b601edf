"""Rows that failed validation are kept as they came, and counted on their job."""

import sqlalchemy as sa
from alembic import op

revision = "core_0011"
down_revision = "core_0010"
branch_labels = None
depends_on = None

# A rowid on SQLite needs INTEGER; everywhere else these are 64-bit.
BIG_ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    op.add_column(
        "jobs",
        sa.Column(
            "rejected", sa.BigInteger(), nullable=False, server_default="0", comment="rows that failed validation"
        ),
    )
    op.create_table(
        "rejected",
        sa.Column("id", BIG_ID, nullable=False),
        sa.Column("job_id", sa.BigInteger(), nullable=False),
        sa.Column("task_id", sa.BigInteger(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False, comment="of the record that it should have been"),
        sa.Column("key", sa.Text()),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("payload", sa.JSON(), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_rejected"),
    )
    op.create_index("ix_rejected_job", "rejected", ["job_id", "id"])


def downgrade() -> None:
    op.drop_table("rejected")
    op.drop_column("jobs", "rejected")
