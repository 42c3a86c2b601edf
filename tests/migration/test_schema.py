"""A fresh store and the sum of the migrations are the same schema, and both ways of migrating give it."""

import os
import shutil
import subprocess
import sys
from configparser import ConfigParser
from pathlib import Path

import pytest
from alembic.script import ScriptDirectory
from sqlalchemy import inspect

from forager.app.config import new_settings
from forager.app.features import FEATURES
from forager.app.wiring import build_pipelines
from forager.ledger.catalog import Catalog
from forager.ledger.schema.connect import Store, in_schema, in_transaction
from forager.ledger.schema.migrate import alembic_config, create, current, downgrade, heads, known, locations, upgrade
from forager.ledger.sqlite.lock import StoreLock
from tests.migration.catalogs import names, snapshot

ROOT = Path(__file__).parents[2]


@pytest.fixture
def catalog() -> Catalog:
    """Every pipeline that ships."""
    return Catalog(build_pipelines(new_settings(), FEATURES))


def _other(store: Store) -> Store:
    return store.with_name("other.db") if isinstance(store, Path) else store


def test_a_fresh_schema_is_the_sum_of_the_migrations(store: Store, catalog: Catalog) -> None:
    create(store, catalog)
    fresh = in_transaction(store, snapshot)
    other = _other(store)
    if other == store:
        downgrade(store, catalog, "base")
    upgrade(other, catalog)
    migrated = in_transaction(other, snapshot)
    assert fresh["tables"].keys() >= {"jobs", "tasks", "changes", "places", "sightings", "alembic_version"}
    for part in fresh:
        assert migrated[part] == fresh[part], part


def test_down_leaves_nothing_and_up_again_gives_the_same(store: Store, catalog: Catalog) -> None:
    upgrade(store, catalog)
    before = in_transaction(store, snapshot)
    downgrade(store, catalog, "base")
    left = in_transaction(store, names)
    assert left == {"alembic_version"}
    upgrade(store, catalog)
    assert in_transaction(store, snapshot) == before


def test_plain_alembic_upgrades_the_store_that_the_environment_names(store: Store, catalog: Catalog) -> None:
    named = (
        {"FORAGER_HOME": str(store.parent), "FORAGER_DATABASE_URL": ""}
        if isinstance(store, Path)
        else {"FORAGER_DATABASE_URL": store}
    )
    ran = _alembic("upgrade", "heads", **named)
    assert ran.returncode == 0, ran.stderr
    there = store if isinstance(store, Path) else in_schema(store, "forager")
    assert current(there) == sorted(heads(locations(catalog.pipelines.values())))
    assert "serper_jobs" in in_transaction(there, names)


def test_plain_alembic_has_the_commands_of_a_schema_update__PR_20(store: Store, tmp_path: Path) -> None:
    """`upgrade head`, `revision --autogenerate`, `downgrade`: on a copy of the program, to which a column is added."""
    copy = tmp_path / "program"
    shutil.copytree(ROOT / "src", copy / "src")  # with the compiled modules, which stay valid
    shutil.copy(ROOT / "alembic.ini", copy)
    named = (
        {"FORAGER_HOME": str(store.parent), "FORAGER_DATABASE_URL": ""}
        if isinstance(store, Path)
        else {"FORAGER_DATABASE_URL": store}
    )
    there = store if isinstance(store, Path) else in_schema(store, "forager")

    def alembic(*command: str) -> "subprocess.CompletedProcess[str]":
        return _alembic(*command, PROGRAM=str(copy), PYTHONPATH=str(copy / "src"), **named)

    def columns() -> set[str]:
        return {each["name"] for each in in_transaction(there, lambda db: inspect(db).get_columns("audits"))}

    ran = alembic("upgrade", "head")
    assert ran.returncode == 0, ran.stderr
    every = {
        "alerts",
        "core",
        "deliveries",
        "listings",
        "places",
        "products",
        "reviews",
        "scrape",
        "sites",
        "watches",
        "web",
    }
    assert {each.rpartition("_")[0] for each in current(there)} == every
    migrations = copy / "src/forager/pipelines/products/migrations"
    before = set(copy.rglob("migrations/**/*.py"))
    same = alembic("revision", "--autogenerate", "-m", "nothing")
    assert (same.returncode, set(copy.rglob("migrations/**/*.py")) - before) == (0, set()), same.stderr
    audit = copy / "src/forager/pipelines/products/health.py"
    field = "    findings: dict[str, Any] | None = None\n"
    assert field in audit.read_text()
    audit.write_text(audit.read_text().replace(field, f"{field}    note: str | None = None\n"))
    made = alembic("revision", "--autogenerate", "-m", "note of an audit")
    assert made.returncode == 0, made.stderr
    (file,) = set(copy.rglob("migrations/**/*.py")) - before
    assert (file.parent, "add_column" in file.read_text()) == (migrations, True)
    ran = alembic("upgrade", "head")
    assert (ran.returncode, "note" in columns()) == (0, True), ran.stderr
    unclear = alembic("downgrade", "-1")
    assert (unclear.returncode != 0, "note" in columns()) == (True, True)
    assert "Name the branch: alembic downgrade" in unclear.stderr + unclear.stdout
    back = alembic("downgrade", "products@-1")
    assert (back.returncode, "note" in columns()) == (0, False), back.stderr


def test_each_branch_has_one_head() -> None:
    where = locations(build_pipelines(new_settings(), FEATURES))
    scripts = ScriptDirectory.from_config(alembic_config(where))
    branches = {label: head.revision for head in scripts.get_revisions("heads") for label in head.branch_labels}
    assert sorted(branches) == [
        "alerts",
        "core",
        "deliveries",
        "listings",
        "places",
        "products",
        "reviews",
        "scrape",
        "sites",
        "watches",
        "web",
    ]
    assert set(branches.values()) == heads(where)


def test_plain_alembic_leaves_a_store_alone_that_a_process_has_open(tmp_path: Path) -> None:
    lock = StoreLock(tmp_path / "lock")
    lock.take()
    ran = _alembic("upgrade", "heads", FORAGER_HOME=str(tmp_path), FORAGER_DATABASE_URL="")
    lock.release()
    assert ran.returncode != 0
    assert "belongs to one process" in ran.stderr


def _alembic(*command: str, **environment: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "alembic", *command],
        cwd=environment.get("PROGRAM", ROOT),
        env={**os.environ, **environment},
        check=False,
        capture_output=True,
        text=True,
    )


def test_alembic_ini_names_the_migrations_of_every_pipeline() -> None:
    folders = {path.parent for path in (ROOT / "src/forager").glob("*/*/migrations/*.py")}
    ini = ConfigParser({"here": str(ROOT)})
    ini.read(ROOT / "alembic.ini")
    named = {Path(line) for line in ini["alembic"]["version_locations"].split()}
    assert named == {ROOT / "src/forager/ledger/migrations/versions", *folders}


def test_the_quick_look_at_revisions_agrees_with_alembic() -> None:
    where = locations(build_pipelines(new_settings(), FEATURES))
    scripts = ScriptDirectory.from_config(alembic_config(where))
    assert heads(where) == set(scripts.get_heads())
    assert known(where) == {script.revision for script in scripts.walk_revisions()}
