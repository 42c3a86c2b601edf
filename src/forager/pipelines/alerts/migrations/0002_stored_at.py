"""The time at which an alert was stored: the limit of an hour counts by it, whatever the age of the change."""

import sqlalchemy as sa
from alembic import op

from forager.sdk.migrations import create_index

revision = "alerts_0002"
down_revision = "alerts_0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("fired_alerts", sa.Column("stored_at", sa.BigInteger()))
    create_index("fired_alerts", "channel", "stored_at")
    create_index("fired_alerts", "channel", "delivered_at")


def downgrade() -> None:
    op.drop_index("ix_fired_alerts_channel_delivered_at", "fired_alerts")
    op.drop_index("ix_fired_alerts_channel_stored_at", "fired_alerts")
    with op.batch_alter_table("fired_alerts") as table:
        table.drop_column("stored_at")
