"""The archive: its files, and the records whose last state is in one of them."""

import sqlalchemy as sa
from alembic import op

revision = "core_0024"
down_revision = "core_0023"
branch_labels = None
depends_on = None


def upgrade() -> None:
    big_id = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
    op.create_table(
        "archives",
        sa.Column("id", big_id, nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("place", sa.Text(), nullable=False, comment="the folder or the address in S3"),
        sa.Column("path", sa.Text(), nullable=False),
        sa.Column("records", sa.Integer(), nullable=False),
        sa.Column("bytes", sa.BigInteger(), nullable=False),
        sa.Column("digest", sa.Text(), nullable=False, comment="SHA-256 of the file"),
        sa.Column(
            "state", sa.Text(), nullable=False, comment="writing, dropped: it does not count; moved, listed: it does"
        ),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_archives"),
    )
    unfinished = sa.text("state <> 'listed'")
    op.create_index("ix_archives_unfinished", "archives", ["id"], sqlite_where=unfinished, postgresql_where=unfinished)
    op.create_table(
        "archived",
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False, comment="a record that comes back continues from here"),
        sa.Column("archive_id", sa.BigInteger(), nullable=False),
        sa.Column("archived_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("kind", "key", name="pk_archived"),
    )


def downgrade() -> None:
    op.drop_table("archived")
    op.drop_table("archives")
