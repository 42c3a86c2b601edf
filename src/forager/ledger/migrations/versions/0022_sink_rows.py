"""Sinks as rows: which there are, of which type, and what each is given."""

import sqlalchemy as sa
from alembic import op

revision = "core_0022"
down_revision = "core_0021"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "sinks",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("type", sa.Text(), nullable=False),
        sa.Column("kinds", sa.JSON(), comment="NULL: all"),
        sa.Column("pipelines", sa.JSON(), comment="NULL: all"),
        sa.Column("options", sa.JSON(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("name", name="pk_sinks"),
    )


def downgrade() -> None:
    op.drop_table("sinks")
