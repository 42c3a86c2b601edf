"""Whether the step of a suspect had begun when its worker died: only then does the crash count against the task."""

import sqlalchemy as sa
from alembic import op

revision = "core_0025"
down_revision = "core_0024"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column(
        "tasks",
        sa.Column(
            "begun", sa.BigInteger(), comment="the claim under which its step began while it ran alone as a suspect"
        ),
    )
    op.add_column(
        "tasks",
        sa.Column("waits", sa.Boolean(), comment="of that step: it waits for an answer, and does not run its own code"),
    )


def downgrade() -> None:
    op.drop_column("tasks", "waits")
    op.drop_column("tasks", "begun")
