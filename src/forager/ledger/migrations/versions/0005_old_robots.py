"""robots.txt files that are long past their use are found by an index."""

from alembic import op

revision = "core_0005"
down_revision = "core_0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_index("ix_robots_tried_at", "robots", ["tried_at"])


def downgrade() -> None:
    op.drop_index("ix_robots_tried_at", table_name="robots")
