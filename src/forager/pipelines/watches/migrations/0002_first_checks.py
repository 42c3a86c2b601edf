"""The last wanted check of a watch, and its failure while the page was never read."""

import sqlalchemy as sa
from alembic import op

revision = "watches_0002"
down_revision = "watches_0001"
branch_labels = None
depends_on = None

COLUMNS = (
    ("asked_at", sa.BigInteger()),
    ("job", sa.Text()),
    ("failed_at", sa.BigInteger()),
    ("error", sa.Text()),
)


def upgrade() -> None:
    for name, kind in COLUMNS:
        op.add_column("page_watches", sa.Column(name, kind))


def downgrade() -> None:
    with op.batch_alter_table("page_watches") as table:
        for name, _ in reversed(COLUMNS):
            table.drop_column(name)
