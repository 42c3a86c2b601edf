"""Counts of shadow runs: a candidate parser beside the one in force."""

import sqlalchemy as sa
from alembic import op

revision = "products_0008"
down_revision = "products_0007"
branch_labels = None
depends_on = None

FIELDS = "product_name description price currency availability rating review_count brand category sku gtin".split()
COUNTS = [
    *"pages added_pages missing_pages broken broken_before".split(),
    *(f"{field}_{how}" for field in FIELDS for how in "agree stronger weaker even added missing".split()),
]


def upgrade() -> None:
    op.create_table(
        "parser_trials",
        sa.Column("domain", sa.Text(), nullable=False),
        sa.Column("parser", sa.Text(), nullable=False),
        sa.Column("parser_version", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("against", sa.Text(), nullable=False),
        sa.Column("against_version", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("day", sa.Text(), nullable=False),
        *(sa.Column(name, sa.BigInteger(), nullable=False, server_default=sa.text("0")) for name in COUNTS),
        sa.PrimaryKeyConstraint(
            "domain", "parser", "parser_version", "against", "against_version", "day", name="pk_parser_trials"
        ),
    )
    op.create_index("ix_parser_trials_day", "parser_trials", ["day"])


def downgrade() -> None:
    op.drop_table("parser_trials")
