"""Moving a store with data: what is kept, what is created again, what is refused."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from alembic.migration import MigrationContext
from alembic.operations import Operations
from sqlalchemy import Connection, Integer, text

from forager.core.errors import StoreLocked, StoreOutdated, StoreUnavailable
from forager.ledger.catalog import Catalog
from forager.ledger.schema.connect import Store, in_transaction
from forager.ledger.schema.migrate import (
    CORE,
    check,
    create,
    current,
    downgrade,
    ensure_postgres,
    ensure_sqlite,
    heads,
    upgrade,
)
from forager.ledger.sqlite.lock import StoreLock
from tests.migration.conftest import NextVersion, Query

JOB = (
    "INSERT INTO jobs (id, public_id, pipeline, params, state, created_at)"
    " VALUES (1, 'a-job', 'places', '{\"keyword\": \"bars\", \"pages\": 1}', 'queued', 0)"
)
SIGHTING = (
    "INSERT INTO sightings (job_id, place_uid, credits, version, first_seen_at, last_seen_at, times_seen)"
    " VALUES (1, 'uid', 7, 1, 0, 0, 1)"
)


@pytest.fixture
def filled(store: Store, catalog: Catalog, query: Query) -> Store:
    """A store with a job and what it found."""
    create(store, catalog)
    query(JOB)
    query(SIGHTING)
    return store


def test_an_upgrade_keeps_the_data_and_the_views_trap_11(
    filled: Store, catalog: Catalog, next_version: NextVersion, query: Query
) -> None:
    next_version.upgrade(filled)
    assert current(filled) == sorted([*heads([CORE]), "places_9999"])
    assert query("SELECT credits, language FROM sightings") == [(7, None)]
    assert query("SELECT credits FROM serper_places") == [(7,)]
    next_version.downgrade(filled, "places@places_0001")
    upgrade(filled, catalog)  # by the older program, whose views now fit again
    assert query("SELECT credits FROM serper_places") == [(7,)]
    with pytest.raises(StoreUnavailable, match=r"(?i)unique"):
        query(SIGHTING)  # SQLite has written the table twice, with its constraints


def test_the_same_change_fails_while_the_view_is_there_trap_11(filled: Store) -> None:
    """The control: without dropping the views first, neither database lets the column be changed."""

    def change(db: Connection) -> None:
        with Operations(MigrationContext.configure(db)).batch_alter_table("sightings") as batch:
            batch.alter_column("credits", type_=Integer())

    with pytest.raises(StoreUnavailable, match=r"serper_places|view"):
        in_transaction(filled, change)


def test_undoing_a_pipeline_keeps_the_ledger(filled: Store, catalog: Catalog, query: Query) -> None:
    downgrade(filled, catalog, "places@base")
    assert current(filled) == sorted(heads([CORE]))
    assert query("SELECT public_id FROM jobs") == [("a-job",)]
    assert query("SELECT count(*) FROM tasks_now") == [(0,)]
    upgrade(filled, catalog)
    assert query("SELECT public_id FROM jobs") == [("a-job",)]
    assert query("SELECT job_id, status FROM serper_jobs") == [("a-job", "running")]
    assert query("SELECT count(*) FROM serper_places") == [(0,)]


def test_an_upgrade_that_fails_leaves_everything_as_it_was(
    filled: Store, catalog: Catalog, next_version: NextVersion, query: Query
) -> None:
    next_version.write("op.execute('SELECT no_such_column FROM jobs')")
    with pytest.raises(StoreUnavailable, match="no_such_column"):
        next_version.upgrade(filled)
    check(filled, catalog)
    assert query("SELECT credits FROM serper_places") == [(7,)]
    with pytest.raises(StoreUnavailable, match="language"):
        query("SELECT language FROM sightings")


def test_a_newer_store_is_refused(filled: Store, catalog: Catalog, next_version: NextVersion) -> None:
    next_version.upgrade(filled)
    for ensure in (check, ensure_sqlite if isinstance(filled, Path) else ensure_postgres):
        with pytest.raises(StoreOutdated, match=r"places_9999.*newer Forager.*development version.*new home"):
            ensure(filled, catalog)  # type: ignore[arg-type]


def test_an_older_embedded_store_is_upgraded_and_an_older_database_is_not(
    filled: Store, catalog: Catalog, query: Query
) -> None:
    downgrade(filled, catalog, "places@base")
    with pytest.raises(StoreOutdated, match="forager db upgrade"):
        check(filled, catalog)
    if isinstance(filled, Path):
        ensure_sqlite(filled, catalog)
        check(filled, catalog)
        assert query("SELECT status FROM serper_jobs") == [("running",)]
    else:
        with pytest.raises(StoreOutdated, match="forager db upgrade"):
            ensure_postgres(filled, catalog)


def test_two_processes_that_start_together_make_one_schema(store: Store, catalog: Catalog) -> None:
    def ensure() -> None:
        if isinstance(store, Path):
            ensure_sqlite(store, catalog)
        else:
            ensure_postgres(store, catalog)

    with ThreadPoolExecutor(4) as pool:
        for started in [pool.submit(ensure) for _ in range(4)]:
            started.result()
    check(store, catalog)


def test_a_store_with_tables_of_another_program_is_left_alone(store: Store, catalog: Catalog, query: Query) -> None:
    query("CREATE TABLE jobs (mine TEXT)")
    with pytest.raises(StoreOutdated, match="a database of its own"):
        create(store, catalog)


def test_the_views_of_an_older_program_are_replaced(tmp_path: Path, catalog: Catalog) -> None:
    store = tmp_path / "ledger.db"
    ensure_sqlite(store, catalog)

    def age(db: Connection) -> None:
        db.execute(text("DROP VIEW serper_places"))
        db.execute(text("CREATE VIEW serper_places AS SELECT 1 AS old"))
        db.execute(text("CREATE VIEW forgotten AS SELECT 1 AS old"))
        db.execute(text("UPDATE derived SET hash = 'old' WHERE name = 'serper_places'"))
        db.execute(text("INSERT INTO derived (name, position, hash) VALUES ('forgotten', 99, 'old')"))

    in_transaction(store, age)
    ensure_sqlite(store, catalog)
    made = in_transaction(store, lambda db: set(db.scalars(text("SELECT name FROM sqlite_master WHERE type = 'view'"))))
    seeds = {"serper_jobs", "serper_queries", "serper_places"}
    assert made == {"tasks_now", "dead_letters", *seeds, "places_jobs", "places_queries", "places_sightings"}
    assert in_transaction(store, lambda db: db.scalars(text("SELECT place_uid FROM serper_places")).all()) == []


def test_a_store_that_a_process_has_open_is_not_moved(tmp_path: Path, catalog: Catalog) -> None:
    store = tmp_path / "ledger.db"
    create(store, catalog)
    lock = StoreLock(tmp_path / "lock")
    lock.take()
    try:
        with pytest.raises(StoreLocked):
            downgrade(store, catalog, "places@base")
    finally:
        lock.release()
    downgrade(store, catalog, "places@base")


def test_a_file_that_is_no_database_is_named(tmp_path: Path, catalog: Catalog) -> None:
    store = tmp_path / "ledger.db"
    store.write_bytes(b"not a database, whatever its name says" * 100)
    with pytest.raises(StoreUnavailable, match="not a database"):
        ensure_sqlite(store, catalog)
