"""A session tells how many more lanes it could use, so that others can make room for it."""

import sqlalchemy as sa
from alembic import op

revision = "core_0018"
down_revision = "core_0017"
branch_labels = None
depends_on = None


def upgrade() -> None:
    wants = "how many more lanes it could use"
    op.add_column("sessions", sa.Column("wants", sa.Integer(), nullable=False, server_default="0", comment=wants))


def downgrade() -> None:
    op.drop_column("sessions", "wants")
