"""Crashes while a step only waited for an answer are counted apart: they are weaker evidence against the task."""

import sqlalchemy as sa
from alembic import op

revision = "core_0029"
down_revision = "core_0028"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column(
        "tasks",
        sa.Column(
            "waiting_crashes",
            sa.SmallInteger(),
            nullable=False,
            server_default="0",
            comment="of a worker that ran only this task, while its step waited for an answer",
        ),
    )


def downgrade() -> None:
    op.drop_column("tasks", "waiting_crashes")
