"""Two regions in two network namespaces with one database, and a cut between one of them and the database."""

import asyncio
import contextlib
import sys
import time
from collections.abc import AsyncIterator, Collection
from pathlib import Path
from urllib.parse import urlsplit

import asyncpg
import pytest

from forager.core.ledger import NewJob
from forager.ledger.catalog import Catalog
from forager.ledger.postgres import PostgresLedger
from forager.ledger.schema.migrate import ensure_postgres
from forager.ledger.tables.regions import Regions
from tests.support.namespaces import Namespaces, require_namespaces, started
from tests.support.postgres import PostgresServer
from tests.support.region_process import Visits, pipeline, plan

HOME, STRICT, FREE = "home.example", "strict.example", "free.example"
FAIL_OVER = 4.0
TASKS = 20
LIMIT = 90.0

Done = dict[tuple[str, str], int]
"""Number of visits by site and region."""


class Stage:
    def __init__(self, ledger: PostgresLedger, db: asyncpg.Connection) -> None:
        self._ledger = ledger
        self._db = db
        self._first = 0

    async def submit(self, *sites: str) -> None:
        job = Visits(sites=list(sites), first=self._first, tasks=TASKS)
        self._first += TASKS
        await self._ledger.submit(NewJob("regions", job.model_dump()), plan(job))

    async def done(self) -> Done:
        rows = await self._db.fetch("SELECT site, region, count(*) AS n FROM visited GROUP BY site, region")
        return {(row["site"], row["region"]): row["n"] for row in rows}

    async def until(self, expected: Done, sites: Collection[str] = (HOME, STRICT, FREE)) -> None:
        """Wait until these sites were visited that often; the regions of the site without a pin may be any."""
        deadline = time.monotonic() + LIMIT
        while True:
            found = await self.done()
            if {key: n for key, n in found.items() if key[0] in sites} == expected:
                return
            assert time.monotonic() < deadline, f"{found} instead of {expected}"
            await asyncio.sleep(0.1)


@contextlib.asynccontextmanager
async def stage(url: str) -> AsyncIterator[Stage]:
    catalog = Catalog([pipeline("test")])
    ensure_postgres(url, catalog)
    ledger = await PostgresLedger.open(url, catalog)
    db = await asyncpg.connect(url, server_settings={"search_path": "forager, public"})
    try:
        regions = Regions(ledger.database, ledger.now_ms)
        await regions.pin(HOME, "eu", FAIL_OVER)
        await regions.pin(STRICT, "eu")
        yield Stage(ledger, db)
    finally:
        await db.close()
        await ledger.close()


@pytest.mark.timeout(240)
async def test_a_region_that_is_cut_off_is_replaced_where_the_pin_allows_it_and_gets_its_lanes_back(
    require_postgres: None,
) -> None:
    require_namespaces()
    with PostgresServer(fsync=False) as server, Namespaces(_socket(server), ("eu", "us")) as network:
        url = server.create_database()
        database = urlsplit(url).path[1:]

        def worker(region: str) -> list[str]:
            program = [sys.executable, "-m", "tests.support.region_process", network.url(region, database), region]
            return network.command(region, *program)

        async with stage(url) as on:
            with started(worker("eu"), "started"), started(worker("us"), "started"):
                await on.submit(HOME, STRICT)
                await on.until({(HOME, "eu"): TASKS, (STRICT, "eu"): TASKS})

                network.cut("eu")
                await on.submit(HOME, STRICT, FREE)
                await on.until({(FREE, "us"): TASKS}, [FREE])
                await on.until({(HOME, "eu"): TASKS, (HOME, "us"): TASKS}, [HOME])
                assert (await on.done())[STRICT, "eu"] == TASKS, "its pin allows no fail-over"

                network.mend("eu")
                await on.until({(STRICT, "eu"): 2 * TASKS}, [STRICT])
                await on.submit(HOME)
                await on.until({(HOME, "eu"): 2 * TASKS, (HOME, "us"): TASKS}, [HOME])
            done = await on.done()
        assert sum(done.values()) == 6 * TASKS, "every visit took effect once"


def _socket(server: PostgresServer) -> Path:
    return server.folder / f".s.PGSQL.{server.port}"
