"""How long a task has waited in vain, so that it can be given up."""

import sqlalchemy as sa
from alembic import op

revision = "core_0004"
down_revision = "core_0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    said = "milliseconds in vain, without an attempt; NULL: none"
    op.add_column("tasks", sa.Column("waited", sa.BigInteger(), comment=said))
    op.add_column("tasks", sa.Column("waited_until", sa.BigInteger(), comment="when the last of these waits ended"))


def downgrade() -> None:
    op.drop_column("tasks", "waited_until")
    op.drop_column("tasks", "waited")
