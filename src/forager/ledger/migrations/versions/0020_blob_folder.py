"""The ledger knows the folder in which its pages are stored, so that a worker with another one is refused."""

import sqlalchemy as sa
from alembic import op

revision = "core_0020"
down_revision = "core_0019"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "blob_folder",
        sa.Column("one", sa.SmallInteger(), nullable=False, autoincrement=False),
        sa.Column("folder", sa.Text(), nullable=False, comment="its id, which is also in its file folder.id"),
        sa.PrimaryKeyConstraint("one", name="pk_blob_folder"),
    )


def downgrade() -> None:
    op.drop_table("blob_folder")
