"""Tables of reviews: accounts, locations and reviews, each a row of its job."""

import sqlalchemy as sa
from alembic import op

from forager.sdk.migrations import create_index, create_record_table

revision = "reviews_0001"
down_revision = None
branch_labels = ("reviews",)
depends_on = None


def upgrade() -> None:
    create_record_table(
        "review_accounts",
        sa.Column("account_id", sa.Text(), nullable=False),
        sa.Column("account_name", sa.Text()),
        sa.Column("type", sa.Text()),
        sa.Column("role", sa.Text()),
        sa.Column("raw", sa.JSON()),
        key="account_id",
        scope="job",
    )
    create_record_table(
        "review_locations",
        sa.Column("location_key", sa.Text(), nullable=False),
        sa.Column("account_id", sa.Text()),
        sa.Column("location_id", sa.Text()),
        sa.Column("title", sa.Text()),
        sa.Column("raw", sa.JSON()),
        key="location_key",
        scope="job",
    )
    create_record_table(
        "reviews",
        sa.Column("review_key", sa.Text(), nullable=False),
        sa.Column("account_id", sa.Text()),
        sa.Column("location_id", sa.Text()),
        sa.Column("reviewId", sa.Text()),
        sa.Column("reviewer", sa.JSON()),
        sa.Column("rating", sa.BigInteger()),
        sa.Column("text", sa.Text()),
        sa.Column("createTime", sa.Text()),
        sa.Column("updateTime", sa.Text()),
        sa.Column("reply", sa.JSON()),
        sa.Column("raw", sa.JSON()),
        key="review_key",
        scope="job",
    )
    create_index("reviews", "job_id", "account_id", "location_id", "id")


def downgrade() -> None:
    for table in ("reviews", "review_locations", "review_accounts"):
        op.drop_table(table)
