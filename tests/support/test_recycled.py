"""A database that is lent again equals the template; one that cannot be reset is dropped."""

import os
from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest

from tests.support import recycled
from tests.support.auditor import PostgresTables
from tests.support.postgres import Postgres
from tests.support.recycled import Recycled


@pytest.fixture
def databases(postgres: Postgres) -> Iterator[Recycled]:
    """Copies of a template with two tables, one of which refers to the other and one of which holds a row."""
    url = postgres.create_database()
    postgres.execute(
        """CREATE TABLE lanes (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, name text NOT NULL);
        CREATE TABLE tasks (id bigserial PRIMARY KEY, lane_id bigint REFERENCES lanes (id));
        CREATE TYPE colour AS ENUM ('red');
        INSERT INTO lanes (name) VALUES ('it''s kept')""",
        url,
    )
    made = Recycled(postgres, url.rsplit("/", 1)[1])
    yield made
    made.close()
    postgres.drop_database(url)


def is_superuser(postgres: Postgres) -> bool:
    tables = PostgresTables(postgres.url("postgres"))
    (found,) = tables.read("SELECT rolsuper FROM pg_roles WHERE rolname = current_user")
    tables.close()
    return bool(found["rolsuper"])


@pytest.fixture
def lends_again(postgres: Postgres) -> None:
    if not is_superuser(postgres):
        pytest.skip("only a superuser's databases are lent again")


@pytest.mark.usefixtures("lends_again")
def test_rows_and_numbers_are_those_of_the_template_again(databases: Recycled) -> None:
    with databases.lent() as (first, tables):
        tables.read("INSERT INTO lanes (name) VALUES ('other')")
        tables.read("INSERT INTO tasks (lane_id) VALUES (1), (2)")
        tables.read("DELETE FROM tasks WHERE id = 1")
        tables.read("UPDATE lanes SET name = 'changed' WHERE id = 1")
    with databases.lent() as (second, tables):
        assert second == first
        assert tables.read("SELECT * FROM lanes") == [{"id": 1, "name": "it's kept"}]
        assert tables.read("SELECT * FROM tasks") == []
        assert tables.read("INSERT INTO lanes (name) VALUES ('next') RETURNING id") == [{"id": 2}]
        assert tables.read("INSERT INTO tasks (lane_id) VALUES (2) RETURNING id") == [{"id": 1}]


@pytest.mark.usefixtures("lends_again")
def test_settings_of_a_test_are_not_those_of_the_next(databases: Recycled) -> None:
    with databases.lent() as (first, tables):
        tables.read("SET search_path TO pg_catalog")
        tables.read("SELECT pg_advisory_lock(7)")
    with databases.lent() as (second, tables):
        assert second == first
        assert tables.read("SELECT name FROM lanes") == [{"name": "it's kept"}]
        assert tables.read("SELECT 1 FROM pg_locks WHERE locktype = 'advisory'") == []


@pytest.fixture
def plain_role(postgres: Postgres) -> Iterator[Postgres]:
    """The server by a role that may create databases and nothing else; the own role, if that is no superuser."""
    if not is_superuser(postgres):
        yield postgres
        return
    name = f"plain_{os.getpid()}"
    postgres.execute(f"CREATE ROLE {name} LOGIN CREATEDB PASSWORD '{name}'")
    at = urlsplit(postgres.url("postgres"))
    yield Postgres(at._replace(netloc=f"{name}:{name}@{at.netloc.rpartition('@')[2]}").geturl())
    postgres.execute(f"DROP ROLE {name}")


def test_a_role_that_is_no_superuser_gets_a_new_database_each_time(plain_role: Postgres) -> None:
    template = plain_role.create_database()
    plain_role.execute("CREATE TABLE lanes (name text)", template)
    databases = Recycled(plain_role, urlsplit(template).path[1:])
    urls = set()
    for _ in range(2):
        with databases.lent() as (url, tables):
            assert tables.read("SELECT * FROM lanes") == []
            tables.read("INSERT INTO lanes VALUES ('one')")
            urls.add(url)
    assert len(urls) == 2
    databases.close()
    plain_role.drop_database(template)


def test_two_tests_at_once_have_two_databases(databases: Recycled) -> None:
    with databases.lent() as (one, _), databases.lent() as (other, _):
        assert one != other


@pytest.mark.parametrize(
    "change",
    [
        "ALTER TABLE tasks ADD COLUMN more text",
        "ALTER TABLE tasks DROP CONSTRAINT tasks_lane_id_fkey",
        "CREATE INDEX by_lane ON tasks (lane_id)",
        "CREATE TABLE more (id int)",
        "CREATE SCHEMA more",
        "ALTER TYPE colour ADD VALUE 'green'",
        "ALTER DEFAULT PRIVILEGES GRANT SELECT ON TABLES TO PUBLIC",
        "SELECT lo_create(0)",
        "TRUNCATE tasks",
        "ANALYZE lanes",
    ],
)
def test_a_database_whose_schema_was_changed_is_not_lent_again(databases: Recycled, change: str) -> None:
    with databases.lent() as (first, tables):
        tables.read(change)
    with databases.lent() as (second, _):
        assert second != first


def test_a_database_with_a_connection_that_stays_is_not_lent_again(
    databases: Recycled, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recycled, "LEAVE_SECONDS", 0.0)
    with databases.lent() as (first, _):
        left = PostgresTables(first)
    with databases.lent() as (second, _):
        assert second != first
    with pytest.raises(Exception, match="connection"):
        left.read("SELECT 1")


def test_a_database_of_a_test_that_failed_is_not_lent_again(databases: Recycled) -> None:
    with pytest.raises(AssertionError), databases.lent() as (first, _):
        raise AssertionError
    with databases.lent() as (second, _):
        assert second != first
