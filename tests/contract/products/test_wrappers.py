"""A shop's marked-up pages teach where its template shows each field; after a change of layout, known values do."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from forager.pipelines.products.health import LEAST_PAGES
from forager.pipelines.products.records import CrawledPage, Product
from forager.pipelines.products.reports.health import check_health
from forager.pipelines.products.wiring import learn
from tests.support.auditor import PostgresTables, SqliteTables, audit
from tests.support.chaos import gone
from tests.support.shop import OpenShop, Shop, open_shop
from tests.support.wrapper_process import Options, start

PAGES = LEAST_PAGES + 10
FIELDS = ("product_name", "price", "currency", "availability", "brand", "category", "sku", "gtin", "rating")
WRAPPERS = "/api/v1/admin/wrappers"


async def crawl_all(shop: Shop) -> None:
    await shop.crawl(urls=[shop.site.product_url(n) for n in range(1, PAGES + 1)])


async def right(shop: Shop, names: tuple[str, ...] = FIELDS) -> dict[str, float]:
    """Share of the products whose stored value is the true one, by field."""
    stored = {each["url"]: each for each in await shop.get("/products", limit=200)}
    hits = dict.fromkeys(names, 0)
    for number in range(1, PAGES + 1):
        product = shop.site.product(number)
        row = stored.get(shop.site.product_url(number))
        truth: dict[str, Any] = {
            "product_name": product.name,
            "price": product.price,
            "currency": product.currency,
            "availability": product.availability,
            "brand": product.brand,
            "sku": product.sku,
            "gtin": product.gtin,
            "rating": f"{product.rating / 10:.2f}",
        }
        truth["category"] = (row or {}).get("category")
        if row is not None:
            for name in names:
                hits[name] += str(row[name]) == str(truth[name])
    return {name: count / PAGES for name, count in hits.items()}


async def learn_all(shop: Shop) -> list[str]:
    shops = []
    while (domain := await learn(shop.app)) is not None:
        shops.append(domain)
    return shops


async def yesterday(shop: Shop) -> None:
    day = (await shop.app.ledger.now()).date() - timedelta(days=1)
    await shop.app.database.write("UPDATE parser_health SET day = :day", {"day": day.isoformat()})


async def test_marked_pages_teach_the_others_and_a_change_of_layout_is_healed__PR_24(shop_of: OpenShop) -> None:
    shop = await shop_of(pages=PAGES, layout="partly", change_days=(0, 0), validators="none")
    await crawl_all(shop)
    before = await right(shop)
    assert before["price"] < 0.5, "the generic rules take another amount for the price"

    assert await learn_all(shop) == [f"127.0.0.1:{shop.site.port}"]
    (learnt,) = await shop.get("/admin/wrappers")
    assert (learnt["state"], learnt["mode"], learnt["version"]) == ("adopted", "teach", 1)
    price = next(each for each in learnt["fields"] if each["field"] == "price")
    assert price["score"] == 1.0
    assert price["changed"] > PAGES / 2, "the field diff over stored pages"
    await shop.work()  # stored pages are read again
    assert set((await right(shop)).values()) == {1.0}
    product = await shop.product(1)
    assert product["evidence"]["price"]["source"] == "learnt"
    assert 0.7 < product["evidence"]["price"]["confidence"] < 0.9
    marked = await shop.product(3)
    assert marked["evidence"]["price"]["source"] == "json-ld", "markup stays above"

    await crawl_all(shop)  # new visits read by it as well
    assert set((await right(shop)).values()) == {1.0}
    assert await check_health(shop.app) == []
    good = {each["url"]: each["price"] for each in await shop.get("/products", limit=200)}
    await yesterday(shop)

    shop.site.adopt(shop.site.config.changed({"layout": "moved"}))
    await crawl_all(shop)
    (fallen,) = await check_health(shop.app)
    assert (fallen.parser, fallen.field) == ("base+learnt", "*")
    assert {each["url"]: each["price"] for each in await shop.get("/products", limit=200)} == good

    assert await learn_all(shop)
    healed = (await shop.get("/admin/wrappers"))[0]
    assert (healed["state"], healed["mode"]) == ("adopted", "heal")
    assert {"product_name", "price", "sku", "gtin", "brand"} <= {each["field"] for each in healed["fields"]}
    assert [each["state"] for each in await shop.get("/admin/quarantines")] == ["accepted"]
    await shop.app.database.write("UPDATE items SET price = 5, sku = NULL")  # so that what is read now is seen
    await crawl_all(shop)
    after = await right(shop, ("product_name", "price", "currency", "availability", "brand", "sku", "gtin"))
    assert set(after.values()) == {1.0}
    assert (await shop.product(1))["evidence"]["sku"]["source"] == "learnt"


@pytest.mark.one_store
async def test_a_one_shot_crawl_reads_its_unmarked_pages_again_before_it_ends__PR_24(shop_of: OpenShop) -> None:
    shop = await shop_of(pages=30, layout="partly", change_days=(0, 0))
    urls = [shop.site.product_url(n) for n in range(1, 31)]
    async with shop.app.engine(schedules=False, service=False):
        made = await shop.app.submit("products", {"urls": urls})
        await shop.reached(lambda: shop.app.reports.job(made.job), lambda job: job.state == "completed")
        await shop.reached(shop.app.has_delivered, bool)
        assert (await shop.product(1))["price"] == shop.site.product(1).price
    assert len(shop.asked()) == 30, "nothing was fetched twice"


async def test_a_person_decides_what_was_only_proposed__PR_24(shop_of: OpenShop) -> None:
    shop = await shop_of(
        pages=30, layout="partly", change_days=(0, 0), validators="none", settings={"product_wrappers": "propose"}
    )
    domain = f"127.0.0.1:{shop.site.port}"
    assert (await shop.client.post(f"{WRAPPERS}/propose", json={"domain": "none.example"})).status_code == 404
    await shop.crawl(urls=[shop.site.product_url(n) for n in range(1, 31)])
    wrong = (await shop.product(1))["price"]
    assert await learn_all(shop) == [domain]
    (proposed,) = await shop.get("/admin/wrappers", domain=domain, state="proposed")
    assert {each["state"] for each in proposed["fields"]} == {"proposed"}
    again = await shop.client.post(f"{WRAPPERS}/propose", json={"domain": domain})
    assert again.json()["data"] == [], "nothing new"
    await shop.work()
    assert (await shop.product(1))["price"] == wrong, "a proposal is not used"

    adopted = await shop.client.post(f"{WRAPPERS}/adopt", params={"name": proposed["name"]})
    assert adopted.json()["data"]["state"] == "adopted", adopted.text
    assert (await shop.client.post(f"{WRAPPERS}/adopt", params={"name": proposed["name"]})).status_code == 409
    await shop.work()
    assert (await shop.product(1))["price"] == shop.site.product(1).price
    compared = await shop.client.post("/api/v1/products/reparse", json={"domain": domain})
    assert {each["changed"] + each["lost"] for each in compared.json()["data"]["fields"]} == {0}

    rejected = await shop.client.post(f"{WRAPPERS}/reject", params={"name": proposed["name"]})
    assert rejected.json()["data"]["state"] == "rejected"
    await shop.work()
    assert (await shop.product(1))["price"] == wrong, "it is used no more"
    again = await shop.client.post(f"{WRAPPERS}/propose", json={"domain": domain})
    assert again.json()["data"] == [], "what a person rejected is not proposed again"
    assert (await shop.client.post(f"{WRAPPERS}/reject", params={"name": "none.example/1"})).status_code == 404


@pytest.mark.one_store
async def test_a_shop_whose_pages_lack_nothing_is_not_learnt_from__PR_24(
    shop_of: OpenShop, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop = await shop_of(pages=20, layout="marked", change_days=(0, 0))
    await shop.crawl(urls=[shop.site.product_url(n) for n in range(1, 21)])

    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("its pages were read")

    monkeypatch.setattr(type(shop.app), "read_page", refuse)
    assert await learn_all(shop) == [f"127.0.0.1:{shop.site.port}"], "it is looked at once"
    assert await learn_all(shop) == [], "and not again today"
    assert await shop.get("/admin/wrappers") == []
    await shop.app.database.write("UPDATE site_looks SET looked_at = looked_at - 90000000")
    assert await learn_all(shop), "but tomorrow"


@pytest.mark.one_store(False)
async def test_a_crash_between_learning_and_adoption_leaves_a_whole_proposal_or_none__PR_24(
    tmp_path: Path, database_url: str | None
) -> None:
    home = tmp_path / "home"
    async with open_shop(home, database_url, pages=30, layout="partly", change_days=(0, 0)) as shop:
        await shop.crawl(urls=[shop.site.product_url(n) for n in range(1, 31)])
    tables = PostgresTables(database_url) if database_url else SqliteTables(home / "ledger.db")
    seen, counts, killed = set[str](), set[int](), 0
    for life in range(12):
        options = Options(str(home), database_url, nth=1 + life // 2, after=bool(life % 2))
        killed += await gone(start(options), 60) == -9
        rows = tables.read("SELECT version, field, state, applied_at FROM wrappers ORDER BY version, field")
        assert len({row["version"] for row in rows}) <= 1, "one proposal, however often it was begun"
        counts.add(len(rows))
        states = {row["state"] for row in rows}
        assert len(states) <= 1, "all decided or none"
        seen |= states
    assert killed >= 6
    assert len(counts) == 2, "all fields or none"
    assert 0 in counts
    assert {"proposed", "adopted"} <= seen, "both moments were met"
    assert await gone(start(Options(str(home), database_url)), 60) == 0
    assert {row["state"] for row in tables.read("SELECT state FROM wrappers")} == {"adopted"}
    assert tables.read("SELECT count(*) AS n FROM wrappers WHERE applied_at IS NULL") == [{"n": 0}]
    assert tables.read("SELECT count(*) AS n FROM tasks WHERE kind = 'products.parse'") == [{"n": 30}]
    assert audit(tables, (CrawledPage, Product)) == []
    tables.close()
