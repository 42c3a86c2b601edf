"""Commands that only read leave an empty PostgreSQL database as it is: it may be the wrong one."""

import os

import pytest

from forager.cli.main import run
from tests.support.auditor import PostgresTables

TABLES = (
    "SELECT table_name FROM information_schema.tables WHERE table_schema NOT IN ('pg_catalog', 'information_schema')"
)


@pytest.fixture
def database(postgres_url: str, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> str:
    for name in [name for name in os.environ if name.startswith("FORAGER_")]:
        monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path_factory.mktemp("home"))
    monkeypatch.setenv("FORAGER_DATABASE_URL", postgres_url)
    return postgres_url


def test_a_reading_command_creates_no_tables_and_names_the_remedy(
    database: str, capsys: pytest.CaptureFixture[str]
) -> None:
    for command in (("jobs", "list"), ("export", "place"), ("lanes", "show", "serper")):
        assert run(command) != 0
        assert "`forager db upgrade`" in capsys.readouterr().err
    tables = PostgresTables(database)
    assert tables.read(TABLES) == []

    assert run(["db", "upgrade"]) == 0
    assert run(["jobs", "list"]) == 0
    assert len(tables.read(TABLES)) > 10
    tables.close()
