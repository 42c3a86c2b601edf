"""Watches: which are paused, and what each has done."""

import sqlalchemy as sa
from alembic import op

revision = "core_0019"
down_revision = "core_0018"
branch_labels = None
depends_on = None


def upgrade() -> None:
    no = sa.text("false")
    error = "of the task function, in the last page"
    op.create_table(
        "watches",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("paused", sa.Boolean(), nullable=False, server_default=no),
        sa.Column(
            "dispatched", sa.BigInteger(), nullable=False, server_default="0", comment="records that became tasks"
        ),
        sa.Column("last_at", sa.BigInteger()),
        sa.Column("error", sa.Text(), comment=error),
        sa.Column("error_at", sa.BigInteger()),
        sa.PrimaryKeyConstraint("name", name="pk_watches"),
    )


def downgrade() -> None:
    op.drop_table("watches")
