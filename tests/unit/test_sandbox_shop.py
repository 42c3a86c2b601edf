"""The simulated shop on a real port: sitemaps, categories, addresses, validators, change over time, limits."""

import asyncio
import gzip
import re
import tracemalloc
from typing import Any
from xml.etree import ElementTree

import pytest
from selectolax.lexbor import LexborHTMLParser

from forager.core.errors import Rejected
from forager.sandbox import ShopConfig, ShopSandbox, When, repeats
from forager.sandbox.shop import Shelf
from forager.sandbox.shop.products import gtin_of
from forager.sandbox.wire import WireRequest
from tests.support.sandbox_shop import NAMESPACE, a_call, shop_with, text


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
async def test_broken_validators_answer_304_always_or_never(mode: str, same: int, later: int) -> None:
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
    shop.answer("shop", WireRequest("GET", shop.catalogue.path(1, "jsonld"), "", request, b""), a_call())
    tracemalloc.start()
    for number in range(1, 1_000_000, 1000):
        reply = shop.answer(
            "shop", WireRequest("GET", shop.catalogue.path(number, "jsonld"), "", request, b""), a_call()
        )
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
