"""Accepted messages of each receiver of webhooks, and since when it accepts none."""

import sqlalchemy as sa
from alembic import op

revision = "deliveries_0001"
down_revision = None
branch_labels = ("deliveries",)
depends_on = None


def upgrade() -> None:
    op.create_table(
        "webhook_receivers",
        sa.Column("sink", sa.Text(), nullable=False),
        sa.Column("receiver", sa.Text(), nullable=False),
        sa.Column("host", sa.Text(), nullable=False, server_default=""),
        sa.Column("accepted", sa.BigInteger(), nullable=False, server_default=sa.text("0")),
        sa.Column("failures", sa.BigInteger(), nullable=False, server_default=sa.text("0")),
        sa.Column("failing_since", sa.BigInteger()),
        sa.Column("error", sa.Text()),
        sa.Column("error_at", sa.BigInteger()),
        sa.PrimaryKeyConstraint("sink", "receiver", name="pk_webhook_receivers"),
    )


def downgrade() -> None:
    op.drop_table("webhook_receivers")
