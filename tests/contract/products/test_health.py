"""A parser that finds much less than before is noticed: its new values are held back, and the last good ones stay."""

import re
from dataclasses import replace
from datetime import timedelta
from typing import Any
from urllib.parse import quote

import pytest

from forager.extract.html.document import Document
from forager.extract.products.findings import ProductFindings
from forager.extract.products.parsers import base
from forager.pipelines.products.health import LEAST_PAGES
from forager.pipelines.products.reports.health import check_health, forget_old
from tests.support.shop import OpenShop, Shop

pytestmark = pytest.mark.one_store  # rates are compared by the pipeline

PAGES = LEAST_PAGES


class Broken:
    """The base parser, with a switch to find no price on every second page, and a wrong one on the others. A
    reader gets a copy of it with each page."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.is_broken = False
        monkeypatch.setattr(base, "parser", replace(base.parser, read=self.read))

    def read(self, document: Document) -> ProductFindings:
        found = base.read(document)
        if self.is_broken:
            del found.values["price"]
            if int(re.findall(r"\d+", document.url)[-1]) % 2:
                found.add("price", "1.00", "json-ld")
        return found


def finds_nothing(_: Document) -> ProductFindings:
    return ProductFindings()


def named(shop: Shop) -> str:
    """The name of the quarantine of the shop's prices."""
    return f"127.0.0.1:{shop.site.port}/base/{base.parser.version}/price"


async def crawl_all(shop: Shop) -> dict[str, Any]:
    return await shop.crawl(urls=[shop.site.product_url(n) for n in range(1, PAGES + 1)])


async def yesterday(shop: Shop) -> None:
    """Move today's counts to yesterday."""
    day = (await shop.app.ledger.now()).date() - timedelta(days=1)
    await shop.app.database.write("UPDATE parser_health SET day = :day", {"day": day.isoformat()})


async def prices(shop: Shop) -> dict[int, Any]:
    return {each["id"]: each["price"] for each in await shop.get("/products", limit=200)}


async def broken_shop(shop_of: OpenShop, parser: Broken) -> tuple[Shop, dict[int, Any]]:
    """A shop that was read well yesterday and whose prices are mostly missing today."""
    shop = await shop_of(pages=PAGES, change_days=(0, 0), settings={"product_wrappers": "propose"})
    await crawl_all(shop)
    good = await prices(shop)
    await yesterday(shop)
    return shop, good


@pytest.mark.one_store(False)
async def test_a_field_that_falls_is_quarantined_and_the_last_good_values_stay__PR_16(
    shop_of: OpenShop, monkeypatch: pytest.MonkeyPatch
) -> None:
    parser = Broken(monkeypatch)
    shop, good = await broken_shop(shop_of, parser)
    assert await check_health(shop.app) == []
    await crawl_all(shop)
    assert await check_health(shop.app) == []  # nothing has fallen
    (today, before) = await shop.get("/admin/parser-health")
    assert (today["pages"], today["success"], today["fill"]["price"]) == (PAGES, 1.0, 1.0)
    assert before["pages"] == PAGES
    await shop.app.database.write("DELETE FROM parser_health WHERE day = :day", {"day": today["day"]})

    parser.is_broken = True
    await crawl_all(shop)
    (alert,) = await check_health(shop.app)
    assert (alert.field, alert.rate, alert.mean, alert.pages) == ("price", 0.5, 1.0, PAGES)
    assert await check_health(shop.app) == []  # one alert, not one for each look
    (shown,) = await shop.get("/admin/quarantines", state="open")
    assert shown["field"] == "price"
    assert "forager_product_quarantines_open 1.0" in (await shop.client.get("/metrics")).text

    wrong = await prices(shop)  # what came before the alarm; the site is put right, the parser is not
    await shop.app.database.write("UPDATE items SET price = :good", {"good": 123_0000})
    await crawl_all(shop)
    assert set((await prices(shop)).values()) == {"123.00"}  # held back
    rows = await shop.app.database.fetch("SELECT held FROM items WHERE held IS NOT NULL")
    assert rows
    assert '"value":"1"' in str(rows[0]["held"]).replace(": ", ":")
    (told,) = await shop.get("/records/parser_alert")
    assert (told["alert_key"], told["state"]) == (named(shop), "open")
    assert wrong.keys() == good.keys()


async def test_a_quarantine_that_is_accepted_lets_the_new_values_in_from_the_stored_pages__PR_16(
    shop_of: OpenShop, monkeypatch: pytest.MonkeyPatch
) -> None:
    parser = Broken(monkeypatch)
    shop, good = await broken_shop(shop_of, parser)
    parser.is_broken = True
    await crawl_all(shop)
    await check_health(shop.app)
    await shop.app.database.write("UPDATE items SET price = :low", {"low": 5_0000})
    parser.is_broken = False  # say, the site really has other prices now
    await crawl_all(shop)
    assert set((await prices(shop)).values()) == {"5.00"}
    fetched = len(shop.asked())
    accepted = await shop.client.post("/api/v1/admin/quarantines/accept", params={"name": named(shop)})
    assert accepted.json()["data"]["state"] == "accepted", accepted.text
    await shop.work()
    assert await prices(shop) == good
    assert len(shop.asked()) == fetched  # without the network
    rows = await shop.app.database.fetch("SELECT count(*) AS n FROM items WHERE held IS NOT NULL")
    assert rows[0]["n"] == 0
    history = await shop.get("/records/parser_alert/" + quote(named(shop), safe="") + "/history")
    assert [change["body"]["state"] for change in history] == ["accepted", "open"]
    assert (await shop.client.post("/api/v1/admin/quarantines/accept", params={"name": named(shop)})).status_code == 409


async def test_a_rejected_quarantine_keeps_this_parser_version_out_and_lets_the_next_one_in__PR_16(
    shop_of: OpenShop, monkeypatch: pytest.MonkeyPatch
) -> None:
    parser = Broken(monkeypatch)
    shop, good = await broken_shop(shop_of, parser)
    parser.is_broken = True
    await crawl_all(shop)
    await check_health(shop.app)
    await shop.app.database.write("UPDATE items SET price = :low", {"low": 5_0000})
    rejected = await shop.client.post("/api/v1/admin/quarantines/reject", params={"name": named(shop)})
    assert rejected.json()["data"]["state"] == "rejected", rejected.text
    await crawl_all(shop)
    assert set((await prices(shop)).values()) == {"5.00"}
    crawl = shop.app.worker._steps.get("products.crawl")
    known = crawl.run.__self__.parsers.known  # type: ignore[union-attr]
    known["base"] = replace(known["base"], version=99, read=base.read)
    await crawl_all(shop)
    assert await prices(shop) == good
    assert (await shop.client.post("/api/v1/admin/quarantines/reject", params={"name": "x/y/1/z"})).status_code == 404


async def test_a_parser_that_breaks_on_tuesday_loses_no_value_of_monday__PR_16(
    shop_of: OpenShop, monkeypatch: pytest.MonkeyPatch
) -> None:
    nothing = False

    def read(document: Document) -> ProductFindings:
        if nothing:
            raise RuntimeError("another layout")
        return base.read(document)

    monkeypatch.setattr(base, "parser", replace(base.parser, read=read))
    shop = await shop_of(pages=PAGES, change_days=(0, 0), settings={"product_wrappers": "propose"})
    await crawl_all(shop)
    good = {each["id"]: each for each in await shop.get("/products", limit=200)}
    await yesterday(shop)
    nothing = True
    await crawl_all(shop)
    (alert,) = await check_health(shop.app)
    assert (alert.field, alert.rate) == ("*", 0.0)
    now = {each["id"]: each for each in await shop.get("/products", limit=200)}
    assert now == good


@pytest.mark.one_store(False)
async def test_a_field_that_falls_on_a_shops_first_day_is_quarantined__PR_24(
    shop_of: OpenShop, monkeypatch: pytest.MonkeyPatch
) -> None:
    parser = Broken(monkeypatch)
    shop = await shop_of(pages=PAGES, change_days=(0, 0), settings={"product_wrappers": "propose"})
    await crawl_all(shop)
    assert await check_health(shop.app) == []
    parser.is_broken = True
    await crawl_all(shop)
    (alert,) = await check_health(shop.app)
    assert (alert.field, alert.rate, alert.mean, alert.pages) == ("price", 0.5, 1.0, PAGES)


async def test_a_parser_that_breaks_on_a_shops_first_day_is_reported__PR_24(
    shop_of: OpenShop, monkeypatch: pytest.MonkeyPatch
) -> None:
    def read(document: Document) -> ProductFindings:
        raise RuntimeError("a layout that it cannot read")

    monkeypatch.setattr(base, "parser", replace(base.parser, read=read))
    shop = await shop_of(pages=PAGES, change_days=(0, 0), settings={"product_wrappers": "propose"})
    await crawl_all(shop)
    (alert,) = await check_health(shop.app)
    assert (alert.field, alert.rate, alert.pages) == ("*", 0.0, PAGES)


async def test_a_parser_that_never_found_a_product_is_shown_as_ill__PR_16(
    shop_of: OpenShop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(base, "parser", replace(base.parser, read=finds_nothing))
    shop = await shop_of(pages=6)
    await shop.crawl(urls=[shop.site.product_url(n) for n in range(1, 7)])
    (shown,) = await shop.get("/admin/parser-health")
    assert (shown["pages"], shown["success"]) == (6, 0.0)
    assert await shop.get("/products") == []


@pytest.mark.one_store(False)
@pytest.mark.parametrize("found", [0, PAGES * 6 // 10])
async def test_a_parser_that_finds_too_little_on_the_first_day_is_reported_by_a_one_shot_crawl__PR_16(
    shop_of: OpenShop, monkeypatch: pytest.MonkeyPatch, found: int
) -> None:
    def finds_some(document: Document) -> ProductFindings:
        number = int(re.findall(r"\d+", document.url)[-1])
        return base.read(document) if number <= found else ProductFindings()

    monkeypatch.setattr(base, "parser", replace(base.parser, read=finds_some))
    shop = await shop_of(pages=PAGES)
    urls = [shop.site.product_url(n) for n in range(1, PAGES + 1)]
    async with shop.app.engine(schedules=False, service=False):
        made = await shop.app.submit("products", {"urls": urls})
        await shop.reached(lambda: shop.app.reports.job(made.job), lambda job: job.state == "completed")
        await shop.reached(shop.app.has_delivered, bool)
        (held,) = await shop.get("/admin/quarantines")
        (told,) = await shop.get("/records/parser_alert")
    assert (held["field"], held["rate"], held["mean"], held["pages"]) == ("*", found / PAGES, 1.0, PAGES)
    assert (told["field"], told["state"]) == ("*", "open"), "and the change log has it"
    assert await check_health(shop.app) == [], "it is reported once"


async def test_a_shop_that_is_read_well_on_its_first_day_is_not_reported__PR_16(shop_of: OpenShop) -> None:
    shop = await shop_of(pages=PAGES)
    await crawl_all(shop)
    assert await check_health(shop.app) == []


async def test_lists_and_other_pages_do_not_count_against_a_parser__PR_16(shop_of: OpenShop) -> None:
    shop = await shop_of(pages=6)
    await shop.crawl(urls=[shop.site.url("/")], follow=True, depth=2)
    pages = [each["outcome"] for each in await shop.app.database.fetch("SELECT outcome FROM pages")]
    assert "other" in pages
    (shown,) = await shop.get("/admin/parser-health")
    assert (shown["pages"], shown["success"]) == (pages.count("product"), 1.0)


async def test_a_one_shot_crawl_checks_before_it_ends__PR_24(
    shop_of: OpenShop, monkeypatch: pytest.MonkeyPatch
) -> None:
    parser = Broken(monkeypatch)
    shop, _ = await broken_shop(shop_of, parser)
    parser.is_broken = True
    urls = [shop.site.product_url(n) for n in range(1, PAGES + 1)]
    async with shop.app.engine(schedules=False):
        made = await shop.app.submit("products", {"urls": urls})
        await shop.reached(lambda: shop.app.reports.job(made.job), lambda job: job.state == "completed")
        await shop.reached(shop.app.has_delivered, bool)
        assert [each["field"] for each in await shop.get("/admin/quarantines")] == ["price"]
        (told,) = await shop.get("/records/parser_alert")
    assert told["state"] == "open", "and the change log has it"


@pytest.mark.one_store(False)
async def test_counts_of_old_days_are_removed__PR_16(shop_of: OpenShop) -> None:
    shop = await shop_of(pages=2)
    await shop.crawl(urls=[shop.site.product_url(1)])
    await yesterday(shop)
    await shop.crawl(urls=[shop.site.product_url(2)])
    await forget_old(shop.app)
    assert len(await shop.get("/admin/parser-health")) == 2
    oldest = "(SELECT min(day) FROM parser_health)"
    await shop.app.database.write(f"UPDATE parser_health SET day = '2020-01-01' WHERE day = {oldest}")
    await forget_old(shop.app)
    assert len(await shop.get("/admin/parser-health")) == 1


@pytest.mark.one_store(False)
async def test_the_running_engine_checks_by_itself__PR_16(shop_of: OpenShop, monkeypatch: pytest.MonkeyPatch) -> None:
    parser = Broken(monkeypatch)
    shop, _ = await broken_shop(shop_of, parser)
    parser.is_broken = True
    await crawl_all(shop)
    async with shop.app.engine():
        found = await shop.reached(lambda: shop.get("/admin/quarantines"), bool)
    assert [each["field"] for each in found] == ["price"]
