"""Offers, and the shops that operators configure."""

import sqlalchemy as sa
from alembic import op

revision = "shop_0001"
down_revision = None
branch_labels = ("shop",)
depends_on = None

# A rowid on SQLite needs INTEGER; everywhere else these are 64-bit.
BIG_ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
NOW = {
    "sqlite": "(CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER))",
    "postgresql": "((extract(epoch FROM clock_timestamp()) * 1000)::bigint)",
}


def upgrade() -> None:
    op.create_table(
        "shop_offers",
        sa.Column("id", BIG_ID, nullable=False),
        sa.Column("sku", sa.Text(), nullable=False),
        sa.Column("price", sa.BigInteger()),
        sa.Column("stock", sa.Text()),
        sa.Column("next_at", sa.BigInteger()),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("first_seen_at", sa.BigInteger(), nullable=False),
        sa.Column("last_seen_at", sa.BigInteger(), nullable=False),
        sa.Column("times_seen", sa.BigInteger(), nullable=False),
        sa.Column("gone_at", sa.BigInteger()),
        sa.Column("changed_at", sa.BigInteger(), nullable=False),
        sa.Column("gone_reason", sa.Text()),
        sa.Column("gone_evidence", sa.JSON()),
        sa.PrimaryKeyConstraint("id", name="pk_shop_offers"),
        sa.UniqueConstraint("sku", name="uq_shop_offers_key"),
    )
    _index("ix_shop_offers_next_at_sku", "shop_offers", "next_at", "sku", where="next_at IS NOT NULL")
    _index("ix_shop_offers_price_id", "shop_offers", sa.text("price DESC"), "id", where="gone_at IS NULL")
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
        sa.Column(
            "created_at", sa.BigInteger(), nullable=False, server_default=sa.text(NOW[op.get_bind().dialect.name])
        ),
        sa.PrimaryKeyConstraint("id", name="pk_shops"),
    )
    _index("ix_shops_city", "shops", "city", where="is_enabled")


def downgrade() -> None:
    op.drop_table("shops")
    op.drop_table("shop_offers")


def _index(name: str, table: str, *columns: "str | sa.TextClause", where: str) -> None:
    condition = sa.text(where)
    op.create_index(name, table, list(columns), sqlite_where=condition, postgresql_where=condition)
