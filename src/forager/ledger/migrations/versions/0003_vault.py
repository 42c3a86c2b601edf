"""The vault: secret texts that users hand over while Forager runs."""

import sqlalchemy as sa
from alembic import op

revision = "core_0003"
down_revision = "core_0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "vault",
        sa.Column("kind", sa.Text(), nullable=False, comment="what the text belongs to: channel, session"),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("sealed", sa.Text(), nullable=False, comment="encrypted"),
        sa.PrimaryKeyConstraint("kind", "name", name="pk_vault"),
    )


def downgrade() -> None:
    op.drop_table("vault")
