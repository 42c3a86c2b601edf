"""A shop is crawled: every page once, every product stored with where its values came from, changes kept as history."""

from decimal import Decimal
from typing import Any

import pytest

from forager.extract.products.findings import MARKED_STOCK, UNSEEN
from forager.sandbox.faults import When
from tests.support.shop import OpenShop

READ = {"name": "product_name"}


def same(shown: Any, stored: Any) -> bool:
    if isinstance(stored, str) and isinstance(shown, float):
        return Decimal(stored) == Decimal(str(shown))
    return bool(shown == stored)


LAYOUTS = {"jsonld": 0.9, "microdata": 0.9, "opengraph": 0.8, "amazon": 0.7, "atelier": 0.7, "depot": 0.7, "plain": 0.4}
"""Minimum confidence of values, by layout."""
IN_MARKUP_ALONE = {"sku", "brand", "price"}
"""A number, brand or price that the visible page does not show is a tenth less sure (decision 0111)."""
NOT_READ = {"plain": {"category", "description"}}


@pytest.mark.parametrize(
    "layout", [pytest.param(layout, marks=[pytest.mark.one_store(layout != "jsonld")]) for layout in LAYOUTS]
)
async def test_every_field_that_a_page_shows_is_stored_with_its_source__PR_10(shop_of: OpenShop, layout: str) -> None:
    chosen = {"product_parsers": (f"127.0.0.1={layout}",)} if layout in ("amazon", "atelier", "depot") else {}
    shop = await shop_of(pages=12, layout=layout, categories=3, currency="EUR", settings=chosen)
    job = await shop.crawl(urls=[shop.site.product_url(n) for n in range(1, 13)])
    assert (job["state"], job["completed"]) == ("completed", 12)
    for number in range(1, 13):
        product = await shop.product(number)
        for name, value in shop.site.shown(number).items():
            if name in NOT_READ.get(layout, ()):
                continue
            field = READ.get(name, name)
            assert same(value, product[field]), (number, name)
            alone = min(LAYOUTS[layout], MARKED_STOCK if field == "availability" else 1.0)
            least = alone * (UNSEEN if field in IN_MARKUP_ALONE else 1)
            assert product["evidence"][field]["confidence"] >= round(least, 2), (number, name)
        assert [image["image_type"] for image in product["images"]] == ["primary", "gallery", "gallery"]


async def test_a_sitemap_index_of_gzip_files_is_found_in_robots_txt__PR_1(shop_of: OpenShop) -> None:
    shop = await shop_of(pages=25, sitemap_urls=10, categories=2)
    job = await shop.crawl(sitemap=shop.site.url("/"))
    assert job["state"] == "completed"
    products = await shop.get("/products", limit=100)
    assert len(products) == 25
    assert sorted(map(int, shop.asked())) == list(range(1, 26))  # each page was requested once


async def test_sitemaps_are_read_only_while_the_job_may_fetch_pages__PR_1(shop_of: OpenShop) -> None:
    shop = await shop_of(pages=300, sitemap_urls=1, categories=2)
    job = await shop.crawl(sitemap=shop.site.url("/"), max_pages=10)
    assert (job["state"], job["spent"], len(shop.asked())) == ("completed", 10, 10)
    assert shop.site.log.total <= 40  # of 300 sitemaps about one for each page, the index and robots.txt


async def test_one_long_sitemap_gives_as_many_pages_as_the_job_may_fetch__PR_1(shop_of: OpenShop) -> None:
    shop = await shop_of(pages=60, sitemap_urls=1_000, categories=2)
    job = await shop.crawl(sitemap=shop.site.url("/sitemap.xml"), max_pages=25)
    assert (job["state"], job["spent"], len(shop.asked())) == ("completed", 25, 25)
    assert job["total"] <= 35  # the sitemap, its pages, and what is left of it


async def test_a_category_is_followed_through_its_pages_within_the_budget__PR_1(shop_of: OpenShop) -> None:
    shop = await shop_of(pages=30, categories=3, per_page=4, tracking_share=1.0)
    job = await shop.crawl(urls=[shop.site.url("/")], follow=True, depth=5)
    assert job["state"] == "completed"
    assert len(await shop.get("/products", limit=100)) == 30
    assert sorted(map(int, shop.asked())) == list(range(1, 31))  # tracking duplicates are one page
    before = shop.site.log.total
    small = await shop.crawl(urls=[shop.site.url("/")], follow=True, max_pages=7)
    assert (small["spent"], small["completed"]) == (7, 7)
    assert shop.site.log.total - before <= 8  # and robots.txt


async def test_the_second_crawl_shows_what_changed_and_touches_nothing_else__PR_12__PR_18(shop_of: OpenShop) -> None:
    shop = await shop_of(pages=20, categories=2, change_days=(1.0, 1.0), price_share=0.5)
    await shop.crawl(sitemap=shop.site.url("/sitemap.xml"))
    before = {product["id"]: product for product in await shop.get("/products", limit=100)}
    shop.site.time.advance(2 * 86_400)
    await shop.crawl(sitemap=shop.site.url("/sitemap.xml"))
    after = {product["id"]: product for product in await shop.get("/products", limit=100)}
    assert before.keys() == after.keys()
    changed = {number for number in after if after[number]["content_hash"] != before[number]["content_hash"]}
    assert 3 < len(changed) < 20
    for number, product in after.items():
        points = await shop.get(f"/products/{number}/history")
        moved = any(product[name] != before[number][name] for name in ("price", "currency", "availability"))
        assert len(points) == 1 + moved
        assert points[0]["price"] == product["price"]
        assert (await shop.get(f"/products/{number}"))["price_history"] == points  # PR-18
        assert (product["updated_at"] > before[number]["updated_at"]) == (number in changed)  # PR-11


async def test_one_page_under_several_addresses_is_one_product__PR_5(shop_of: OpenShop) -> None:
    shop = await shop_of(pages=3)
    url = shop.site.product_url(2)
    tracked = [f"{url}?utm_source=mail", f"{url}#reviews", url.replace("http://", "HTTP://")]
    job = await shop.crawl(urls=[url, *tracked, shop.site.url("/old/2")])
    assert job["total"] == 2  # the page, and the old address that redirects to it
    (product,) = await shop.get("/products")
    assert product["url"] == url
    (same_one,) = await shop.get("/products", url=shop.site.url("/old/2"))
    assert same_one["id"] == product["id"]


async def test_products_are_filtered_and_paged_newest_first__PR_18(shop_of: OpenShop) -> None:
    shop = await shop_of(pages=30, categories=3)
    await shop.crawl(sitemap=shop.site.url("/sitemap.xml"))
    everything = await shop.get("/products", limit=100)
    assert [each["id"] for each in everything] == sorted((each["id"] for each in everything), reverse=True)
    brand, category = everything[0]["brand"], everything[5]["category"]
    for query, fits in (
        ({"brand": brand}, lambda each: each["brand"] == brand),
        ({"category": category}, lambda each: each["category"] == category),
        ({"availability": "in_stock"}, lambda each: each["availability"] == "in_stock"),
        ({"min_price": 500, "max_price": 1200}, lambda each: 500 <= Decimal(each["price"]) <= 1200),
        ({"min_rating": 4, "brand": brand}, lambda each: Decimal(each["rating"]) >= 4 and each["brand"] == brand),
    ):
        found = await shop.get("/products", limit=100, **query)
        assert [each["id"] for each in found] == [each["id"] for each in everything if fits(each)]
    unknown = await shop.client.get("/api/v1/products", params={"domain": "elsewhere.example"})
    assert (unknown.status_code, unknown.json()["meta"]["fields"][0]["field"]) == (422, "domain")
    answered = (await shop.client.get("/api/v1/products")).json()
    assert len(answered["data"]) == 20
    rest = await shop.get("/products", cursor=answered["meta"]["next_cursor"])
    assert [each["id"] for each in answered["data"] + rest] == [each["id"] for each in everything]


async def test_a_page_that_fails_is_retried_and_then_kept_as_a_dead_letter__PR_17(shop_of: OpenShop) -> None:
    shop = await shop_of(pages=3)
    shop.site.faults.script.add([When("http500", operation="product", times=None)])
    job = await shop.crawl(urls=[shop.site.product_url(1)], max_retries=2)
    assert (job["state"], job["failed"], job["retries"]) == ("failed", 1, 2)
    assert shop.asked() == ["1", "1", "1"]
    (dead,) = await shop.get("/dead", job=job["id"])
    assert (dead["error_type"], dead["attempts"]) == ("http", 3)


async def test_a_page_that_waits_for_its_due_time_is_crawled_at_once_on_request__PR_5__PR_6(
    shop_of: OpenShop,
) -> None:
    shop = await shop_of(pages=3)
    url = shop.site.product_url(1)
    job = await shop.submit(urls=[url], scheduled_at="2099-01-01T00:00:00Z", frequency="6h")
    async with shop.app.engine():
        asked = await shop.client.post("/api/v1/admin/urls/recrawl", json={"urls": [url]})
        assert asked.status_code == 202
        assert (await shop.ended(job))["completed"] == 1
    assert shop.asked() == ["1"]


async def test_a_url_that_waits_is_joined_by_a_second_submission__PR_5(shop_of: OpenShop) -> None:
    shop = await shop_of(pages=3)
    first = await shop.submit(urls=[shop.site.product_url(1)])
    second = await shop.crawl(urls=[shop.site.product_url(1), shop.site.product_url(2)])
    assert (await shop.get(f"/jobs/{first}"))["completed"] == 1
    assert (second["completed"], second["skipped"]) == (1, 1)
    (joined,) = [task for task in await shop.get(f"/jobs/{second['id']}/tasks") if task["state"] == "skipped"]
    assert joined["reason"] == "joined"
    assert sorted(shop.asked()) == ["1", "2"]


async def test_a_page_that_is_scheduled_for_later_waits_until_then__PR_1(shop_of: OpenShop) -> None:
    shop = await shop_of(pages=3)
    job = await shop.submit(urls=[shop.site.product_url(1)], scheduled_at="2099-01-01T00:00:00Z", priority=1)
    other = await shop.submit(urls=[shop.site.product_url(2)])
    async with shop.app.engine():
        await shop.ended(other)
    assert (await shop.get(f"/jobs/{job}"))["queued"] == 1
    assert shop.asked() == ["2"]


@pytest.mark.one_store(False)
async def test_every_crawl_is_kept_in_the_log_of_attempts_and_pruned_with_it__PR_5(shop_of: OpenShop) -> None:
    shop = await shop_of(pages=3, settings={"keep_attempts_days": 1.0})
    urls = [shop.site.product_url(1), shop.site.product_url(2), shop.site.product_url(1) + "0"]
    await shop.crawl(urls=urls)
    job = await shop.crawl(urls=urls[:1])
    (task,) = await shop.get(f"/jobs/{job['id']}/tasks")
    (attempt,) = await shop.get(f"/tasks/{task['id']}/attempts")
    assert (attempt["status"], attempt["attempt"], attempt["message"]) == ("completed", 1, None)
    assert attempt["duration_ms"] >= 0
    rows = await shop.app.database.fetch("SELECT status FROM attempts")
    assert [row["status"] for row in rows] == ["completed"] * 4, "the page that is gone was crawled, too"
    assert await shop.app.database.fetch("SELECT * FROM error_logs") == [], "a success is no error"
    await shop.app.database.write("UPDATE attempts SET started_at = started_at - :two_days", {"two_days": 172_800_000})
    assert (await shop.app.prune()).attempts == 4
    assert await shop.app.database.fetch("SELECT status FROM attempts") == []
