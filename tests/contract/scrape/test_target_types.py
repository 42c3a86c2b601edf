"""Products and listings through the service, with the values that are sure enough."""

import json

import pytest

from forager.sandbox.scrape_pages import SiteAnswer
from tests.support.scrape import Service

OFFERS = {"price": "129.00", "priceCurrency": "EUR", "availability": "https://schema.org/InStock"}
LAMP = (
    f'<script type="application/ld+json">{json.dumps({"@type": "Product", "name": "Ida", "offers": OFFERS})}</script>'
)
HOME = (
    "<title>5 Mill Lane, Leeds</title><h1>5 Mill Lane, Leeds</h1><p>£325,000</p><p>3 beds</p><p>"
    + "A house of stone with a garden to the south. " * 5
)


@pytest.mark.parametrize(
    ("target_type", "html", "expected"),
    [
        ("product", LAMP, {"product_name": "Ida", "price": "129.00", "currency": "EUR", "availability": "in_stock"}),
        ("listing", HOME, {"price": "325000", "bedrooms": "3", "street": "5 Mill Lane", "city": "Leeds"}),
    ],
)
async def test_a_product_and_a_listing_are_read_like_any_other_target(
    simple: Service, target_type: str, html: str, expected: dict[str, str]
) -> None:
    simple.site.answers["/item"] = SiteAnswer(200, html.encode())
    answer = await simple.sync("/item", target_type=target_type, render="http")
    assert answer.status_code == 200, answer.text
    assert expected.items() <= answer.json()["data"]["result"].items()


async def test_values_below_the_wanted_confidence_are_null(simple: Service) -> None:
    simple.site.answers["/item"] = SiteAnswer(200, HOME.encode())
    answer = await simple.sync("/item", target_type="listing", render="http", min_confidence=0.75)
    data = answer.json()["data"]
    assert (data["result"]["city"], data["result"]["bedrooms"]) == ("Leeds", None)
    refused = await simple.sync("/item", target_type="listing", min_confidence=2)
    assert (refused.status_code, refused.json()["meta"]["fields"][0]["field"]) == (422, "min_confidence")
