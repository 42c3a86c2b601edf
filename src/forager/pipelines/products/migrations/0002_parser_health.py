"""The health of parsers, and fields that are quarantined because of it."""

import sqlalchemy as sa
from alembic import op

revision = "products_0002"
down_revision = "products_0001"
branch_labels = None
depends_on = None

BIG_ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
FIELDS = (
    "product_name",
    "description",
    "price",
    "currency",
    "availability",
    "rating",
    "review_count",
    "brand",
    "category",
    "sku",
    "gtin",
)


def upgrade() -> None:
    op.create_table(
        "parser_health",
        sa.Column("domain", sa.Text(), nullable=False),
        sa.Column("parser", sa.Text(), nullable=False),
        sa.Column("parser_version", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("day", sa.Text(), nullable=False),
        *(
            sa.Column(name, sa.BigInteger(), nullable=False, server_default=sa.text("0"))
            for name in ("pages", "products")
        ),
        *(sa.Column(name, sa.BigInteger(), nullable=False, server_default=sa.text("0")) for name in FIELDS),
        sa.PrimaryKeyConstraint("domain", "parser", "parser_version", "day", name="pk_parser_health"),
    )
    op.create_index("ix_parser_health_day", "parser_health", ["day"])
    op.create_table(
        "quarantines",
        sa.Column("domain", sa.Text(), nullable=False),
        sa.Column("parser", sa.Text(), nullable=False),
        sa.Column("parser_version", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("field", sa.Text(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False, server_default="open"),
        sa.Column("rate", sa.Float(), nullable=False),
        sa.Column("mean", sa.Float(), nullable=False),
        sa.Column("pages", sa.BigInteger(), nullable=False),
        sa.Column("since", sa.BigInteger(), nullable=False),
        sa.Column("decided_at", sa.BigInteger()),
        sa.PrimaryKeyConstraint("domain", "parser", "parser_version", "field", name="pk_quarantines"),
    )
    op.create_table(
        "parser_alerts",
        sa.Column("id", BIG_ID, nullable=False),
        sa.Column("alert_key", sa.Text(), nullable=False),
        sa.Column("domain", sa.Text()),
        sa.Column("parser", sa.Text()),
        sa.Column("parser_version", sa.BigInteger()),
        sa.Column("field", sa.Text()),
        sa.Column("state", sa.Text()),
        sa.Column("rate", sa.Float()),
        sa.Column("mean", sa.Float()),
        sa.Column("pages", sa.BigInteger()),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("first_seen_at", sa.BigInteger(), nullable=False),
        sa.Column("last_seen_at", sa.BigInteger(), nullable=False),
        sa.Column("times_seen", sa.BigInteger(), nullable=False),
        sa.Column("gone_at", sa.BigInteger()),
        sa.Column("changed_at", sa.BigInteger(), nullable=False),
        sa.Column("gone_reason", sa.Text()),
        sa.Column("gone_evidence", sa.JSON()),
        sa.PrimaryKeyConstraint("id", name="pk_parser_alerts"),
        sa.UniqueConstraint("alert_key", name="uq_parser_alerts_key"),
    )


def downgrade() -> None:
    for table in ("parser_alerts", "quarantines", "parser_health"):
        op.drop_table(table)
