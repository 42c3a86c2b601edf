"""The job of a scrape: `scrape_jobs` shows it as the id of the row."""

import sqlalchemy as sa
from alembic import op

revision = "listings_0003"
down_revision = "listings_0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("market_scrapes", sa.Column("job_id", sa.Text()))


def downgrade() -> None:
    with op.batch_alter_table("market_scrapes") as table:
        table.drop_column("job_id")
