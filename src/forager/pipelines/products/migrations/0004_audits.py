"""Weekly audits of the catalogue."""

import sqlalchemy as sa
from alembic import op

revision = "products_0004"
down_revision = "products_0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "audits",
        sa.Column("week", sa.Text(), nullable=False),
        sa.Column("started_at", sa.BigInteger(), nullable=False),
        sa.Column("finished_at", sa.BigInteger()),
        sa.Column("findings", sa.JSON()),
        sa.PrimaryKeyConstraint("week", name="pk_audits"),
    )


def downgrade() -> None:
    op.drop_table("audits")
