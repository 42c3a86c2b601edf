"""The simulated shop on a real port: markups, sitemaps, categories, validators, change over time, bad pages."""

import asyncio
import gzip
import json
import re
import tracemalloc
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any
from xml.etree import ElementTree

import aiohttp
import pytest
from selectolax.lexbor import LexborHTMLParser

from forager.core.errors import Rejected
from forager.sandbox import ShopConfig, ShopSandbox, When, repeats
from forager.sandbox.shop import LAYOUTS, Shelf, hostile
from forager.sandbox.shop.products import gtin_of, number_of
from forager.sandbox.wire import Request

NAMESPACE = "{http://www.sitemaps.org/schemas/sitemap/0.9}"


class Clock:
    def __init__(self) -> None:
        self.moment = datetime(2026, 11, 2, 6, tzinfo=UTC)

    def now(self) -> datetime:
        return self.moment

    def forward(self, days: float) -> None:
        self.moment += timedelta(days=days)


class Client:
    def __init__(self, shop: ShopSandbox, session: aiohttp.ClientSession, clock: Clock) -> None:
        self.shop, self.session, self.clock = shop, session, clock

    async def get(self, path: str, **headers: str) -> tuple[int, bytes, Mapping[str, str]]:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        async with self.session.get(path, headers=named, allow_redirects=False) as got:
            return got.status, await got.read(), got.headers

    async def page(self, number: int) -> LexborHTMLParser:
        status, body, _ = await self.get(self.shop.product_url(number))
        assert status == 200
        return LexborHTMLParser(body)


@asynccontextmanager
async def shop_with(**knobs: Any) -> AsyncIterator[Client]:
    clock = Clock()
    config = ShopConfig(**{"pages": 100, **knobs})
    async with (
        ShopSandbox(config, now=clock.now) as shop,
        aiohttp.ClientSession(shop.url("")) as session,
    ):
        yield Client(shop, session, clock)


def text(page: LexborHTMLParser, selector: str) -> str:
    found = page.css_first(selector)
    assert found is not None, selector
    return found.text(strip=True)


def attribute(page: LexborHTMLParser, selector: str, name: str) -> str:
    found = page.css_first(selector)
    assert found is not None, selector
    return found.attributes[name] or ""


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("size", [6_000, 20_000])
async def test_a_page_has_the_wanted_size_and_the_product_s_name(layout: str, size: int) -> None:
    async with shop_with(layout=layout, page_bytes=size) as client:
        for number in range(1, 21):
            status, body, headers = await client.get(client.shop.product_url(number))
            assert (status, headers["Content-Type"]) == (200, "text/html; charset=utf-8")
            assert len(body) == size
            assert text(LexborHTMLParser(body), "h1") == client.shop.product(number).name


async def test_jsonld_says_everything_and_variants_are_an_aggregate() -> None:
    async with shop_with() as client:
        kinds = set()
        for number in range(1, 60):
            page = await client.page(number)
            blocks = [json.loads(each.text()) for each in page.css("script[type='application/ld+json']")]
            assert [block["@type"] for block in blocks] == ["BreadcrumbList", "Product"]
            block, offers, wanted = blocks[1], blocks[1]["offers"], client.shop.shown(number)
            kinds.add(offers["@type"])
            assert (offers.get("price") or offers["lowPrice"]) == wanted["price"]
            assert (block["name"], block["brand"]["name"]) == (wanted["name"], wanted["brand"])
            assert (block["sku"], block["gtin13"]) == (wanted["sku"], wanted["gtin"])
            assert float(block["aggregateRating"]["ratingValue"]) == wanted["rating"]
        assert kinds == {"Offer", "AggregateOffer"}


async def test_microdata_and_opengraph_name_the_price() -> None:
    async with shop_with(layout="microdata") as client:
        page, wanted = await client.page(3), client.shop.shown(3)
        assert attribute(page, "[itemprop=price]", "content") == wanted["price"]
        assert attribute(page, "[itemprop=brand] [itemprop=name]", "content") == wanted["brand"]
    async with shop_with(layout="opengraph") as client:
        page, wanted = await client.page(3), client.shop.shown(3)
        assert attribute(page, "meta[property='product:price:amount']", "content") == wanted["price"]
        assert attribute(page, "meta[property='og:title']", "content") == wanted["name"]
        assert "rating" not in wanted


async def test_the_amazon_layout_has_its_ids_a_range_and_no_price_for_what_is_not_there() -> None:
    async with shop_with(layout="amazon", pages=300) as client:
        seen = set()
        for number in range(1, 200):
            page, wanted, product = await client.page(number), client.shop.shown(number), client.shop.product(number)
            assert text(page, "#productTitle") == wanted["name"]
            assert attribute(page, "#ASIN", "value") == product.asin == wanted["sku"]
            assert number_of(product.asin) == number
            assert wanted["brand"] in text(page, "#bylineInfo")
            assert text(page, "#acrCustomerReviewText") == f"{wanted['review_count']:,} ratings"
            seen.add(product.availability)
            price = page.css_first("#corePriceDisplay_desktop_feature_div .priceToPay .a-offscreen")
            low = page.css_first("#corePrice_desktop .a-price-range .a-offscreen")
            if "price" not in wanted:
                assert (price, low) == (None, None)
                assert text(page, "#availability") == "Currently unavailable."
                continue
            shown = low if product.variants else price
            assert shown is not None
            assert shown.text() == product.money(product.cents)
            assert attribute(page, "#landingImage", "data-old-hires").endswith(f"/img/{number}-1.png")
        assert seen == {"in_stock", "out_of_stock", "preorder"}


async def test_the_two_own_layouts_and_the_plain_one_can_be_read() -> None:
    async with shop_with(layout="atelier") as client:
        page, product = await client.page(9), client.shop.product(9)
        whole, cents = text(page, ".cost__whole").replace(",", ""), text(page, ".cost__cents")
        assert f"{whole}.{cents}" == product.price
        assert attribute(page, ".cost__currency", "title") == "USD"
        assert attribute(page, ".piece", "data-sku") == product.sku
    async with shop_with(layout="depot") as client:
        page, product = await client.page(9), client.shop.product(9)
        state = json.loads(text(page, "#__STATE__"))["product"]
        assert (state["pricing"]["current"], state["codes"]["ean"]) == (product.cents, product.gtin)
    async with shop_with(layout="plain", currency="EUR") as client:
        page, product = await client.page(9), client.shop.product(9)
        assert text(page, "p b") == product.money(product.cents)
        assert re.fullmatch(r"[\d.]+,\d\d €", product.money(product.cents))


async def test_a_host_name_can_have_a_layout_of_its_own() -> None:
    async with shop_with(hosts={"amazon.test": "amazon"}) as client:
        path = client.shop.product_url(5, "amazon.test").partition(f":{client.shop.port}")[2]
        status, body, _ = await client.get(path, Host=f"amazon.test:{client.shop.port}")
        assert (status, b"productTitle" in body) == (200, True)
        assert next(iter(client.shop.log)).host == "amazon.test"


async def test_robots_lead_to_an_index_of_gzip_sitemaps_with_every_product_once() -> None:
    async with shop_with(pages=250, sitemap_urls=100, crawl_delay=2, layout="mixed") as client:
        robots = (await client.get("/robots.txt"))[1].decode()
        assert "Crawl-delay: 2\n" in robots
        (index,) = re.findall(r"^Sitemap: (.*)$", robots, re.MULTILINE)
        tree = ElementTree.fromstring((await client.get(index))[1])
        parts = [each.text or "" for each in tree.iter(f"{NAMESPACE}loc")]
        assert [part.rpartition("/")[2] for part in parts] == [
            "products-1.xml.gz",
            "products-2.xml.gz",
            "products-3.xml.gz",
            "categories.xml",
        ]
        found = []
        for part in parts[:3]:
            status, body, headers = await client.get(part)
            assert (status, headers["Content-Type"]) == (200, "application/gzip")
            found += [each.text for each in ElementTree.fromstring(gzip.decompress(body)).iter(f"{NAMESPACE}loc")]
        assert found == [client.shop.product_url(number) for number in range(1, 251)]
        for url in found[::50]:
            assert (await client.get(str(url)))[0] == 200
        assert (await client.get("/sitemaps/products-4.xml.gz"))[0] == 404


@pytest.mark.parametrize(("kind", "status"), [("flat", 200), ("broken", 200), ("none", 404)])
async def test_a_sitemap_can_be_one_file_broken_or_absent(kind: str, status: int) -> None:
    async with shop_with(sitemap=kind) as client:
        got, body, _ = await client.get("/sitemap.xml")
        assert got == status
        assert ("Sitemap:" in (await client.get("/robots.txt"))[1].decode()) == (kind != "none")
        if kind == "flat":
            assert len(list(ElementTree.fromstring(body).iter(f"{NAMESPACE}loc"))) == 100
        if kind == "broken":
            with pytest.raises(ElementTree.ParseError):
                ElementTree.fromstring(body)


async def test_following_categories_and_their_pages_finds_every_product() -> None:
    async with shop_with(pages=130, categories=3, per_page=10) as client:
        found: set[str] = set()
        tracked = 0
        todo = [
            link.attributes["href"] or "" for link in LexborHTMLParser((await client.get("/"))[1]).css(".departments a")
        ]
        assert len(todo) == 3
        while todo:
            page = LexborHTMLParser((await client.get(todo.pop()))[1])
            todo += [link.attributes["href"] or "" for link in page.css("a[rel=next]")]
            links = [link.attributes["href"] or "" for link in page.css(".tile a")]
            tracked += sum("?" in link for link in links)
            found.update(link.partition("?")[0] for link in links)
        assert found == {client.shop.catalogue.path(number, "jsonld") for number in range(1, 131)}
        assert 10 < tracked < 60


async def test_a_page_beyond_the_last_is_a_404_or_the_last_one_for_ever() -> None:
    async with shop_with(categories=3, per_page=10) as client:
        path = client.shop.catalogue.category_path(1)
        assert (await client.get(f"{path}?page=5"))[0] == 404
    async with shop_with(categories=3, per_page=10, endless_pages=True) as client:
        first, second = [(await client.get(f"{path}?page={n}"))[1] for n in (5, 6)]
        assert LexborHTMLParser(first).css_first(".grid").html == LexborHTMLParser(second).css_first(".grid").html  # type: ignore[union-attr]
        assert b"page=7" in second


async def test_tracking_parameters_other_slugs_and_old_addresses_lead_to_the_same_page() -> None:
    async with shop_with(old_share=0.5) as client:
        canonical = client.shop.product_url(7).removeprefix(client.shop.url(""))
        assert (await client.get(f"{canonical}?utm_source=x"))[1] == (await client.get(canonical))[1]
        for path in ("/p/7", "/p/wrong-name-7"):
            status, _, headers = await client.get(path)
            assert (status, headers["Location"]) == (301, canonical)
        status, _, headers = await client.get("/old/7")
        assert (status, headers["Location"]) == (301, "/older/7")
        status, _, headers = await client.get("/older/7")
        assert (status, headers["Location"]) == (302, canonical)
        assert (await client.get("/loop"))[2]["Location"] == "/loop"
        sitemap = gzip.decompress((await client.get("/sitemaps/products-1.xml.gz"))[1])
        assert 20 < sitemap.count(b"/old/") < 80


async def test_prices_and_stock_change_over_time_and_not_before() -> None:
    async with shop_with(pages=200) as client:
        first = [client.shop.product(number) for number in range(1, 201)]
        assert first == [client.shop.product(number) for number in range(1, 201)]
        client.clock.forward(20)
        later = [client.shop.product(number) for number in range(1, 201)]
        prices = sum(one.cents != two.cents for one, two in zip(first, later, strict=True))
        stock = sum(one.availability != two.availability for one, two in zip(first, later, strict=True))
        assert 60 < prices < 180
        assert 3 < stock < 100
        assert [one.name for one in first] == [two.name for two in later]
        page = await client.page(1)
        assert client.shop.product(1).money(client.shop.product(1).cents) in text(page, ".price")
    async with shop_with(change_days=(0.0, 0.0)) as client:
        before = client.shop.product(1)
        client.clock.forward(400)
        assert client.shop.product(1) == before


async def test_good_validators_answer_304_until_the_product_changes() -> None:
    async with shop_with() as client:
        url = client.shop.product_url(4)
        _, _, headers = await client.get(url)
        for sent in ({"If_None_Match": headers["ETag"]}, {"If_Modified_Since": headers["Last-Modified"]}):
            status, body, again = await client.get(url, **sent)
            assert (status, body, again["ETag"]) == (304, b"", headers["ETag"])
        client.clock.forward(11)
        status, _, changed = await client.get(url, If_None_Match=headers["ETag"])
        assert status == 200
        assert changed["ETag"] != headers["ETag"]


@pytest.mark.parametrize(
    ("mode", "same", "later"), [("stuck", 304, 304), ("fickle", 200, 200), ("weak", 304, 200), ("none", 200, 200)]
)
async def test_broken_validators_say_304_for_ever_or_never(mode: str, same: int, later: int) -> None:
    async with shop_with(validators=mode) as client:
        url = client.shop.product_url(4)
        _, _, headers = await client.get(url)
        assert ("ETag" in headers) == (mode != "none")
        tag = headers.get("ETag", '"x"')
        assert tag.startswith("W/") == (mode == "weak")
        assert (await client.get(url, If_None_Match=tag))[0] == same
        client.clock.forward(400)
        assert (await client.get(url, If_None_Match=tag))[0] == later


@pytest.mark.parametrize(("kind", "status"), [("404", 404), ("410", 410), ("soft", 200)])
async def test_products_go_and_a_soft_404_shows_other_prices(kind: str, status: int) -> None:
    async with shop_with(gone_share=0.5, gone=(kind,)) as client:
        going = [number for number in range(1, 101) if client.shop.shelf.end(number) is not None]
        assert 30 < len(going) < 70
        url = client.shop.product_url(going[0])
        assert (await client.get(url))[0] == 200
        client.clock.forward(31)
        got, body, _ = await client.get(url)
        assert got == status
        if kind == "soft":
            page = LexborHTMLParser(body)
            assert "no longer available" in text(page, "h1")
            assert "$" in text(page, ".price")
    async with shop_with() as client:
        assert (await client.get("/p/oak-table-101"))[0] == 404


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("kind", sorted(hostile.KINDS))
def test_bad_pages_keep_or_lose_the_product_as_promised(layout: str, kind: str) -> None:
    shop = ShopSandbox(ShopConfig(layout=layout))
    path = shop.catalogue.path(3, layout)
    assert shop.product(3).availability == "in_stock"
    good = shop.answer("shop", Request("GET", path, "", {b"host": b"a:1"}, b""), _call()).body
    bad = hostile.spoil(kind, good, shop.product(3))
    name = shop.product(3).name
    headline = LexborHTMLParser(bad).css_first("h1")
    if kind in hostile.READABLE:
        assert headline is not None
        assert headline.text(strip=True) == name
    elif kind not in ("absurd_price", "negative_price"):
        assert headline is None or headline.text(strip=True) != name
    assert bad != good


def _call() -> Any:
    from forager.sandbox import Call

    return Call(1, 0.0, 0.0, "", "GET", "/", "")


async def test_some_pages_are_bad_and_the_shop_says_which() -> None:
    async with shop_with(pages=400, broken_share=0.3) as client:
        bad = {number: client.shop.spoiled(number) for number in range(1, 401) if client.shop.spoiled(number)}
        assert 80 < len(bad) < 160
        assert set(bad.values()) == set(hostile.KINDS)
        number = next(number for number, kind in bad.items() if kind == "empty")
        assert (await client.get(client.shop.product_url(number)))[:2] == (200, b"")


async def test_images_are_valid_some_are_the_same_file_and_some_are_traps() -> None:
    async with shop_with() as client:
        first, second = [(await client.get(f"/img/{n}-1.png")) for n in (1, 2)]
        assert first[2]["Content-Type"] == "image/png"
        assert first[1].startswith(b"\x89PNG")
        assert first[1] != second[1]
        logos = {(await client.get(f"/img/{n}-2.png"))[1] for n in (7, 14, 21)}
        assert len(logos) == 1
        assert len((await client.get("/img/huge.png"))[1]) > 10_000_000
        assert not (await client.get("/img/broken.png"))[1].startswith(b"\x89PNG")
        assert (await client.get("/img/1-9.png"))[0] == 404
        page = await client.page(1)
        assert [attribute(page, "main img", "src")] == [client.shop.url("/img/1-1.png")]


async def test_a_shop_can_limit_and_fail_and_logs_every_request() -> None:
    async with shop_with(rate_limit=5, retry_after="7") as client:
        answers = await asyncio.gather(*(client.get(client.shop.product_url(n)) for n in range(1, 9)))
        assert sorted(status for status, _, _ in answers) == [200] * 5 + [429] * 3
        assert {headers["Retry-After"] for status, _, headers in answers if status == 429} == {"7"}
    rules = (When("http503", operation="product", subject="3"), When("captcha", operation="category"))
    async with shop_with(script=rules) as client:
        statuses = [(await client.get(client.shop.product_url(n)))[0] for n in (3, 3, 4, 4)]
        assert statuses == [503, 200, 200, 200]
        assert (await client.get(client.shop.catalogue.category_path(2)))[0] == 403
        assert [(call.operation, call.subject) for call in client.shop.log][:2] == [("product", "3")] * 2
        assert [(each.subject, each.after_answer) for each in repeats(client.shop.log)] == [("4", 1)]


def test_a_shop_of_a_million_pages_needs_no_memory_per_page() -> None:
    shop = ShopSandbox(ShopConfig(pages=1_000_000, log_limit=10))
    assert shop.product(1_000_000).name.endswith("1000000")
    request = {b"host": b"a:1"}
    shop.answer("shop", Request("GET", shop.catalogue.path(1, "jsonld"), "", request, b""), _call())
    tracemalloc.start()
    for number in range(1, 1_000_000, 1000):
        reply = shop.answer("shop", Request("GET", shop.catalogue.path(number, "jsonld"), "", request, b""), _call())
        assert reply.status == 200
    kept, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert kept < 200_000


def test_the_same_seed_is_the_same_shop() -> None:
    one, two, other = (Shelf(ShopConfig(seed=seed), 0.0) for seed in (1, 1, 2))
    assert one.product(5, 1e6) == two.product(5, 1e6) != other.product(5, 1e6)


def test_a_gtin_has_a_right_check_digit() -> None:
    for number in (1, 77, 999_999):
        digits = [int(digit) for digit in gtin_of(number)]
        assert len(digits) == 13
        assert sum(digit * (3 if place % 2 else 1) for place, digit in enumerate(digits)) % 10 == 0


@pytest.mark.parametrize(
    "changes",
    [
        {"layout": "baroque"},
        {"currency": "XXX"},
        {"validators": "odd"},
        {"gone": []},
        {"change_days": [5, 1]},
        {"categories": 0},
        {"hosts": {"a": "baroque"}},
    ],
)
def test_wrong_settings_are_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(Rejected):
        ShopConfig().changed(changes)
