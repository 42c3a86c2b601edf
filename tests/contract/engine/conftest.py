"""The real engine over both stores: `open_rig(pipelines, …)` opens one; the auditor has the last word on each."""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from forager.core.pipeline import Pipeline
from forager.ledger.catalog import Catalog
from tests.support.engine import EngineRig, open_postgres, open_sqlite
from tests.support.postgres import Postgres
from tests.support.schema_templates import RecycledByCatalog

OpenRig = Callable[..., Awaitable[EngineRig]]


@pytest.fixture(scope="session")
def engine_databases(postgres: Postgres) -> Iterator[RecycledByCatalog]:
    """Databases with the schema of the pipelines of a test, for one test after another."""
    databases = RecycledByCatalog(postgres)
    yield databases
    databases.close()


@pytest.fixture(params=["sqlite", "postgres"])
async def open_rig(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[OpenRig]:
    opened: list[EngineRig] = []
    on_sqlite = request.param == "sqlite"
    databases: RecycledByCatalog | None = None if on_sqlite else request.getfixturevalue("engine_databases")
    with ExitStack() as lent:

        async def open_(*pipelines: Pipeline, **more: Any) -> EngineRig:
            if databases is None:
                rig = await open_sqlite(tmp_path, pipelines, **more)
            else:
                url, tables = lent.enter_context(databases.lent(Catalog(pipelines)))
                rig = await open_postgres(url, pipelines, create=False, tables=tables, **more)
            opened.append(rig)
            return rig

        yield open_
        for rig in opened:
            rig.check()
            await rig.close(tables=on_sqlite)
