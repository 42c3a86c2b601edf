"""After an outage very many pages are due at once: they become tasks page by page, and no turn of the engine waits."""

import time
from collections.abc import Callable
from typing import Any

import pytest

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


FULL_SIZE = pytest.param(1_000_000, time.perf_counter, marks=[pytest.mark.chaos, pytest.mark.timeout(3_600)])


@pytest.mark.parametrize(
    ("pages", "clock"), [pytest.param(5_000, time.process_time), FULL_SIZE], ids=["few", "million"]
)
async def test_very_many_due_pages_stall_no_turn_for_a_second__PR_6(
    shop_of: OpenShop, monkeypatch: pytest.MonkeyPatch, pages: int, clock: Callable[[], float]
) -> None:
    """The small run counts the CPU time of this process, because other tests may keep the machine busy."""
    shop = await shop_of(pages=CRAWLED, latency_ms=20)
    await overdue(shop, pages)
    ledger, turns = shop.app.ledger, []
    take_turn = ledger.settle_and_lease

    async def timed(*arguments: Any, **options: Any) -> Any:
        began = clock()
        try:
            return await take_turn(*arguments, **options)
        finally:
            turns.append(clock() - began)

    monkeypatch.setattr(ledger, "settle_and_lease", timed)
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
    assert max(turns) < LONGEST_TURN
