"""The orders of the product list: each has an index, so that a sorted list of a large catalogue scans no table."""

from alembic import op

from forager.sdk.migrations import create_index

revision = "products_0002"
down_revision = "products_0001"
branch_labels = None
depends_on = None

COLUMNS = ("price", "rating", "product_name", "changed_at")


def upgrade() -> None:
    for column in COLUMNS:
        create_index("items", column, "id")


def downgrade() -> None:
    for column in reversed(COLUMNS):
        op.drop_index(f"ix_items_{column}_id", "items")
