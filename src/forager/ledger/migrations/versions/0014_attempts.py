"""The log of attempts: those that failed, and every one of the kinds of tasks that want it."""

import sqlalchemy as sa
from alembic import op

revision = "core_0014"
down_revision = "core_0013"
branch_labels = None
depends_on = None


def upgrade() -> None:
    number = "its number; one that burned none has that of the next"
    op.create_table(
        "attempts",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("task_id", sa.BigInteger(), nullable=False),
        sa.Column("attempt", sa.SmallInteger(), nullable=False, comment=number),
        sa.Column("started_at", sa.BigInteger(), nullable=False),
        sa.Column("duration_ms", sa.BigInteger(), nullable=False),
        sa.Column(
            "status", sa.Text(), nullable=False, comment="completed, failed, skipped, snoozed, given_back or lost"
        ),
        sa.Column("reason", sa.Text()),
        sa.Column("error_type", sa.Text()),
        sa.Column("message", sa.Text()),
        sa.Column("traceback", sa.Text()),
        sa.PrimaryKeyConstraint("id", name="pk_attempts"),
    )
    op.create_index("ix_attempts_task_id", "attempts", ["task_id", "id"])
    op.create_index("ix_attempts_started_at", "attempts", ["started_at"])


def downgrade() -> None:
    op.drop_table("attempts")
