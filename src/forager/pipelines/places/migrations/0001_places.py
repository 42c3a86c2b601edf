"""What places finds: places, once in the world, and their sightings, once per job."""

import sqlalchemy as sa
from alembic import op

revision = "places_0001"
down_revision = None
branch_labels = ("places",)
depends_on = None

# A rowid on SQLite needs INTEGER; everywhere else these are 64-bit.
BIG_ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    op.create_table(
        "places",
        sa.Column("id", BIG_ID, nullable=False),
        sa.Column("place_uid", sa.Text(), nullable=False),
        sa.Column("title", sa.Text()),
        sa.Column("address", sa.Text()),
        sa.Column("phone", sa.Text()),
        sa.Column("website", sa.Text()),
        sa.Column("rating", sa.Float()),
        sa.Column("rating_count", sa.BigInteger()),
        sa.Column("category", sa.Text()),
        sa.Column("latitude", sa.Float()),
        sa.Column("longitude", sa.Float()),
        sa.Column("cid", sa.Text()),
        sa.Column("place_id", sa.Text()),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("first_seen_at", sa.BigInteger(), nullable=False),
        sa.Column("last_seen_at", sa.BigInteger(), nullable=False),
        sa.Column("times_seen", sa.BigInteger(), nullable=False),
        sa.Column("gone_at", sa.BigInteger()),
        sa.PrimaryKeyConstraint("id", name="pk_places"),
        sa.UniqueConstraint("place_uid", name="uq_places_key"),
    )
    op.create_index("ix_places_category_place_uid", "places", ["category", "place_uid"])
    op.create_table(
        "sightings",
        sa.Column("id", BIG_ID, nullable=False),
        sa.Column("job_id", sa.BigInteger(), nullable=False),
        sa.Column("source", sa.Text()),
        sa.Column("source_version", sa.Text()),
        sa.Column("keyword", sa.Text()),
        sa.Column("state", sa.Text()),
        sa.Column("zip", sa.Text()),
        sa.Column("page", sa.BigInteger()),
        sa.Column("position", sa.BigInteger()),
        sa.Column("place_uid", sa.Text(), nullable=False),
        sa.Column("payload", sa.JSON()),
        sa.Column("api_status", sa.BigInteger()),
        sa.Column("api_ms", sa.BigInteger()),
        sa.Column("results_count", sa.BigInteger()),
        sa.Column("credits", sa.BigInteger()),
        sa.Column("error", sa.Text()),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("first_seen_at", sa.BigInteger(), nullable=False),
        sa.Column("last_seen_at", sa.BigInteger(), nullable=False),
        sa.Column("times_seen", sa.BigInteger(), nullable=False),
        sa.Column("gone_at", sa.BigInteger()),
        sa.PrimaryKeyConstraint("id", name="pk_sightings"),
        sa.UniqueConstraint("job_id", "place_uid", name="uq_sightings_key"),
    )
    op.create_index("ix_sightings_place_uid", "sightings", ["place_uid"])
    op.create_index("ix_sightings_zip_place_uid", "sightings", ["zip", "place_uid"])


def downgrade() -> None:
    op.drop_table("sightings")
    op.drop_table("places")
