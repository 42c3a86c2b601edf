"""Pages remember when a crawl of them failed."""

import sqlalchemy as sa
from alembic import op

revision = "products_0002"
down_revision = "products_0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("pages", sa.Column("failed_at", sa.BigInteger()))


def downgrade() -> None:
    op.drop_column("pages", "failed_at")
