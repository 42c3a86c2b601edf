"""Jobs that have not begun are counted by an index: a pipeline may limit their number."""

import sqlalchemy as sa
from alembic import op

revision = "core_0015"
down_revision = "core_0014"
branch_labels = None
depends_on = None


def upgrade() -> None:
    waiting = sa.text("finished_at IS NULL AND started_at IS NULL")
    op.create_index("ix_jobs_waiting", "jobs", ["pipeline"], sqlite_where=waiting, postgresql_where=waiting)


def downgrade() -> None:
    op.drop_index("ix_jobs_waiting", table_name="jobs")
