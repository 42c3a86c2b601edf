"""Offers, and the shops that operators configure."""

import sqlalchemy as sa
from alembic import op

from forager.sdk.migrations import create_index, create_record_table, stamped

revision = "shop_0001"
down_revision = None
branch_labels = ("shop",)
depends_on = None


def upgrade() -> None:
    create_record_table(
        "shop_offers",
        sa.Column("sku", sa.Text(), nullable=False),
        sa.Column("price", sa.BigInteger()),
        sa.Column("stock", sa.Text()),
        sa.Column("next_at", sa.BigInteger()),
        key="sku",
    )
    create_index("shop_offers", "next_at", "sku", where="next_at IS NOT NULL")
    create_index("shop_offers", "price DESC", "id", where="gone_at IS NULL")
    op.create_table(
        "shops",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("city", sa.Text(), nullable=False),
        sa.Column("tier", sa.Text(), nullable=False, server_default=sa.text("'cool'")),
        sa.Column("is_enabled", sa.Boolean(), nullable=False, server_default=sa.text("true")),
        sa.Column("failures", sa.BigInteger(), nullable=False, server_default=sa.text("0")),
        sa.Column("budget", sa.BigInteger(), nullable=False, server_default=sa.text("25000")),
        sa.Column("tags", sa.JSON(), nullable=False, server_default=sa.text("'[]'")),
        sa.Column("last_at", sa.BigInteger()),
        stamped("created_at"),
        sa.PrimaryKeyConstraint("id", name="pk_shops"),
    )
    create_index("shops", "city", where="is_enabled")


def downgrade() -> None:
    op.drop_table("shops")
    op.drop_table("shop_offers")
