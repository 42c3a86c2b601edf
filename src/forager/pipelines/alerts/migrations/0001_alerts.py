"""Channels, rules, alerts, and the state of Forager itself."""

import sqlalchemy as sa
from alembic import op

from forager.sdk.migrations import create_index, create_record_table, stamped

revision = "alerts_0001"
down_revision = None
branch_labels = ("alerts",)
depends_on = None
_ZERO = sa.text("0")


def upgrade() -> None:
    create_record_table(
        "sink_states",
        sa.Column("sink", sa.Text(), nullable=False),
        sa.Column("failing", sa.Boolean()),
        sa.Column("stalled", sa.Boolean()),
        sa.Column("set_aside", sa.BigInteger()),
        sa.Column("error", sa.Text()),
        key="sink",
    )
    create_record_table(
        "dead_letter_states",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("dead_letters", sa.BigInteger()),
        key="name",
    )
    create_record_table(
        "spend_states",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("today", sa.Float()),
        sa.Column("month", sa.Float()),
        key="name",
    )
    op.create_table(
        "notify_channels",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("service", sa.Text(), nullable=False),
        sa.Column("digest_seconds", sa.BigInteger()),
        sa.Column("quiet_from", sa.BigInteger()),
        sa.Column("quiet_until", sa.BigInteger()),
        sa.Column("timezone", sa.Text(), nullable=False, server_default=sa.text("'UTC'")),
        sa.Column("per_hour", sa.BigInteger()),
        sa.Column("title", sa.Text()),
        sa.Column("body", sa.Text()),
        stamped("created_at"),
        sa.Column("accepted", sa.BigInteger(), nullable=False, server_default=_ZERO),
        sa.Column("failures", sa.BigInteger(), nullable=False, server_default=_ZERO),
        sa.Column("failing_since", sa.BigInteger()),
        sa.Column("error", sa.Text()),
        sa.Column("error_at", sa.BigInteger()),
        sa.PrimaryKeyConstraint("name", name="pk_notify_channels"),
    )
    op.create_table(
        "fired_alerts",
        *(sa.Column(name, sa.Text(), nullable=False) for name in ("alert", "channel", "rule")),
        sa.Column("change", sa.BigInteger(), nullable=False),
        *(sa.Column(name, sa.Text(), nullable=False) for name in ("record_kind", "record_key", "title", "body")),
        sa.Column("url", sa.Text()),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("slot", sa.BigInteger()),
        sa.Column("delivered_at", sa.BigInteger()),
        sa.PrimaryKeyConstraint("alert", "channel", name="pk_fired_alerts"),
    )
    create_index("fired_alerts", "channel", "slot", where="delivered_at IS NULL")
    create_index("fired_alerts", "at", "alert")
    create_index("fired_alerts", "rule", "at")
    op.create_table(
        "alert_rules",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("record_kind", sa.Text(), nullable=False),
        sa.Column("condition", sa.Text()),
        sa.Column("subject", sa.Text()),
        sa.Column("fields", sa.JSON()),
        sa.Column("channels", sa.JSON(), nullable=False),
        sa.Column("repeats", sa.Boolean(), nullable=False, server_default=sa.text("false")),
        sa.Column("since_change", sa.BigInteger(), nullable=False, server_default=_ZERO),
        sa.Column("paused", sa.Boolean(), nullable=False, server_default=sa.text("false")),
        stamped("created_at"),
        sa.PrimaryKeyConstraint("name", name="pk_alert_rules"),
    )


def downgrade() -> None:
    for table in (
        "alert_rules",
        "fired_alerts",
        "notify_channels",
        "spend_states",
        "dead_letter_states",
        "sink_states",
    ):
        op.drop_table(table)
