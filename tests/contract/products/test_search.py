"""Full-text search over the catalogue: the same on SQLite and PostgreSQL."""

import asyncio
import itertools
import time
from typing import Any

from forager.kit.search import index_of
from forager.pipelines.products.records import Product
from tests.support.promptness import assert_soon
from tests.support.shop import OpenShop, Shop

SEARCH = "/products/search"


async def indexed(shop: Shop, word: str) -> bool:
    """Whether the index itself has this word; a search would index what is missing."""
    column, test = ("search_items", "MATCH") if shop.app.database.dialect == "sqlite" else ("document", "@@")
    asked = ":word" if test == "MATCH" else "to_tsquery('english', :word)"
    return bool(
        await shop.app.database.fetch(f"SELECT 1 FROM search_items WHERE {column} {test} {asked}", {"word": word})
    )


async def names(shop: Shop, q: str, **query: Any) -> list[str]:
    return [hit["product"]["product_name"] for hit in (await shop.get(SEARCH, q=q, **query))["hits"]]


async def test_products_are_found_by_their_words_best_first_with_facets__PR_18__PR_19(shop_of: OpenShop) -> None:
    shop = await shop_of(pages=60, categories=4)
    await shop.crawl(sitemap=shop.site.url("/sitemap.xml"))
    everything = await shop.get("/products", limit=100)
    kinds = [each["product_name"].split()[1] for each in everything]  # what it is: Table, Lamp …
    word = next(kind for kind in kinds if not any(kind in each["category"] for each in everything))
    expected = {each["product_name"] for each in everything if word in each["product_name"]}
    found = await shop.get(SEARCH, q=word, limit=100)
    top = [hit["product"]["product_name"] for hit in found["hits"]]
    assert set(top) == expected
    assert (found["total"], found["more"], found["corrected"]) == (len(expected), False, False)
    assert all(f"<em>{word}</em>" in hit["highlights"]["product_name"] for hit in found["hits"])
    assert sum(number for _, number in found["facets"]["brand"]) == len(expected)
    assert [number for _, number in found["facets"]["brand"]] == sorted(
        (number for _, number in found["facets"]["brand"]), reverse=True
    )
    # All words must be there; a stem finds other forms of a word; case does not count.
    one = next(each for each in everything if word in each["product_name"])
    assert (await names(shop, one["product_name"].upper()))[0] == one["product_name"]
    assert await names(shop, f"{word} nonexistentword") == []
    assert set(await names(shop, f"{word.lower()}s", limit=100)) >= expected


async def test_one_wrong_letter_still_finds__PR_19(shop_of: OpenShop) -> None:
    shop = await shop_of(pages=60)
    await shop.crawl(sitemap=shop.site.url("/sitemap.xml"))
    product = next(each for each in await shop.get("/products", limit=100) if "Blanket" in each["product_name"])
    right = set(await names(shop, "blanket", limit=100))
    assert product["product_name"] in right
    for wrong in ("blnket", "blankett", "blamket", "balnket", "Blanjet"):
        found = await shop.get(SEARCH, q=wrong, limit=100)
        assert found["corrected"], wrong
        assert {hit["product"]["product_name"] for hit in found["hits"]} == right
    assert await names(shop, "blamjet") == []  # two edits


async def test_a_search_is_filtered_and_paged__PR_18(shop_of: OpenShop) -> None:
    shop = await shop_of(pages=60)
    await shop.crawl(sitemap=shop.site.url("/sitemap.xml"))
    everything = await shop.get(SEARCH, q="collection", limit=100)  # in every description
    assert everything["total"] == 60
    cheap = await shop.get(SEARCH, q="collection", max_price=700, availability="in_stock", limit=100)
    fits = [
        hit["product"]["id"]
        for hit in everything["hits"]
        if float(hit["product"]["price"]) <= 700 and hit["product"]["availability"] == "in_stock"
    ]
    assert sorted(hit["product"]["id"] for hit in cheap["hits"]) == sorted(fits)
    pages, cursor = [], None
    while True:
        part = await shop.get(SEARCH, q="collection", limit=25, **({"cursor": cursor} if cursor else {}))
        pages += [hit["product"]["id"] for hit in part["hits"]]
        if (cursor := part["next_cursor"]) is None:
            break
    assert pages == [hit["product"]["id"] for hit in everything["hits"]]
    assert (await shop.client.get(f"/api/v1{SEARCH}", params={"q": "!!"})).status_code == 422


async def test_a_change_is_searchable_within_two_seconds_by_the_running_sink__PR_19(shop_of: OpenShop) -> None:
    shop = await shop_of(pages=120)
    numbers = itertools.count(101)  # a product's number is a word of its name, and such a high one of no other

    async def searchable() -> float:
        number = next(numbers)
        assert not await indexed(shop, str(number))
        await shop.ended(await shop.submit(urls=[shop.site.product_url(number)]))
        began = time.monotonic()
        async with asyncio.timeout(60):
            while not await indexed(shop, str(number)):
                await asyncio.sleep(0.02)
        return time.monotonic() - began

    async with shop.app.engine():
        assert await names(shop, "collection") == [], "the first search makes the index"
        await assert_soon(searchable, 2.0)


async def test_the_index_is_rebuilt_and_made_anew_when_its_definition_changed__PR_19(shop_of: OpenShop) -> None:
    shop = await shop_of(pages=12)
    await shop.crawl(sitemap=shop.site.url("/sitemap.xml"))
    assert len(await names(shop, "collection")) == 12
    await shop.app.database.write("DELETE FROM search_items")
    assert await names(shop, "collection") == []
    rebuilt = await shop.client.post("/api/v1/products/search/rebuild")
    assert rebuilt.json()["data"] == {"left": 0}
    assert len(await names(shop, "collection")) == 12
    # A program with another definition creates the index anew; the same definition leaves it as it is.
    await shop.app.database.write("DELETE FROM search_items")
    await index_of(Product, shop.app.database).ensure()
    assert await names(shop, "collection") == []
    await shop.app.database.write("UPDATE search_indexes SET definition = 'of an earlier version'")
    await index_of(Product, shop.app.database).ensure()
    assert len(await names(shop, "collection")) == 12


async def test_words_are_found_without_their_accents_and_marked_as_they_are_written__PR_19(shop_of: OpenShop) -> None:
    shop = await shop_of(pages=2)
    await shop.crawl(urls=[shop.site.product_url(1)])
    await shop.app.database.write("UPDATE items SET product_name = 'Café-Müller Übergröße/T-Shirt', brand = 'Кафе'")
    await shop.client.post("/api/v1/products/search/rebuild")
    for q, marked in (("cafe", "Café"), ("MÜLLER", "Müller"), ("übergröße", "Übergröße"), ("shirts", "Shirt")):
        (hit,) = (await shop.get(SEARCH, q=q))["hits"]
        assert f"<em>{marked}</em>" in hit["highlights"]["product_name"], q
    assert (await names(shop, "Кафе")) != []
    assert (await names(shop, "mulle")) != []  # one letter is missing


async def test_no_question_breaks_the_search_and_no_markup_gets_out__S16__S19(shop_of: OpenShop) -> None:
    shop = await shop_of(pages=2)
    await shop.crawl(urls=[shop.site.product_url(1)])
    await shop.app.database.write("UPDATE items SET product_name = 'Oak <script>alert(1)</script> & Table'")
    await shop.client.post("/api/v1/products/search/rebuild")
    for q in (
        '"',
        "oak'",
        "oak OR table",
        "oak*",
        "NEAR(oak table)",
        "oak) OR (1=1",
        "{oak}",
        "oak:A",
        "\\",
        "a & b | c !d",
        "-oak",
        "%",
    ):
        answered = await shop.client.get(f"/api/v1{SEARCH}", params={"q": q})
        assert answered.status_code in (200, 422), (q, answered.text)
    (hit,) = (await shop.get(SEARCH, q="script"))["hits"]
    assert hit["highlights"]["product_name"].count("<script>") == 0
    assert "&lt;<em>script</em>&gt;" in hit["highlights"]["product_name"]
