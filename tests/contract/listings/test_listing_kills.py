"""kill -9 during a dispatch, a scrape and a verification: nothing is started, counted or stored twice."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from forager.app.application import App
from forager.app.compose import open_app
from forager.app.config import new_settings
from forager.pipelines.listings.reports.markets import one_market, scrape_now
from forager.sandbox.apify import ApifyConfig, ApifySandbox
from tests.support.auditor import PostgresTables, SqliteTables, Tables
from tests.support.listings import settings_for
from tests.support.listings_process import start

pytestmark = pytest.mark.timeout(300)

MARKETS = ("nyc", "boston")
PATIENCE = 90.0
CONFIG = ApifyConfig(
    homes=8, moving_share=0.0, twin_share=0.3, queue_seconds=0.0, run_seconds=0.3, settle_seconds=0.0,
    rate_per_second=None, latency_ms=15,
)  # fmt: skip


class Doomed:
    """A store whose workers are killed. It is read from outside, while a worker has it open."""

    def __init__(self, home: Path, url: str | None, apify: ApifySandbox) -> None:
        self.settings = {**settings_for(home, url, apify, None), "lease_seconds": 1.0}
        self.apify = apify
        self._home, self._url = home, url
        self._tables: Tables | None = None

    async def prepare(self, act: Callable[[App], Awaitable[object]]) -> None:
        async with open_app(new_settings(**self.settings)) as app:
            await app.database.write("DELETE FROM schedules")
            await act(app)
        self._tables = PostgresTables(self._url) if self._url else SqliteTables(self._home / "ledger.db")

    def close(self) -> None:
        if self._tables is not None:
            self._tables.close()

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        assert self._tables is not None, "prepare it first"
        return [tuple(row.values()) for row in self._tables.read(sql)]

    def count(self, sql: str) -> int:
        return int(self.rows(sql)[0][0])

    async def work_until(self, reached: Callable[[], bool]) -> None:
        """Let a worker work until this is so, and kill it there."""
        process = start(self.settings)
        try:
            async with asyncio.timeout(PATIENCE):
                while not reached():
                    await asyncio.sleep(0.005)
        finally:
            process.kill()
            await asyncio.to_thread(process.join)

    def calls(self, operation: str) -> int:
        return sum(call.operation == operation for call in self.apify.log.since(0))


NewStore = Callable[[ApifySandbox], Doomed]


@pytest.fixture
def new_store(tmp_path: Path, database_url: str | None) -> Iterator[NewStore]:
    """`new_store(apify)`: a store of its own, on SQLite and on PostgreSQL."""
    made: list[Doomed] = []

    def new(apify: ApifySandbox) -> Doomed:
        made.append(Doomed(tmp_path, database_url, apify))
        return made[-1]

    yield new
    for each in made:
        each.close()


async def test_scrapes_survive_kills_and_no_run_is_started_twice__LI_7__LI_10(new_store: NewStore) -> None:
    async with ApifySandbox(CONFIG) as apify:
        doomed = new_store(apify)

        async def begin(app: App) -> None:
            for market in MARKETS:
                await scrape_now(app, await one_market(app.database, market), await app.ledger.now())

        await doomed.prepare(begin)
        await doomed.work_until(lambda: doomed.calls("runs.start") == 1)
        await doomed.work_until(lambda: doomed.calls("dataset.items") == 1)
        ended = "SELECT count(*) FROM jobs WHERE finished_at IS NOT NULL"
        await doomed.work_until(lambda: doomed.count(ended) == len(MARKETS))

        assert sorted(run.search for run in apify.runs) == ["Boston, MA", "New York, NY"]
        scrapes = doomed.rows('SELECT market_id, status, found, "new", merged FROM market_scrapes ORDER BY market_id')
        assert [each[:2] for each in scrapes] == [("boston", "completed"), ("nyc", "completed")]
        assert all(new + merged == found for _, _, found, new, merged in scrapes)
        assert doomed.rows("SELECT DISTINCT times_seen FROM listings") == [(1,)]
        assert doomed.count("SELECT count(*) FROM listings") == sum(each[3] for each in scrapes)
        assert doomed.count("SELECT sum(cost_usd) FROM source_runs") == round(apify.spent() * 10_000)
        assert doomed.rows("SELECT DISTINCT consecutive_failures FROM market_configs") == [(0,)]


async def test_a_killed_dispatch_creates_each_scrape_once__LI_5(new_store: NewStore) -> None:
    async with ApifySandbox(CONFIG) as apify:
        doomed = new_store(apify)

        async def begin(app: App) -> None:
            for _ in range(2):
                await app.submit("listings", {"action": "dispatch_scrapes"})

        await doomed.prepare(begin)
        jobs = "SELECT count(*) FROM jobs WHERE pipeline = 'listings'"
        await doomed.work_until(lambda: doomed.count(jobs) >= 2 + 7)
        dispatched = (
            "SELECT count(*) FROM jobs WHERE CAST(params AS text) LIKE '%dispatch%' AND finished_at IS NOT NULL"
        )
        await doomed.work_until(lambda: doomed.count(dispatched) == 2)
        assert doomed.count(jobs) == 2 + 19


async def test_a_killed_verification_is_done_once_more_and_counts_once__LI_12(new_store: NewStore) -> None:
    async with ApifySandbox(CONFIG) as apify:
        doomed = new_store(apify)

        async def begin(app: App) -> None:
            await scrape_now(app, await one_market(app.database, "nyc"), await app.ledger.now())
            async with app.engine(schedules=False), asyncio.timeout(PATIENCE):
                while not (await app.database.fetch("SELECT 1 AS one FROM market_scrapes WHERE status = 'completed'")):
                    await asyncio.sleep(0.02)
            await app.database.write("UPDATE listings SET verify_at = 1")

        await doomed.prepare(begin)
        await doomed.work_until(lambda: doomed.calls("page.get") >= 2)
        verified = "SELECT count(*) FROM listings WHERE verification_status = 'verified'"
        stored = doomed.count("SELECT count(*) FROM listings")
        await doomed.work_until(lambda: doomed.count(verified) == stored)
        assert doomed.rows("SELECT DISTINCT times_seen, gone_at FROM listings") == [(1, None)]
        assert doomed.count("SELECT count(*) FROM changes WHERE kind = 'listing' AND op <> 'new'") == 0
