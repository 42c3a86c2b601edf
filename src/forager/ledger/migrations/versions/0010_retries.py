"""How often a task is retried, where its plan says so."""

import sqlalchemy as sa
from alembic import op

revision = "core_0010"
down_revision = "core_0009"
branch_labels = None
depends_on = None


def upgrade() -> None:
    said = "how often it is retried; NULL: as its step or lane says"
    op.add_column("tasks", sa.Column("retries", sa.SmallInteger(), comment=said))


def downgrade() -> None:
    op.drop_column("tasks", "retries")
