"""Stored pages are parsed again without the network: first what would change is shown, then it is written."""

from dataclasses import replace

import pytest

from forager.extract.document import Document
from forager.extract.products.findings import Findings
from forager.extract.products.parsers import base
from tests.support.shop import OpenShop

REPARSE = "/api/v1/products/reparse"


async def test_what_another_parse_would_change_is_shown_by_field_and_then_written__PR_16(
    shop_of: OpenShop, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = True

    def read(document: Document) -> Findings:
        found = base.read(document)
        if old:
            del found.values["brand"]
            found.values["product_name"] = replace(found.values["product_name"], value="Nameless")
        else:
            found.values.pop("sku", None)
        return found

    monkeypatch.setattr(base, "parser", replace(base.parser, read=read))
    shop = await shop_of(pages=9)
    await shop.crawl(urls=[shop.site.product_url(n) for n in range(1, 10)])
    fetched = shop.site.log.total
    old = False
    compared = (await shop.client.post(REPARSE, json={"domain": f"127.0.0.1:{shop.site.port}"})).json()["data"]
    assert (compared["pages"], compared["unreadable"], compared["more"]) == (9, 0, False)
    fields = {each.pop("field"): each for each in compared["fields"]}
    assert [fields["brand"][how] for how in ("same", "changed", "lost", "found")] == [0, 0, 0, 9]
    assert [fields["product_name"][how] for how in ("same", "changed", "lost", "found")] == [0, 9, 0, 0]
    assert [fields["sku"][how] for how in ("same", "changed", "lost", "found")] == [0, 0, 9, 0]
    assert [fields["price"][how] for how in ("same", "changed", "lost", "found")] == [9, 0, 0, 0]
    assert len(fields["brand"]["examples"]) == 3
    assert "Nameless → " in fields["product_name"]["examples"][0]
    before = await shop.product(1)
    assert before["product_name"] == "Nameless"  # nothing was written

    applied = (await shop.client.post(REPARSE, json={"domain": f"127.0.0.1:{shop.site.port}", "apply": True})).json()[
        "data"
    ]
    assert applied["pages"] == 9
    await shop.work()
    after = await shop.product(1)
    assert after["product_name"] == shop.site.product(1).name
    assert after["brand"] == shop.site.product(1).brand
    assert after["sku"] == before["sku"]  # lost values are kept, and marked
    assert "sku" in after["unseen"]
    assert shop.site.log.total == fetched
    again = (
        await shop.client.post(REPARSE, json={"domain": f"127.0.0.1:{shop.site.port}", "parser_version": 7})
    ).status_code
    assert again == 404


async def test_a_sample_is_compared_and_pages_that_are_lost_are_counted__PR_16(shop_of: OpenShop) -> None:
    shop = await shop_of(pages=5)
    await shop.crawl(urls=[shop.site.product_url(n) for n in range(1, 6)])
    await shop.app.database.write(
        "UPDATE pages SET html = :lost WHERE url = :url",
        {"lost": "blob:" + "0" * 40, "url": shop.site.product_url(5)},
    )
    all_of_them = (await shop.client.post(REPARSE, json={"domain": f"127.0.0.1:{shop.site.port}"})).json()["data"]
    assert (all_of_them["pages"], all_of_them["unreadable"]) == (5, 1)
    some = (await shop.client.post(REPARSE, json={"domain": f"127.0.0.1:{shop.site.port}", "sample": 3})).json()["data"]
    assert (some["pages"], some["more"]) == (3, True)
    assert (await shop.client.post(REPARSE, json={"domain": "nowhere.example"})).status_code == 404
