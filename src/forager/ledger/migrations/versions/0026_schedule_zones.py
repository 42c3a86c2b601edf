"""The time zone of a schedule's cron expression."""

import sqlalchemy as sa
from alembic import op

revision = "core_0026"
down_revision = "core_0025"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("schedules", sa.Column("timezone", sa.Text(), nullable=False, server_default="UTC"))


def downgrade() -> None:
    with op.batch_alter_table("schedules") as table:
        table.drop_column("timezone")
