"""A watch distinguishes its own page from that of a removed watch of the same name, without comparing clocks."""

import sqlalchemy as sa
from alembic import op

revision = "watches_0003"
down_revision = "watches_0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("page_watches", sa.Column("leftover_at", sa.BigInteger()))


def downgrade() -> None:
    with op.batch_alter_table("page_watches") as table:
        table.drop_column("leftover_at")
