"""A page that failed may have a picture."""

import sqlalchemy as sa
from alembic import op

revision = "core_0003"
down_revision = "core_0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("evidence", sa.Column("screenshot", sa.LargeBinary(), comment="a PNG"))


def downgrade() -> None:
    op.drop_column("evidence", "screenshot")
