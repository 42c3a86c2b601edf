"""Full-text search over the catalogue: the same on SQLite, on PostgreSQL and in an external index."""

import asyncio
import itertools
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from forager.core.sink import Batching
from forager.engine.deliver import DeliveryTiming
from forager.pipelines.products.records import Product
from forager.sdk.search import index_of
from forager.sinks.elasticsearch import client
from forager.sinks.elasticsearch.wiring import ElasticsearchSink
from tests.support import elastic
from tests.support.search_backends import InCluster, InStore, OpenSearchShop, shops
from tests.support.time_limits import assert_soon


@pytest.fixture(params=["sqlite", "postgres", "elasticsearch"])
async def shop_of(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[OpenSearchShop]:
    """`await shop_of(pages=10)`: a shop whose products are searched in each of these ways. The third is a stand-in,
    beside SQLite; `tests/servers/test_opensearch.py` runs these tests on a real cluster."""
    url = request.getfixturevalue("app_postgres_url") if request.param == "postgres" else None
    backend = InCluster(elastic.standin().url) if request.param == "elasticsearch" else InStore()
    async with AsyncExitStack() as stack:
        yield shops(stack, backend, tmp_path, url)


async def test_products_are_found_by_their_words_best_first_with_facets__PR_18__PR_19(shop_of: OpenSearchShop) -> None:
    shop = await shop_of(pages=60, categories=4)
    await shop.crawl(sitemap=shop.site.url("/sitemap.xml"))
    everything = await shop.get("/products", limit=100)
    kinds = [each["product_name"].split()[1] for each in everything]  # what it is: Table, Lamp …
    word = next(kind for kind in kinds if not any(kind in each["category"] for each in everything))
    expected = {each["product_name"] for each in everything if word in each["product_name"]}
    found = await shop.found(word, limit=100)
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
    assert (await shop.names(one["product_name"].upper()))[0] == one["product_name"]
    assert await shop.names(f"{word} nonexistentword") == []
    assert set(await shop.names(f"{word.lower()}s", limit=100)) >= expected


async def test_one_wrong_letter_still_finds__PR_19(shop_of: OpenSearchShop) -> None:
    shop = await shop_of(pages=60)
    await shop.crawl(sitemap=shop.site.url("/sitemap.xml"))
    product = next(each for each in await shop.get("/products", limit=100) if "Blanket" in each["product_name"])
    right = set(await shop.names("blanket", limit=100))
    assert product["product_name"] in right
    for wrong in ("blnket", "blankett", "blamket", "balnket", "Blanjet"):
        found = await shop.found(wrong, limit=100)
        assert found["corrected"], wrong
        assert {hit["product"]["product_name"] for hit in found["hits"]} == right
    assert await shop.names("blamjet") == []  # two edits


async def test_a_search_is_filtered_and_paged__PR_18(shop_of: OpenSearchShop) -> None:
    shop = await shop_of(pages=60)
    await shop.crawl(sitemap=shop.site.url("/sitemap.xml"))
    everything = await shop.found("collection", limit=100)  # in every description
    assert everything["total"] == 60
    cheap = await shop.found("collection", max_price=700, availability="in_stock", limit=100)
    fits = [
        hit["product"]["id"]
        for hit in everything["hits"]
        if float(hit["product"]["price"]) <= 700 and hit["product"]["availability"] == "in_stock"
    ]
    assert sorted(hit["product"]["id"] for hit in cheap["hits"]) == sorted(fits)
    pages, cursor = [], None
    while True:
        part = await shop.found("collection", limit=25, **({"cursor": cursor} if cursor else {}))
        pages += [hit["product"]["id"] for hit in part["hits"]]
        if (cursor := part["next_cursor"]) is None:
            break
    assert pages == [hit["product"]["id"] for hit in everything["hits"]]
    assert (await shop.client.get("/api/v1/products/search", params={"q": "!!"})).status_code == 422


async def test_a_change_is_searchable_within_two_seconds_by_the_running_sink__PR_19(shop_of: OpenSearchShop) -> None:
    shop = await shop_of(pages=120)
    numbers = itertools.count(101)  # a product's number is a word of its name, and such a high one of no other

    async def searchable() -> float:
        number = next(numbers)
        assert not await shop.has(str(number))
        await shop.ended(await shop.submit(urls=[shop.site.product_url(number)]))
        began = time.monotonic()
        async with asyncio.timeout(60):
            while not await shop.has(str(number)):
                await asyncio.sleep(0.02)
        return time.monotonic() - began

    async with shop.app.engine():
        assert await shop.names("collection") == [], "the first search makes the index"
        await assert_soon(searchable, 2.0)


def test_a_change_is_searchable_within_two_seconds_of_its_commit__PR_19() -> None:
    """The maximum wait of a change: the next look at the log, and for a cluster its next refresh."""
    looks = DeliveryTiming().look_every
    assert looks + Batching().age <= 1
    refresh = float(client.SETTINGS["index"]["refresh_interval"].removesuffix("s"))
    assert looks + ElasticsearchSink.batching.age + refresh <= 2


async def test_the_index_is_rebuilt__PR_19(shop_of: OpenSearchShop) -> None:
    shop = await shop_of(pages=12)
    await shop.crawl(sitemap=shop.site.url("/sitemap.xml"))
    assert len(await shop.names("collection")) == 12
    await shop.empty()
    assert await shop.names("collection") == []
    await shop.rebuild()
    assert len(await shop.names("collection")) == 12


@pytest.mark.parametrize("shop_of", ["sqlite", "postgres"], indirect=True)  # the third: sinks/test_elasticsearch.py
async def test_the_index_in_the_store_is_rebuilt_when_its_definition_changed__PR_19(
    shop_of: OpenSearchShop,
) -> None:
    shop = await shop_of(pages=12)
    await shop.crawl(sitemap=shop.site.url("/sitemap.xml"))
    assert len(await shop.names("collection")) == 12
    await shop.empty()
    await index_of(Product, shop.app.database).ensure()
    assert await shop.names("collection") == []
    await shop.app.database.write("UPDATE search_indexes SET definition = 'of an earlier version'")
    await index_of(Product, shop.app.database).ensure()
    assert len(await shop.names("collection")) == 12


@pytest.mark.parametrize("shop_of", ["sqlite", "postgres"], indirect=True)
async def test_changed_products_and_new_ones_are_indexed_together_and_each_once__PR_19(
    shop_of: OpenSearchShop, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop = await shop_of(pages=12)
    await shop.crawl(sitemap=shop.site.url("/sitemap.xml"))
    assert len(await shop.names("collection")) == 12
    await shop.empty()
    database = shop.app.database
    rows = await database.fetch("SELECT id, url_hash FROM items ORDER BY id")
    await database.write("UPDATE search_indexes SET filled = :id", {"id": rows[8]["id"]})
    index, indexed = index_of(Product, database), 0
    put = type(index.store).put

    async def counted(store: Any, condition: str, values: dict[str, Any]) -> None:
        nonlocal indexed
        (row,) = await database.fetch(f"SELECT count(*) AS number FROM items WHERE {condition}", values)
        indexed += row["number"]
        await put(store, condition, values)

    monkeypatch.setattr(type(index.store), "put", counted)
    await index.put([row["url_hash"] for row in (rows[0], rows[1], rows[9], rows[11])])
    assert len(await shop.names("collection")) == 5
    assert indexed == 5


async def test_words_are_found_without_their_accents_and_marked_as_they_are_written__PR_19(
    shop_of: OpenSearchShop,
) -> None:
    shop = await shop_of(pages=2)
    await shop.crawl(urls=[shop.site.product_url(1)])
    await shop.app.database.write("UPDATE items SET product_name = 'Café-Müller Übergröße/T-Shirt', brand = 'Кафе'")
    await shop.rebuild()
    for q, marked in (("cafe", "Café"), ("MÜLLER", "Müller"), ("übergröße", "Übergröße"), ("shirts", "Shirt")):
        (hit,) = (await shop.found(q))["hits"]
        assert f"<em>{marked}</em>" in hit["highlights"]["product_name"], q
    assert (await shop.names("Кафе")) != []
    assert (await shop.names("mulle")) != []  # one letter is missing


async def test_no_question_breaks_the_search_and_no_markup_gets_out__S16__S19(shop_of: OpenSearchShop) -> None:
    shop = await shop_of(pages=2)
    await shop.crawl(urls=[shop.site.product_url(1)])
    await shop.app.database.write("UPDATE items SET product_name = 'Oak <script>alert(1)</script> & Table'")
    await shop.rebuild()
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
        answered = await shop.client.get("/api/v1/products/search", params={"q": q})
        assert answered.status_code in (200, 422), (q, answered.text)
    (hit,) = (await shop.found("script"))["hits"]
    assert hit["highlights"]["product_name"].count("<script>") == 0
    assert "&lt;<em>script</em>&gt;" in hit["highlights"]["product_name"]
