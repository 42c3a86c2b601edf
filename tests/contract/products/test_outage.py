"""After an outage very many pages are due at once: they become tasks page by page, and no turn of the engine waits."""

import asyncio
import time
from dataclasses import dataclass
from typing import Any

import pytest

from forager.ledger.sqlite.connection import Writer
from tests.support.shop import OpenShop, Shop

DUE = "SELECT count(*) AS due FROM pages WHERE next_crawl_at IS NOT NULL AND domain = 'outage.example'"
LONGEST_TURN = 1.0
AT_ONCE = 50_000
CRAWLED = 60


async def overdue(shop: Shop, pages: int) -> None:
    """Store pages of a paused domain, all of which were due an hour ago."""
    columns = "url_hash, url, domain, crawled_at, next_crawl_at, version, first_seen_at, last_seen_at, times_seen"
    values = (
        "'hash ' || n, 'https://outage.example/p/' || n, 'outage.example', CAST(:at AS BIGINT), :at, 1, :at, :at, 1"
    )
    more = "SELECT n + 1 FROM s WHERE n < CAST(:last AS BIGINT)"
    series = f"WITH RECURSIVE s(n) AS (SELECT CAST(:first AS BIGINT) UNION ALL {more})"
    at = await shop.app.ledger.now_ms() - 3_600_000
    for first in range(0, pages, AT_ONCE):
        await shop.app.database.write(
            f"INSERT INTO pages ({columns}, changed_at) {series} SELECT {values}, :at FROM s",
            {"at": at, "first": first, "last": min(pages, first + AT_ONCE) - 1},
        )
    await shop.app.switch_lane("outage.example", active=False)


@dataclass
class Longest:
    """The longest stretch of work that let nothing else run, in CPU time of its own thread: neither other tests nor
    other work of this process count."""

    loop: float = 0.0
    """One callback of the event loop: API and lanes stand still meanwhile."""
    writer: float = 0.0
    """One command of the embedded store: every other command waits for it."""

    def watch(self, monkeypatch: pytest.MonkeyPatch) -> None:
        call, step = asyncio.Handle._run, Writer._run_step

        def timed_call(handle: asyncio.Handle) -> None:
            began = time.thread_time()
            call(handle)
            self.loop = max(self.loop, time.thread_time() - began)

        def timed_step(writer: Writer, commands: list[Any]) -> Any:
            began = time.thread_time()
            try:
                return step(writer, commands)
            finally:
                self.writer = max(self.writer, time.thread_time() - began)

        monkeypatch.setattr(asyncio.Handle, "_run", timed_call)
        monkeypatch.setattr(Writer, "_run_step", timed_step)


FULL_SIZE = pytest.param(1_000_000, marks=[pytest.mark.chaos, pytest.mark.timeout(3_600)])


@pytest.mark.parametrize("pages", [pytest.param(5_000), FULL_SIZE], ids=["few", "million"])
async def test_very_many_due_pages_stall_no_turn_for_a_second__PR_6(
    shop_of: OpenShop, monkeypatch: pytest.MonkeyPatch, pages: int
) -> None:
    """The full size runs alone, so it also measures whole turns, with what PostgreSQL takes for them."""
    shop = await shop_of(pages=CRAWLED, latency_ms=20)
    await overdue(shop, pages)
    ledger, turns, longest = shop.app.ledger, [], Longest()
    take_turn = ledger.settle_and_lease

    async def timed(*arguments: Any, **options: Any) -> Any:
        began = time.perf_counter()
        try:
            return await take_turn(*arguments, **options)
        finally:
            turns.append(time.perf_counter() - began)

    monkeypatch.setattr(ledger, "settle_and_lease", timed)
    longest.watch(monkeypatch)
    async with shop.app.engine():
        left = pages
        while left:
            job = await shop.submit(urls=[shop.site.product_url(n) for n in range(1, CRAWLED + 1)])
            assert (await shop.ended(job))["completed"] == CRAWLED
            left = (await shop.app.database.fetch(DUE))[0]["due"]
    (queued,) = await shop.app.database.fetch(
        "SELECT count(*) AS tasks FROM tasks_now t JOIN lanes l ON l.id = t.lane_id WHERE l.name = 'outage.example'"
    )
    assert queued["tasks"] == pages
    assert len(turns) > 5
    assert 0 < longest.loop < LONGEST_TURN
    assert longest.writer < LONGEST_TURN
    if pages > AT_ONCE:
        assert max(turns) < LONGEST_TURN
