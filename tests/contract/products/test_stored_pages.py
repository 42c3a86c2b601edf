"""Pages are stored before they are parsed: a parser's fault costs no download, and what is gone is observed."""

from dataclasses import replace
from pathlib import Path

import pytest

from forager.extract.document import Document
from forager.extract.products.findings import Findings
from forager.extract.products.parsers import base
from tests.support.shop import OpenShop

pytestmark = pytest.mark.one_store  # pages are files, parsers are pure

DAY = 86_400


def damage(blobs: Path) -> None:
    """Overwrite every stored page with zeros."""
    for file in blobs.rglob("*"):
        if file.is_file() and not file.name.startswith("index"):
            file.write_bytes(bytes(file.stat().st_size))


async def test_a_parser_that_breaks_costs_no_second_download__PR_4(
    shop_of: OpenShop, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = True

    def read(document: Document) -> Findings:
        if broken:
            raise RuntimeError("the layout has changed")
        return base.read(document)

    monkeypatch.setattr(base, "parser", replace(base.parser, read=read))
    shop = await shop_of(pages=2)
    job = await shop.crawl(urls=[shop.site.product_url(1)])
    assert (job["completed"], job["failed"]) == (1, 1)  # fetched; not parsed
    (dead,) = await shop.get("/dead", job=job["id"])
    assert (dead["kind"], dead["error_type"]) == ("products.parse", "parse")
    assert "the layout has changed" in dead["error"]
    assert await shop.get("/products") == []
    broken = False
    assert (await shop.client.post(f"/api/v1/dead/{dead['id']}/retry")).status_code == 200
    await shop.work()
    assert (await shop.product(1))["product_name"] == shop.site.product(1).name
    assert shop.asked() == ["1"]


async def test_a_stored_page_that_is_lost_is_fetched_again__PR_4(
    shop_of: OpenShop, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = iter([True, False])

    def read(document: Document) -> Findings:
        if next(calls):
            damage(shop.app.settings.home / "blobs")
            raise RuntimeError("not today")
        return base.read(document)

    monkeypatch.setattr(base, "parser", replace(base.parser, read=read))
    shop = await shop_of(pages=2)
    job = await shop.crawl(urls=[shop.site.product_url(1)])
    assert (job["completed"], job["failed"]) == (2, 0)
    assert (await shop.product(1))["product_name"] == shop.site.product(1).name
    assert shop.asked() == ["1", "1"]


@pytest.mark.one_store(False)
@pytest.mark.parametrize("how", ["404", "410"])
async def test_a_product_whose_page_is_gone_is_gone_with_its_evidence__PR_11(shop_of: OpenShop, how: str) -> None:
    shop = await shop_of(pages=4, gone_share=1.0, gone_days=1.0, gone=(how,), change_days=(0, 0))
    urls = [shop.site.product_url(n) for n in range(1, 5)]
    await shop.crawl(urls=urls)
    before = await shop.product(1)
    shop.site.time.advance(2 * DAY)
    for _ in range(2):
        job = await shop.crawl(urls=urls)
        assert job["completed"] == 4
    product = await shop.product(1)
    assert (product["gone_reason"], product["price"]) == ("not_found", before["price"])
    assert product["version"] == before["version"] + 1  # the second 404 tells nothing new
    assert await shop.get("/products") == []
    points = await shop.get(f"/products/{product['id']}/history")
    assert [point["gone"] for point in points] == [True, False]


async def test_a_soft_404_shows_no_product_and_none_of_its_prices__PR_15(shop_of: OpenShop) -> None:
    shop = await shop_of(pages=4, gone_share=1.0, gone_days=1.0, gone=("soft",), change_days=(0, 0))
    await shop.crawl(urls=[shop.site.product_url(1)])
    before = await shop.product(1)
    shop.site.time.advance(2 * DAY)
    await shop.crawl(urls=[shop.site.product_url(1)])
    after = await shop.product(1)
    assert (after["price"], after["version"]) == (before["price"], before["version"])


@pytest.mark.one_store(False)
async def test_a_price_that_cannot_be_right_overwrites_nothing_and_is_kept_with_its_reason__PR_15(
    shop_of: OpenShop, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop = await shop_of(pages=2)
    url = shop.site.product_url(1)
    await shop.crawl(urls=[url])
    before = await shop.product(1)

    def negative(document: Document) -> Findings:
        found = Findings()
        found.add("product_name", before["product_name"], "json-ld")
        found.add("availability", "InStock", "json-ld")
        found.add_price("-5.00", "USD", "json-ld")
        return found

    monkeypatch.setattr(base.parser.__class__, "read", property(lambda self: negative), raising=False)
    job = await shop.crawl(urls=[url])
    after = await shop.product(1)
    assert (after["price"], after["currency"]) == (before["price"], before["currency"])
    assert "price" in after["unseen"]
    (row,) = await shop.get(f"/jobs/{job['id']}/rejected")
    assert "out of range" in row["reason"]


async def test_an_unchanged_page_is_stored_once_and_compressed__PR_14(shop_of: OpenShop) -> None:
    shop = await shop_of(pages=6, change_days=(0, 0))
    urls = [shop.site.product_url(n) for n in range(1, 7)]
    await shop.crawl(urls=urls)
    first = await shop.app.stored_pages.stat()
    await shop.crawl(urls=urls)
    again = await shop.app.stored_pages.stat()
    assert (first.pages, again.pages) == (6, 6)
    assert again.stored == first.stored
    assert again.size is not None
    assert again.stored < again.size / 2
    kept = await shop.app.stored_pages.collect()
    assert kept.kept == 6  # what a page names is not collected
