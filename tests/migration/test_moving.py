"""Moving a store that is in use: what is kept, what is made anew, what is refused."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from alembic.migration import MigrationContext
from alembic.operations import Operations
from sqlalchemy import Connection, Integer, text

from forager.core.errors import StoreLocked, StoreOutdated, StoreUnavailable
from forager.ledger.catalog import Catalog
from forager.ledger.schema.connect import Store, in_transaction
from forager.ledger.schema.migrate import check, create, current, downgrade, ensure_postgres, ensure_sqlite, upgrade
from forager.ledger.schema.revisions import CORE, heads
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
    assert query("SELECT credits, language FROM sightings") == [(7, None)]
    assert query("SELECT credits FROM serper_places") == [(7,)]
    next_version.downgrade(filled, "places@places_0003")
    upgrade(filled, catalog)  # by the older program, whose views now fit again
    assert query("SELECT credits FROM serper_places") == [(7,)]


def test_what_was_found_outlives_every_migration_of_its_table(filled: Store, catalog: Catalog, query: Query) -> None:
    downgrade(filled, catalog, "places@places_0001")
    assert query("SELECT place_uid, credits FROM sightings") == [("uid", 7)]
    upgrade(filled, catalog)
    assert query("SELECT place_uid, credits FROM serper_places") == [("uid", 7)]
    with pytest.raises(StoreUnavailable, match=r"(?i)unique"):
        query(SIGHTING)


def test_when_a_place_last_changed_is_taken_from_the_log(filled: Store, catalog: Catalog, query: Query) -> None:
    query(
        "INSERT INTO places (place_uid, version, first_seen_at, last_seen_at, times_seen, changed_at)"
        " VALUES ('told', 2, 1, 9, 3, 0), ('untold', 1, 1, 9, 3, 0)"
    )
    query(
        "INSERT INTO changes (id, kind, key, op, version, at, body) VALUES (1, 'place', 'told', 'new', 1, 1, '{}'),"
        " (2, 'place', 'told', 'changed', 2, 5, '{}'), (3, 'other', 'told', 'new', 1, 7, '{}')"
    )
    downgrade(filled, catalog, "places@places_0002")
    upgrade(filled, catalog)
    assert query("SELECT place_uid, changed_at FROM places ORDER BY place_uid") == [("told", 5), ("untold", 1)]


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
        with pytest.raises(StoreOutdated, match=r"newer Forager.*places_9999"):
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


def test_old_errors_are_taken_apart_and_put_together_again(filled: Store, catalog: Catalog, query: Query) -> None:
    """Until core_0007 an error began with its reason, or was it."""
    downgrade(filled, catalog, "core@core_0006")
    old = {
        "scrape.page": ["not_found: shop.test/a: none (404).", "timed_out: late", "No such word: at all"],
        "places.query": ["early_exit_page1_lt10", "after_failed", "robots: no", "not_found: Serper: no"],
    }
    errors = [(kind, error) for kind, all_ in old.items() for error in all_]
    for number, (kind, error) in enumerate(errors, 1):
        query(
            "INSERT INTO tasks (id, job_id, lane_id, kind, key, state, error, body)"
            f" VALUES ({number}, 1, 1, '{kind}', '{number}', 5, '{error}', '')"
        )
    upgrade(filled, catalog)
    assert query("SELECT reason, error FROM tasks ORDER BY id") == [
        ("not_found", "shop.test/a: none (404)."),
        ("timed_out", "late"),
        (None, "No such word: at all"),
        ("early_exit", "early_exit_page1_lt10"),
        ("after_failed", "after_failed"),
        ("robots", "no"),
        (None, "not_found: Serper: no"),
    ]
    downgrade(filled, catalog, "core@core_0006")
    assert query("SELECT kind, error FROM tasks ORDER BY id") == errors
    upgrade(filled, catalog)


def test_a_store_of_somebody_else_is_left_alone(store: Store, catalog: Catalog, query: Query) -> None:
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
