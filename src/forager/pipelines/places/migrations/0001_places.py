"""Tables of places: places, one row each, and their sightings, one row per job."""

import sqlalchemy as sa
from alembic import op

from forager.sdk.migrations import create_index, create_record_table

revision = "places_0001"
down_revision = None
branch_labels = ("places",)
depends_on = None


def upgrade() -> None:
    create_record_table(
        "places",
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
        key="place_uid",
    )
    create_index("places", "category", "id")
    create_record_table(
        "sightings",
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
        key="place_uid",
        scope="job",
    )
    create_index("sightings", "zip", "place_uid")


def downgrade() -> None:
    for table in ("sightings", "places"):
        op.drop_table(table)
