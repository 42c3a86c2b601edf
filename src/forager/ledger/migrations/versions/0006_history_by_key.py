"""The history of a thing is found by its key alone, whatever its kind: the index is smaller, and so is every commit."""

import sqlalchemy as sa
from alembic import op

revision = "core_0006"
down_revision = "core_0005"
branch_labels = None
depends_on = None

NAME = "ix_changes_key"


def upgrade() -> None:
    _index_by("key", "version")


def downgrade() -> None:
    _index_by("kind", "key", "version")


def _index_by(*columns: str) -> None:
    known = sa.text("body IS NOT NULL")
    op.drop_index(NAME, table_name="changes")
    op.create_index(NAME, "changes", list(columns), sqlite_where=known, postgresql_where=known)
