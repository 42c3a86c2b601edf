"""When a place last changed, and why it is gone: beside when it was last seen."""

import sqlalchemy as sa
from alembic import op

revision = "places_0003"
down_revision = "places_0002"
branch_labels = None
depends_on = None

# The change log has the moment of every change.
LAST_CHANGE = """
UPDATE places SET changed_at = coalesce(
  (SELECT max(c.at) FROM changes c WHERE c.kind = 'place' AND c.key = places.place_uid AND c.body IS NOT NULL),
  first_seen_at)
"""


def upgrade() -> None:
    op.add_column("places", sa.Column("changed_at", sa.BigInteger()))
    op.add_column("places", sa.Column("gone_reason", sa.Text()))
    op.add_column("places", sa.Column("gone_evidence", sa.JSON()))
    if sa.inspect(op.get_bind()).has_table("changes"):  # in a new store this branch may come before the ledger's own
        op.execute(LAST_CHANGE)
    with op.batch_alter_table("places") as table:
        table.alter_column("changed_at", nullable=False, existing_type=sa.BigInteger())


def downgrade() -> None:
    with op.batch_alter_table("places") as table:
        table.drop_column("gone_evidence")
        table.drop_column("gone_reason")
        table.drop_column("changed_at")
