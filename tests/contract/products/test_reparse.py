"""Stored pages are parsed again without the network: first what would change is shown, then it is written."""

from dataclasses import replace
from pathlib import Path

import pytest

from forager.client.connect import LocalTransport
from forager.extract.html.document import Document
from forager.extract.products.findings import ProductFindings
from forager.extract.products.parsers import base
from forager.pipelines.products.cli.health import unused_candidates
from forager.sdk.cli.client import Api
from forager.sdk.cli.invocation import Reached
from tests.support.api import KEY
from tests.support.shop import OpenShop

REPARSE = "/api/v1/products/reparse"
COMPARE = "/api/v1/products/parsers/compare"
PAGES = 60
CANDIDATE = """
from dataclasses import replace

from forager.extract.products.parsers import base


def read(document):
    found = base.read(document)
    {change}
    return found


parser = replace(base.parser, version=99, read=read)
"""


async def test_what_another_parse_would_change_is_shown_by_field_and_then_written__PR_16(
    shop_of: OpenShop, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = True

    def read(document: Document) -> ProductFindings:
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
        await shop.client.post(REPARSE, json={"domain": f"127.0.0.1:{shop.site.port}", "parser_version": 999})
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


async def test_two_parsers_are_compared_by_field_and_the_winner_is_decided_by_rule__PR_24(
    shop_of: OpenShop, tmp_path: Path
) -> None:
    candidate = tmp_path / "worse.py"
    candidate.write_text(CANDIDATE.format(change="found.values.pop('sku', None)"))
    shop = await shop_of(pages=PAGES, settings={"product_parser_candidates": (str(candidate),)})
    await shop.crawl(urls=[shop.site.product_url(n) for n in range(1, PAGES + 1)])
    fetched = shop.site.log.total
    before = await shop.product(1)
    told = (await shop.client.post(COMPARE, json={"sample": 500})).json()["data"]
    assert (told["source"], told["pages"], told["broken"], told["missing_pages"]) == ("stored", PAGES, 0, 0)
    assert told["parsers"] == ["base/99"]
    assert told["against"] == [f"base/{base.parser.version}"]
    fields = {each["field"]: each for each in told["fields"]}
    assert (fields["sku"]["missing"], fields["sku"]["agreement"], fields["sku"]["verdict"]) == (PAGES, 0.0, "worse")
    assert (fields["price"]["agree"], fields["price"]["agreement"], fields["price"]["verdict"]) == (PAGES, 1.0, "same")
    assert len(fields["sku"]["examples"]) == 3
    assert told["winner"] == "current"
    assert told["reasons"] == [f"worse: sku (-{PAGES} of {PAGES} pages)"]
    swapped = await shop.client.post(COMPARE, json={"parser": "current", "against": "new"})
    assert swapped.json()["data"]["winner"] == "candidate"
    assert shop.site.log.total == fetched, "nothing was fetched"
    assert await shop.product(1) == before, "and nothing was written"
    refused = await shop.client.post(COMPARE, json={"parser": "nosuch"})
    assert refused.status_code == 422
    assert refused.json()["meta"]["fields"][0]["field"] == "parser"


async def test_a_candidate_runs_in_the_shadow_of_production_and_changes_nothing__PR_24(
    shop_of: OpenShop, tmp_path: Path
) -> None:
    candidate = tmp_path / "other.py"
    change = "found.values['brand'] = replace(found.values['brand'], value='Other', confidence=0.99)"
    candidate.write_text(CANDIDATE.format(change=change))
    shop = await shop_of(pages=PAGES, settings={"product_parser_candidates": (str(candidate),)})
    await shop.crawl(urls=[shop.site.product_url(n) for n in range(1, PAGES + 1)])
    product = await shop.product(1)
    assert (product["brand"], product["parser_version"]) == (shop.site.product(1).brand, base.parser.version)
    told = (await shop.client.post(COMPARE, json={"shadow": True})).json()["data"]
    assert (told["source"], told["pages"], told["parsers"]) == ("shadow", PAGES, ["base/99"])
    fields = {each["field"]: each for each in told["fields"]}
    assert (fields["brand"]["stronger"], fields["brand"]["verdict"]) == (PAGES, "better")
    assert (told["winner"], told["reasons"]) == ("candidate", [f"better: brand (+{PAGES} of {PAGES} pages)"])


async def test_a_candidate_that_raises_errors_costs_the_page_nothing__PR_24(shop_of: OpenShop, tmp_path: Path) -> None:
    candidate = tmp_path / "broken.py"
    candidate.write_text(CANDIDATE.format(change="raise RuntimeError('broken')"))
    shop = await shop_of(pages=PAGES, settings={"product_parser_candidates": (str(candidate),)})
    job = await shop.crawl(urls=[shop.site.product_url(n) for n in range(1, PAGES + 1)])
    assert (job["completed"], job["failed"]) == (PAGES, 0)
    told = (await shop.client.post(COMPARE, json={"shadow": True})).json()["data"]
    assert (told["broken"], told["winner"]) == (PAGES, "current")


async def test_without_a_candidate_the_error_names_how_to_add_one__PR_24(shop_of: OpenShop) -> None:
    shop = await shop_of(pages=1, settings={"product_shadow_share": 0.0})
    await shop.crawl(urls=[shop.site.product_url(1)])
    for body in ({}, {"shadow": True}):
        answered = await shop.client.post(COMPARE, json=body)
        assert answered.status_code == 404
        assert "FORAGER_PRODUCT_PARSER_CANDIDATES" in answered.json()["error"]


@pytest.mark.one_store
async def test_candidates_that_a_running_forager_does_not_have_are_named__PR_24(
    shop_of: OpenShop, tmp_path: Path
) -> None:
    file = tmp_path / "harbour.py"
    file.write_text(CANDIDATE.format(change="pass"))
    shop = await shop_of(pages=1, settings={"product_parser_candidates": (str(file),)})
    served = LocalTransport(shop.client._transport.app)  # type: ignore[attr-defined]
    beside = Reached(Api(served, KEY))
    assert await unused_candidates(beside, "") is None
    assert await unused_candidates(beside, str(file)) is None
    message = await unused_candidates(beside, "./other.py")
    assert message is not None
    assert "FORAGER_PRODUCT_PARSER_CANDIDATES is ./other.py for this command" in message
    assert f"there it is {file}. Restart `forager up` with the same value" in message
