"""Since when a sink fails."""

import sqlalchemy as sa
from alembic import op

revision = "core_0028"
down_revision = "core_0027"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("cursors", sa.Column("failing_since", sa.BigInteger(), comment="NULL: it does not fail"))


def downgrade() -> None:
    with op.batch_alter_table("cursors") as table:
        table.drop_column("failing_since")
