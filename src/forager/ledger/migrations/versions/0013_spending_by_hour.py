"""What a lane has spent in the last hour stands beside what it has spent in the day, for caps per hour."""

import sqlalchemy as sa
from alembic import op

revision = "core_0013"
down_revision = "core_0012"
branch_labels = None
depends_on = None


def upgrade() -> None:
    hour = sa.Column("hour", sa.SmallInteger(), comment="the last hour of the day in which something was spent …")
    spent = "… and what was spent in it"
    op.add_column("spending", hour)
    op.add_column(
        "spending", sa.Column("spent_hour", sa.BigInteger(), nullable=False, server_default="0", comment=spent)
    )


def downgrade() -> None:
    op.drop_column("spending", "spent_hour")
    op.drop_column("spending", "hour")
