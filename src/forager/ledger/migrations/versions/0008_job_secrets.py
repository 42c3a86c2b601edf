"""Secrets that are submitted with a job: sealed, in a table of their own, gone when the job ends."""

import sqlalchemy as sa
from alembic import op

revision = "core_0008"
down_revision = "core_0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "job_secrets",
        sa.Column(
            "job_id", sa.BigInteger(), sa.ForeignKey("jobs.id", name="fk_job_secrets_job_id", ondelete="CASCADE")
        ),
        sa.Column("name", sa.Text()),
        sa.Column(
            "sealed", sa.Text(), nullable=False, comment="encrypted; deleted in the transaction that ends the job"
        ),
        sa.PrimaryKeyConstraint("job_id", "name", name="pk_job_secrets"),
    )


def downgrade() -> None:
    op.drop_table("job_secrets")
