"""Old jobs are removed: their names stay for what refers to them, and their numbers are not given again."""

import sqlalchemy as sa
from alembic import op

revision = "core_0017"
down_revision = "core_0016"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "past_jobs",
        sa.Column("id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("public_id", sa.String(length=36), nullable=False),
        sa.Column("pipeline", sa.Text(), nullable=False),
        sa.Column("finished_at", sa.BigInteger(), nullable=False),
        sa.Column("clearing", sa.Boolean(), nullable=False, comment="some of its tasks may be left"),
        sa.PrimaryKeyConstraint("id", name="pk_past_jobs"),
        sa.UniqueConstraint("public_id", name="uq_past_jobs_public_id"),
    )
    left = sa.text("clearing")
    op.create_index("ix_past_jobs_clearing", "past_jobs", ["id"], sqlite_where=left, postgresql_where=left)
    op.create_index("ix_idempotency_job_id", "idempotency", ["job_id"])
    for name in ("last_job", "last_task"):
        op.add_column("tail", sa.Column(name, sa.BigInteger(), nullable=False, server_default="0"))


def downgrade() -> None:
    for name in ("last_task", "last_job"):
        op.drop_column("tail", name)
    op.drop_index("ix_idempotency_job_id", table_name="idempotency")
    op.drop_table("past_jobs")
