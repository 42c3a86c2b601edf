"""By which rate the stored listings of a market age: it differs from the tier's after a change by SQL."""

import sqlalchemy as sa
from alembic import op

revision = "listings_0002"
down_revision = "listings_0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("market_configs", sa.Column("listings_rate", sa.BigInteger()))


def downgrade() -> None:
    with op.batch_alter_table("market_configs") as table:
        table.drop_column("listings_rate")
