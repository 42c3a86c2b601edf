"""Columns and indexes that joined the first migration after some stores had run it: add those that are missing.

A store that was made later has all of them, and nothing happens. Downgrading changes nothing either: the first
migration owns these columns now.
"""

import sqlalchemy as sa
from alembic import op

revision = "products_0005"
down_revision = "products_0004"
branch_labels = None
depends_on = None

COLUMNS = {
    "pages": (("product_url", sa.Text()), ("failed_at", sa.BigInteger())),
    "items": (("quarantined", sa.JSON()), ("held", sa.JSON()), ("pictures_due_at", sa.BigInteger())),
}
PICTURES_DUE = "ix_items_pictures_due_at_id"
OLD_INDEX, OLD_COLUMN = "ix_items_price_id", "product_hash"


def upgrade() -> None:
    for table, columns in COLUMNS.items():
        existing = _columns(table)
        for name, kind in columns:
            if name not in existing:
                op.add_column(table, sa.Column(name, kind))
    if OLD_COLUMN in _columns("pages"):
        op.drop_column("pages", OLD_COLUMN)
    if PICTURES_DUE not in _indexes("items"):
        wait = sa.text("pictures_due_at IS NOT NULL")
        op.create_index(PICTURES_DUE, "items", ["pictures_due_at", "id"], sqlite_where=wait, postgresql_where=wait)
    if OLD_INDEX in _indexes("items"):
        op.drop_index(OLD_INDEX, "items")


def downgrade() -> None:
    """Leave the columns: the revision before has them, too."""


def _columns(table: str) -> set[str]:
    return {column["name"] for column in sa.inspect(op.get_bind()).get_columns(table)}


def _indexes(table: str) -> set[str | None]:
    return {index["name"] for index in sa.inspect(op.get_bind()).get_indexes(table)}
