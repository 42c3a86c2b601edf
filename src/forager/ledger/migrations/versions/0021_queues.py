"""Every lane has a queue, and a session may serve some queues only."""

import sqlalchemy as sa
from alembic import op

revision = "core_0021"
down_revision = "core_0020"
branch_labels = None
depends_on = None

INDEX = "ix_lanes_queue_wake_at"


def upgrade() -> None:
    op.add_column("lanes", sa.Column("queue", sa.Text(), nullable=False, server_default="celery"))
    free = sa.text("owner IS NULL")
    op.create_index(INDEX, "lanes", ["queue", "wake_at"], sqlite_where=free, postgresql_where=free)
    served = "JSON list of the queues that it serves; NULL: all"
    op.add_column("sessions", sa.Column("queues", sa.Text(), comment=served))


def downgrade() -> None:
    op.drop_index(INDEX, table_name="lanes")
    op.drop_column("lanes", "queue")
    op.drop_column("sessions", "queues")
