"""An empty store of each kind, and the places pipeline's migrations as a copy to which a test may add."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from alembic import command
from sqlalchemy import Connection, text

from forager.ledger.catalog import Catalog
from forager.ledger.schema.connect import Store, in_transaction
from forager.ledger.schema.migrate import CORE, alembic_config, home, locations
from forager.pipelines.places.pipeline import places

PLACES = locations([places])[1]


@pytest.fixture
def catalog() -> Catalog:
    return Catalog([places])


@pytest.fixture(params=["sqlite", "postgres"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    """An empty one."""
    if request.param == "sqlite":
        return tmp_path / "home" / "ledger.db"
    url: str = request.getfixturevalue("postgres_url")
    return url


class NextVersion:
    """The program one revision later: the same migrations and one more, which changes a column under a view."""

    def __init__(self, folder: Path) -> None:
        self.migrations = folder / "places" / "migrations"
        shutil.copytree(PLACES, self.migrations)
        shutil.copy(home(PLACES) / "views.sql", self.migrations.parent)
        self.write("pass")

    def write(self, last_line: str) -> None:
        """Replace the migration; `last_line` is its last statement."""
        (self.migrations / "9999_narrow.py").write_text(NARROW.format(last_line=last_line))

    @property
    def locations(self) -> list[Path]:
        return [CORE, self.migrations]

    def upgrade(self, store: Store) -> None:
        in_transaction(store, lambda db: command.upgrade(alembic_config(self.locations, db), "heads"))

    def downgrade(self, store: Store, revision: str) -> None:
        in_transaction(store, lambda db: command.downgrade(alembic_config(self.locations, db), revision))


NARROW = """
import sqlalchemy as sa
from alembic import op

revision = "places_9999"
down_revision = "places_0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    with op.batch_alter_table("sightings") as batch:
        batch.alter_column("credits", type_=sa.Integer(), existing_type=sa.BigInteger())
        batch.add_column(sa.Column("language", sa.Text()))
    {last_line}


def downgrade() -> None:
    with op.batch_alter_table("sightings") as batch:
        batch.drop_column("language")
        batch.alter_column("credits", type_=sa.BigInteger(), existing_type=sa.Integer())
"""


@pytest.fixture
def next_version(tmp_path: Path) -> NextVersion:
    return NextVersion(tmp_path / "next")


Query = Callable[[str], list[tuple[object, ...]]]


@pytest.fixture
def query(store: Store) -> Query:
    """Rows of a statement, or none."""

    def run(sql: str) -> list[tuple[object, ...]]:
        def work(db: Connection) -> list[tuple[object, ...]]:
            result = db.execute(text(sql))
            return [tuple(row) for row in result] if result.returns_rows else []

        return in_transaction(store, work)

    return run
