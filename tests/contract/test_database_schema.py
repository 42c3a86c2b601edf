"""On PostgreSQL the tables live in a schema of their own, and views where readers expect them."""

from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import asyncpg
import pytest

from forager.app.compose import open_app
from forager.app.config import new_settings
from forager.app.features import all_features
from forager.app.wiring import build_pipelines
from forager.core.errors import StoreError
from forager.ledger.catalog import Catalog
from forager.ledger.schema import migrate
from forager.ledger.schema.connect import in_schema, locate

SCHEMAS = """
SELECT table_schema AS schema, table_type AS type, table_name AS name FROM information_schema.tables
WHERE table_schema NOT IN ('pg_catalog', 'information_schema')
"""


async def relations(url: str) -> dict[tuple[str, str], set[str]]:
    db = await asyncpg.connect(url)
    found: dict[tuple[str, str], set[str]] = {}
    for row in await db.fetch(SCHEMAS):
        found.setdefault((row["schema"], row["type"]), set()).add(row["name"])
    await db.close()
    return found


async def run(url: str, *statements: str) -> Any:
    db = await asyncpg.connect(url)
    for statement in statements:
        await db.execute(statement)
    await db.close()


async def test_tables_get_a_schema_of_their_own_next_to_those_of_another_program(
    postgres_url: str, tmp_path: Path
) -> None:
    await run(
        postgres_url,
        "CREATE TABLE jobs (id int); CREATE TABLE alembic_version (version_num text)",
        "INSERT INTO alembic_version VALUES ('theirs'); CREATE TABLE products (name text)",
    )
    for _ in range(2):  # the second start finds what the first has made
        async with open_app(new_settings(home=tmp_path, database_url=postgres_url)) as app:
            assert (await app.reports.health()) is not None
    found = await relations(postgres_url)
    assert found["public", "BASE TABLE"] == {"jobs", "alembic_version", "products"}
    assert {"jobs", "tasks", "queue", "changes", "alembic_version"} <= found["forager", "BASE TABLE"]
    assert {"crawl_tasks", "serper_places"} <= found["public", "VIEW"]
    assert "products" in found["forager", "VIEW"], "the name is taken in public"
    assert "tasks_now" not in found["public", "VIEW"], "it is for this program"
    await run(postgres_url, "SELECT count(*) FROM public.crawl_tasks")


async def test_operators_write_their_tables_without_naming_the_schema__LI_1(postgres_url: str) -> None:
    catalog = Catalog([each for each in build_pipelines(new_settings(), all_features()) if each.name == "listings"])
    url = locate(postgres_url, "forager")
    migrate.create_postgres(url, catalog)
    city = "INSERT INTO market_configs (id, display_name, city, state) VALUES ('{0}', '{0}', '{0}', 'MA')"
    await run(postgres_url, city.format("lowell"), "UPDATE data_sources SET max_requests_per_day = 5")
    migrate.upgrade(url, catalog)
    migrate.check(url, catalog)
    await run(postgres_url, city.format("salem"))
    db = await asyncpg.connect(postgres_url)
    rows = await db.fetch("SELECT id, tier, is_enabled, created_at FROM forager.market_configs ORDER BY id")
    await db.close()
    assert [(row["id"], row["tier"], row["is_enabled"]) for row in rows] == [
        ("lowell", "standard", True),
        ("salem", "standard", True),
    ]
    assert all(row["created_at"] > 1_700_000_000_000 for row in rows)
    migrate.downgrade(url, catalog, "base")
    assert {schema for schema, _ in await relations(postgres_url)} == {"forager"}


async def test_a_store_in_public_stays_where_it_is(app_postgres_url: str, tmp_path: Path) -> None:
    async with open_app(new_settings(home=tmp_path, database_url=app_postgres_url)) as app:
        assert (await app.reports.health()) is not None
    assert "forager" not in {schema for schema, _ in await relations(app_postgres_url)}


async def test_it_can_be_upgraded_from_nothing_and_taken_down_again(postgres_url: str) -> None:
    catalog = Catalog(build_pipelines(new_settings(), all_features()))
    url = locate(postgres_url, "ours")
    assert url == in_schema(postgres_url, "ours")
    migrate.upgrade(url, catalog)
    migrate.check(url, catalog)
    assert "jobs" in (await relations(postgres_url))["ours", "BASE TABLE"]
    migrate.downgrade(url, catalog, "base")
    assert {schema for schema, _ in await relations(postgres_url)} == {"ours"}
    assert locate(url, "other") == url, "a URL with a search_path of its own is left alone"


async def test_a_role_that_may_not_create_the_schema_gets_the_remedy(postgres_url: str) -> None:
    name = postgres_url.rpartition("/")[2]
    try:
        await run(
            postgres_url,
            "DO $$ BEGIN CREATE ROLE forager_poor LOGIN; EXCEPTION WHEN duplicate_object THEN NULL; END $$",
            f'GRANT CONNECT ON DATABASE "{name}" TO forager_poor',
        )
    except asyncpg.InsufficientPrivilegeError:
        pytest.skip("the role on this server may not create another")
    at = urlsplit(postgres_url)
    poor = at._replace(netloc=f"forager_poor@{at.netloc.rpartition('@')[2]}").geturl()
    with pytest.raises(StoreError, match="FORAGER_DATABASE_SCHEMA=public"):
        migrate.ensure_postgres(locate(poor, "forager"), Catalog(build_pipelines(new_settings(), all_features())))
