"""The HTTP request that submitted a job, so that every process can log it."""

import sqlalchemy as sa
from alembic import op

revision = "core_0027"
down_revision = "core_0026"
branch_labels = None
depends_on = None


def upgrade() -> None:
    comment = "of the HTTP request that submitted it, for the log"
    op.add_column("jobs", sa.Column("request_id", sa.String(36), comment=comment))


def downgrade() -> None:
    op.drop_column("jobs", "request_id")
