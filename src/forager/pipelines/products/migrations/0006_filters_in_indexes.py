"""The indexes of product lists hold what lists are filtered by, so that no row is read that does not fit."""

from alembic import op

revision = "products_0006"
down_revision = "products_0005"
branch_labels = None
depends_on = None

COLUMNS = ("domain", "brand", "category")
LOOKED_AT = ["price", "rating", "availability", "gone_at"]


def upgrade() -> None:
    for column in COLUMNS:
        op.drop_index(f"ix_items_{column}_id", "items")
        op.create_index(f"ix_items_{column}_id_{'_'.join(LOOKED_AT)}", "items", [column, "id", *LOOKED_AT])


def downgrade() -> None:
    for column in COLUMNS:
        op.drop_index(f"ix_items_{column}_id_{'_'.join(LOOKED_AT)}", "items")
        op.create_index(f"ix_items_{column}_id", "items", [column, "id"])
