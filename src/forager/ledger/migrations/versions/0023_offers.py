"""A queued task may be offered: those who know its number can claim it at once, all others when it is due."""

import sqlalchemy as sa
from alembic import op

revision = "core_0023"
down_revision = "core_0022"
branch_labels = None
depends_on = None


def upgrade() -> None:
    if op.get_bind().dialect.name == "postgresql":
        op.add_column(
            "queue",
            sa.Column(
                "offered",
                sa.Boolean(),
                nullable=False,
                server_default=sa.text("false"),
                comment="it may be claimed by its number before it is due",
            ),
        )


def downgrade() -> None:
    if op.get_bind().dialect.name == "postgresql":
        op.drop_column("queue", "offered")
