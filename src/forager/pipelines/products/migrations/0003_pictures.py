"""Pictures of products."""

import sqlalchemy as sa
from alembic import op

revision = "products_0003"
down_revision = "products_0002"
branch_labels = None
depends_on = None

BIG_ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    op.create_table(
        "pictures",
        sa.Column("id", BIG_ID, nullable=False),
        sa.Column("picture_key", sa.Text(), nullable=False),
        sa.Column("product_hash", sa.Text()),
        sa.Column("image_url", sa.Text()),
        sa.Column("image_path", sa.Text()),
        sa.Column("alt_text", sa.Text()),
        sa.Column("image_type", sa.Text()),
        sa.Column("position", sa.BigInteger()),
        sa.Column("width", sa.BigInteger()),
        sa.Column("height", sa.BigInteger()),
        sa.Column("file_size", sa.BigInteger()),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("first_seen_at", sa.BigInteger(), nullable=False),
        sa.Column("last_seen_at", sa.BigInteger(), nullable=False),
        sa.Column("times_seen", sa.BigInteger(), nullable=False),
        sa.Column("gone_at", sa.BigInteger()),
        sa.Column("changed_at", sa.BigInteger(), nullable=False),
        sa.Column("gone_reason", sa.Text()),
        sa.Column("gone_evidence", sa.JSON()),
        sa.PrimaryKeyConstraint("id", name="pk_pictures"),
        sa.UniqueConstraint("picture_key", name="uq_pictures_key"),
    )


def downgrade() -> None:
    op.drop_table("pictures")
