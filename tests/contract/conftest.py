"""One ledger contract, two stores: every test with the fixture `rig` runs over SQLite and over PostgreSQL."""

import contextlib
import os
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from forager.core.ledger import Ledger
from tests.support.pgbouncer import EVERYWHERE, PgBouncer, every_ledger_behind, require_pgbouncer
from tests.support.postgres import Postgres
from tests.support.recycled import Recycled
from tests.support.rig import Rig, Worker, embedded_rig, postgres_rig, recycled_databases
from tests.support.rig_pipelines import catalog


@pytest.fixture(scope="session")
def pgbouncer(postgres: Postgres) -> Iterator[PgBouncer]:
    """A PgBouncer in transaction mode before the PostgreSQL of this test process."""
    require_pgbouncer()
    with PgBouncer(postgres.url("postgres")) as bouncer:
        yield bouncer


@pytest.fixture(scope="session", autouse=True)
def _behind_pgbouncer_if_asked(request: pytest.FixtureRequest) -> Iterator[None]:
    with contextlib.ExitStack() as stack:
        if os.environ.get(EVERYWHERE):
            stack.enter_context(every_ledger_behind(request.getfixturevalue("pgbouncer")))
        yield


@pytest.fixture(params=["sqlite", "postgres"])
async def rig(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Rig]:
    """A fresh ledger with the rig's pipeline; the auditor has the last word on it."""
    if request.param == "sqlite":
        async with embedded_rig(tmp_path) as made:
            yield made
        return
    databases: Recycled = request.getfixturevalue("rig_databases")
    with databases.lent() as (url, tables):
        made = await postgres_rig(url, create=False, tables=tables)
        yield made
        made.check()
        await made.ledger.close()


@pytest.fixture(scope="session")
def rig_databases(postgres: Postgres, postgres_template: str) -> Iterator[Recycled]:
    """Databases with the rig's schema, for one test after another."""
    databases = recycled_databases(postgres, postgres_template)
    yield databases
    databases.close()


@pytest.fixture(scope="session")
def postgres_template(postgres: Postgres) -> Iterator[str]:
    """The name of a database with the rig's schema: a copy takes a moment, making it anew takes many."""
    from forager.ledger.schema.migrate import create_postgres

    url = postgres.create_database()
    create_postgres(url, catalog())
    yield urlsplit(url).path[1:]
    postgres.drop_database(url)


@pytest.fixture
def ledger(rig: Rig) -> Ledger:
    return rig.ledger


@pytest.fixture
async def worker(rig: Rig) -> Worker:
    return await rig.worker()
