"""The pages of the simulated shop: their markup, and what is bad about some of them and their pictures."""

import json
import re

import pytest
from selectolax.lexbor import LexborHTMLParser

from forager.sandbox import ShopConfig, ShopSandbox
from forager.sandbox.shop import LAYOUTS, hostile
from forager.sandbox.shop.products import number_of
from forager.sandbox.wire import WireRequest
from tests.support.sandbox_shop import a_call, attribute, shop_with, text


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("size", [6_000, 20_000])
async def test_a_page_has_the_wanted_size_and_the_product_s_name(layout: str, size: int) -> None:
    async with shop_with(layout=layout, page_bytes=size) as client:
        for number in range(1, 21):
            status, body, headers = await client.get(client.shop.product_url(number))
            assert (status, headers["Content-Type"]) == (200, "text/html; charset=utf-8")
            assert len(body) == size
            assert text(LexborHTMLParser(body), "h1") == client.shop.product(number).name


async def test_jsonld_contains_everything_and_variants_are_an_aggregate() -> None:
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


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("kind", sorted(hostile.KINDS))
def test_bad_pages_keep_or_lose_the_product_as_promised(layout: str, kind: str) -> None:
    shop = ShopSandbox(ShopConfig(layout=layout))
    path = shop.catalogue.path(3, layout)
    assert shop.product(3).availability == "in_stock"
    good = shop.answer("shop", WireRequest("GET", path, "", {b"host": b"a:1"}, b""), a_call()).body
    bad = hostile.spoil(kind, good, shop.product(3))
    name = shop.product(3).name
    headline = LexborHTMLParser(bad).css_first("h1")
    if kind in hostile.READABLE:
        assert headline is not None
        assert headline.text(strip=True) == name
    elif kind not in ("absurd_price", "negative_price"):
        assert headline is None or headline.text(strip=True) != name
    assert bad != good


async def test_some_pages_are_bad_and_the_shop_lists_them() -> None:
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
