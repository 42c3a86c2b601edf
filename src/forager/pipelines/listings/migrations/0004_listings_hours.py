"""Confidence by whole hours, the start of a market's last scrape, the message of a failed one, and asking first.

The index of confidence begins with rate and base, and the stored moments move to the whole hour at which confidence
changes. A verification that was brought forward keeps its moment.
"""

import sqlalchemy as sa
from alembic import op

revision = "listings_0004"
down_revision = "listings_0003"
branch_labels = None
depends_on = None

_BASE, _RATE = "CAST(confidence_base AS BIGINT)", "CAST(decay_rate AS BIGINT)"
# Bases and rates are whole numbers: every division is one of integers, which both databases cut off.
_WHOLE_HOURS = f"""
UPDATE listings SET
  zero_at = confidence_updated_at + 3600000 * (({_BASE} + {_RATE} - 1) / {_RATE}),
  verify_at = CASE WHEN verify_at = confidence_updated_at + 3600000 * ({_BASE} - 40) / {_RATE}
    THEN confidence_updated_at + 3600000 * (({_BASE} - 40) / {_RATE} + 1) ELSE verify_at END
WHERE confidence_base >= 40 AND decay_rate >= 1 AND confidence_updated_at IS NOT NULL
"""


def upgrade() -> None:
    op.drop_index("ix_listings_decay_rate_zero_at_id", "listings")
    op.create_index(
        "ix_listings_decay_rate_confidence_base_zero_at_id",
        "listings",
        ["decay_rate", "confidence_base", "zero_at", "id"],
    )
    op.execute(sa.text(_WHOLE_HOURS))
    op.add_column("market_configs", sa.Column("last_started_at", sa.BigInteger()))
    op.add_column("market_scrapes", sa.Column("message", sa.Text()))
    op.add_column("data_sources", sa.Column("asked", sa.Boolean(), nullable=False, server_default=sa.text("false")))
    op.execute(sa.text("UPDATE data_sources SET asked = scheduled"))


def downgrade() -> None:
    with op.batch_alter_table("data_sources") as table:
        table.drop_column("asked")
    with op.batch_alter_table("market_scrapes") as table:
        table.drop_column("message")
    with op.batch_alter_table("market_configs") as table:
        table.drop_column("last_started_at")
    op.drop_index("ix_listings_decay_rate_confidence_base_zero_at_id", "listings")
    op.create_index("ix_listings_decay_rate_zero_at_id", "listings", ["decay_rate", "zero_at", "id"])
