"""Several sinks: how each is doing stands beside its cursor, and changes that one refuses are set aside."""

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "core_0009"
down_revision = "core_0008"
branch_labels = None
depends_on = None

ZERO: dict[str, Any] = {"nullable": False, "server_default": "0"}


def upgrade() -> None:
    for column in (
        sa.Column("delivered", sa.BigInteger(), comment="changes that the sink has taken", **ZERO),
        sa.Column("rate", sa.Float(), comment="of these per second, when it last moved", **ZERO),
        sa.Column("failures", sa.Integer(), comment="in a row", **ZERO),
        sa.Column("error", sa.Text(), comment="the last"),
        sa.Column("error_at", sa.BigInteger()),
        sa.Column("retry_at", sa.BigInteger(), comment="NULL: it does not fail"),
    ):
        op.add_column("cursors", column)
    no = sa.text("false")
    op.create_table(
        "set_aside",
        sa.Column("sink", sa.Text(), nullable=False),
        sa.Column("change_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("tries", sa.Integer(), nullable=False),
        sa.Column("error", sa.Text(), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("retry", sa.Boolean(), nullable=False, server_default=no, comment="to be delivered again"),
        sa.PrimaryKeyConstraint("sink", "change_id", name="pk_set_aside"),
    )


def downgrade() -> None:
    op.drop_table("set_aside")
    for name in ("retry_at", "error_at", "error", "failures", "rate", "delivered"):
        op.drop_column("cursors", name)
