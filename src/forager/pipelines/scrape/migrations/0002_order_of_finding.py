"""A job's results are read in the order of finding."""

from alembic import op

revision = "scrape_0002"
down_revision = "scrape_0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    _name_by("task_key", "job_id")
    op.create_index("ix_scrape_results_job", "scrape_results", ["job_id", "id"])


def downgrade() -> None:
    op.drop_index("ix_scrape_results_job", table_name="scrape_results")
    _name_by("job_id", "task_key")


def _name_by(*columns: str) -> None:
    """SQLite cannot change a constraint: there the table is written anew."""
    with op.batch_alter_table("scrape_results") as table:
        table.drop_constraint("uq_scrape_results_key", type_="unique")
        table.create_unique_constraint("uq_scrape_results_key", list(columns))
