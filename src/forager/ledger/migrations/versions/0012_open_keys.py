"""The last task that was queued for a key, for kinds of tasks of which one is open at a time over all jobs."""

import sqlalchemy as sa
from alembic import op

revision = "core_0012"
down_revision = "core_0011"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "open_keys",
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("task_id", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("kind", "key", name="pk_open_keys"),
    )
    op.create_index("ix_open_keys_task_id", "open_keys", ["task_id"])


def downgrade() -> None:
    op.drop_table("open_keys")
