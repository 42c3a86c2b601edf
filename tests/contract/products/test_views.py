"""The views `crawl_tasks` and `error_logs`: one row per URL, whatever its task has come to."""

from datetime import UTC, datetime, timedelta
from typing import Any

from forager.core.upkeep import Keep, Pruned
from tests.support.shop import JOBS, OpenShop, Shop

ONCE: dict[str, Any] = {"recrawl": False}


async def rows(shop: Shop, view: str = "crawl_tasks") -> list[dict[str, Any]]:
    return [dict(row) for row in await shop.app.database.fetch(f"SELECT * FROM {view} ORDER BY id")]


async def test_a_url_that_waits_for_its_first_crawl_has_its_domain_its_frequency_and_its_times__PR_4(
    shop_of: OpenShop,
) -> None:
    shop = await shop_of(pages=3)
    later = "2099-01-01T00:00:00Z"
    asked = {"scheduled_at": later, "frequency": "6h", "max_retries": 7, "priority": 1}
    await shop.submit(urls=[shop.site.product_url(1)], **asked)
    (row,) = await rows(shop)
    assert (row["status"], row["priority"], row["max_retries"], row["retry_count"]) == ("pending", 1, 7, 0)
    assert row["crawl_frequency"] in ("21600 seconds", timedelta(hours=6))
    assert row["scheduled_at"] in (later.replace("00Z", "00.000Z"), datetime(2099, 1, 1, tzinfo=UTC))
    assert row["domain_id"] == (await shop.get("/admin/domains"))[0]["id"]
    assert None not in (row["created_at"], row["updated_at"])


async def test_a_page_that_is_due_and_not_sent_is_pending_and_scheduled_for_now__PR_4(shop_of: OpenShop) -> None:
    shop = await shop_of(pages=3)
    await shop.submit(urls=[shop.site.product_url(1)])
    (row,) = await rows(shop)
    assert (row["status"], row["started_at"], row["completed_at"]) == ("pending", None, None)
    assert row["scheduled_at"] == row["created_at"] is not None
    assert row["crawl_frequency"] in ("86400 seconds", timedelta(days=1))


async def test_a_crawled_page_is_completed_until_it_is_due_again__PR_4(shop_of: OpenShop) -> None:
    shop = await shop_of(pages=3)
    urls = [shop.site.product_url(n) for n in (1, 2, 3)]
    await shop.crawl(urls=urls)
    crawled = await rows(shop)
    assert [row["status"] for row in crawled] == ["completed"] * 3
    assert all(row["next_crawl_at"] is not None for row in crawled)
    await shop.app.database.write("UPDATE pages SET next_crawl_at = 1 WHERE url = :url", {"url": urls[1]})
    assert {row["url"]: row["status"] for row in await rows(shop)} == dict(
        zip(urls, ("completed", "pending", "completed"), strict=True)
    )
    await shop.submit(urls=urls[:1])
    assert [row["status"] for row in await rows(shop) if row["url"] == urls[0]] == ["pending"]


async def test_a_failed_page_is_failed_until_its_next_crawl_is_due__PR_4(shop_of: OpenShop) -> None:
    shop = await shop_of(pages=3)
    url = shop.site.product_url(1)
    await shop.crawl(urls=[url])
    shop.site.adopt(shop.site.config.changed({"faults": {"http403": 1.0}}))
    await shop.crawl(urls=[url])
    (row,) = await rows(shop)
    assert (row["status"], row["next_crawl_at"] is not None) == ("failed", True)
    await shop.app.database.write("UPDATE pages SET next_crawl_at = 1")
    assert [row["status"] for row in await rows(shop)] == ["pending"]


async def test_a_page_whose_job_was_pruned_keeps_its_row__PR_4(shop_of: OpenShop) -> None:
    shop = await shop_of(pages=3)
    await shop.crawl(urls=[shop.site.product_url(1)], **ONCE)
    await shop.crawl(urls=[shop.site.product_url(2)])
    before = [(row["id"], row["url"], row["status"]) for row in await rows(shop)]
    assert [status for _, _, status in before] == ["completed", "completed"]
    pruned = Pruned(more=True)
    while pruned.more or pruned.jobs < 2:  # times are whole milliseconds: a job may not be old enough yet
        pruned += await shop.app.ledger.prune(Keep(jobs=1e-9), [])
    assert await shop.app.database.fetch("SELECT 1 FROM tasks WHERE kind = 'products.crawl'") == []
    after = await rows(shop)
    assert [(row["id"], row["url"], row["status"]) for row in after] == before
    assert {product["crawl_task_id"] for product in await rows(shop, "products")} <= {row["id"] for row in after}


async def test_a_page_that_the_budget_left_out_is_not_completed__PR_4(shop_of: OpenShop) -> None:
    shop = await shop_of(pages=3)
    await shop.crawl(urls=[shop.site.product_url(n) for n in (1, 2)], max_pages=1, **ONCE)
    ended = sorted((row["status"], row["error_message"]) for row in await rows(shop))
    assert [status for status, _ in ended] == ["completed", "failed"]
    assert "budget" in ended[1][1]


async def test_an_error_names_the_row_of_a_url_that_was_never_crawled__PR_17(shop_of: OpenShop) -> None:
    shop = await shop_of(pages=3, faults={"http403": 1.0})
    await shop.crawl(urls=[shop.site.product_url(1)])
    (row,) = await rows(shop)
    assert (row["status"], row["html_path"], row["domain_id"] is not None) == ("failed", None, True)
    errors = await rows(shop, "error_logs")
    assert errors
    assert {each["crawl_task_id"] for each in errors} == {row["id"]}


async def test_pages_of_one_job_have_their_own_priority_time_frequency_and_retries__PR_1(shop_of: OpenShop) -> None:
    shop = await shop_of(pages=4)
    first, second, third = (shop.site.product_url(n) for n in (1, 2, 3))
    own = {"url": first, "priority": 1, "scheduled_at": "2099-01-01T00:00:00Z", "frequency": "6h", "max_retries": 0}
    made = {"urls": [first, third], "pages": [own, {"url": second, "priority": 10}], "priority": 4, "max_retries": 5}
    job = await shop.submit(**made)
    asked = {row["url"]: (row["priority"], row["max_retries"]) for row in await rows(shop)}
    assert asked == {first: (1, 0), second: (10, 5), third: (4, 5)}
    async with shop.app.engine():
        counted = await shop.reached(lambda: shop.get(f"/jobs/{job}"), lambda seen: seen["completed"] == 2)
    assert (counted["queued"], sorted(shop.asked())) == (1, ["2", "3"])  # the first one waits for its time
    (waiting,) = [row for row in await rows(shop) if row["url"] == first]
    assert waiting["crawl_frequency"] in ("21600 seconds", timedelta(hours=6))
    for wrong in ({"url": first, "priority": 11}, {"url": "ftp://x"}, {"priority": 1}):
        refused = await shop.client.post(JOBS, json={"pages": [wrong]})
        (field,) = refused.json()["meta"]["fields"]
        assert (refused.status_code, field["field"].startswith("pages.0.")) == (422, True), refused.text
