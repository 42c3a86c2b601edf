"""What reviews finds: accounts, locations and reviews, each a row of its job."""

import sqlalchemy as sa
from alembic import op

revision = "reviews_0001"
down_revision = None
branch_labels = ("reviews",)
depends_on = None

# A rowid on SQLite needs INTEGER; everywhere else these are 64-bit.
BIG_ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    _create(
        "review_accounts",
        "account_id",
        sa.Column("account_name", sa.Text()),
        sa.Column("type", sa.Text()),
        sa.Column("role", sa.Text()),
        sa.Column("raw", sa.JSON()),
    )
    _create(
        "review_locations",
        "location_key",
        sa.Column("account_id", sa.Text()),
        sa.Column("location_id", sa.Text()),
        sa.Column("title", sa.Text()),
        sa.Column("raw", sa.JSON()),
    )
    _create(
        "reviews",
        "review_key",
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
    )
    columns = ["job_id", "account_id", "location_id", "id"]
    op.create_index("ix_reviews_job_id_account_id_location_id_id", "reviews", columns)


def downgrade() -> None:
    for table in ("reviews", "review_locations", "review_accounts"):
        op.drop_table(table)


def _create(table: str, key: str, *columns: sa.Column[object]) -> None:
    op.create_table(
        table,
        sa.Column("id", BIG_ID, nullable=False),
        sa.Column("job_id", sa.BigInteger(), nullable=False),
        sa.Column(key, sa.Text(), nullable=False),
        *columns,
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("first_seen_at", sa.BigInteger(), nullable=False),
        sa.Column("last_seen_at", sa.BigInteger(), nullable=False),
        sa.Column("times_seen", sa.BigInteger(), nullable=False),
        sa.Column("gone_at", sa.BigInteger()),
        sa.PrimaryKeyConstraint("id", name=f"pk_{table}"),
        sa.UniqueConstraint(key, "job_id", name=f"uq_{table}_key"),
    )
    op.create_index(f"ix_{table}_job", table, ["job_id", "id"])
