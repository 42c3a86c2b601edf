"""The weekly audit reports what is wrong with the catalogue, once a week."""

from forager.pipelines.products.reports.health import audit_if_due
from tests.support.shop import OpenShop


async def test_the_audit_counts_what_is_wrong_and_stores_its_report__PR_15(shop_of: OpenShop) -> None:
    shop = await shop_of(pages=8)
    await shop.crawl(urls=[shop.site.product_url(n) for n in range(1, 9)])
    clean = (await shop.client.post("/api/v1/admin/audits")).json()["data"]["findings"]
    assert (clean["products"], set(clean["checks"].values())) == (8, {0})
    assert clean["fill"]["product_name"] == 1.0
    write = shop.app.database.write
    await write("UPDATE items SET page_hash = 'nowhere' WHERE url = :url", {"url": shop.site.product_url(1)})
    await write("UPDATE items SET product_name = '' WHERE url = :url", {"url": shop.site.product_url(2)})
    await write("UPDATE items SET currency = NULL, brand = NULL WHERE url = :url", {"url": shop.site.product_url(3)})
    await write("UPDATE pages SET next_crawl_at = 1 WHERE url = :url", {"url": shop.site.product_url(4)})
    found = (await shop.client.post("/api/v1/admin/audits")).json()["data"]["findings"]
    wrong = {name: number for name, number in found["checks"].items() if number}
    assert wrong == {
        "products_without_page": 1,
        "products_without_name": 1,
        "prices_without_currency": 1,
        "stale_pages": 1,
    }
    assert found["fill"]["brand"] == 0.875
    (stored,) = await shop.get("/admin/audits")
    assert stored["findings"] == found


async def test_the_running_engine_audits_once_a_week__PR_15(shop_of: OpenShop) -> None:
    shop = await shop_of(pages=2)
    await shop.crawl(urls=[shop.site.product_url(1)])
    async with shop.app.engine():
        (first,) = await shop.reached(
            lambda: shop.get("/admin/audits"), lambda rows: bool(rows and rows[0]["finished_at"])
        )
    assert await audit_if_due(shop.app) is None
    assert await shop.get("/admin/audits") == [first]
