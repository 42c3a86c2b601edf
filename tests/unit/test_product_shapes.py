"""Shapes in which shops show a price or mark a product up: one small page for each."""

import json
from decimal import Decimal
from typing import Any

import pytest

from forager.extract.html.document import Document
from forager.extract.products.findings import ProductFindings
from forager.extract.products.parsers import base

PROSE = "<p>" + "A chair of walnut, made with care in a small shop. " * 6 + "</p>"
RED = {"@type": "Product", "name": "Walnut Chair, red", "offers": {"price": "80", "priceCurrency": "EUR"}}
BLUE = {"@type": "Product", "name": "Walnut Chair, blue", "offers": {"price": "90", "priceCurrency": "EUR"}}


def read(body: str, head: str = "") -> ProductFindings:
    page = f"<title>Walnut Chair | Shop</title>{head}<body><h1>Walnut Chair</h1>{body}{PROSE}</body>"
    return base.parser.read(Document(page, "https://shop.example/p/1"))


def marked(*nodes: dict[str, Any]) -> str:
    return f'<script type="application/ld+json">{json.dumps({"@graph": nodes})}</script>'


@pytest.mark.parametrize(
    ("shown", "price", "currency"),
    [
        ("<span class=old-price>39,99 €</span> <span class=special-price>29,99 €</span>", "29.99", "EUR"),
        ("<span style='text-decoration: line-through'>39,99 €</span> <b>29,99 €</b>", "29.99", "EUR"),
        ("statt 49,99 € nur 39,99 €", "39.99", "EUR"),
        ("12x de R$ 108,33<br>R$ 1.299,90 à vista", "1299.90", "BRL"),
        ("$100.00 or 4 interest-free payments of $25.00", "100.00", None),
        ("$29.99 Save $10.00", "29.99", None),
        ("$100.00 Free shipping over $50", "100.00", None),
        ("€25.98 / kg<br>€12.99", "12.99", "EUR"),
        ("€25.98 / kg", "25.98", "EUR"),
        ("<span>$</span><span>19</span><sup>99</sup>", "19.99", None),
        ("<span>19</span><span class=price-cents>99</span> €", "19.99", "EUR"),
    ],
)
def test_the_price_is_what_a_buyer_pays(shown: str, price: str, currency: str | None) -> None:
    findings = read(f"<div class=price>{shown}</div><button>Add to cart</button>")
    assert (findings.get("price"), findings.get("currency")) == (Decimal(price), currency)


def test_a_currency_may_stand_in_the_price_specification() -> None:
    listed = {"priceType": "https://schema.org/ListPrice", "price": "79.90", "priceCurrency": "CHF"}
    offer = {"@type": "Offer", "priceSpecification": [listed, {"price": "59.90", "priceCurrency": "CHF"}]}
    findings = read("", marked({"@type": "Product", "name": "Walnut Chair", "offers": offer}))
    assert (findings.get("price"), findings.get("currency")) == (Decimal("59.90"), "CHF")


@pytest.mark.parametrize("names", [("Walnut Chair", "Walnut Chair"), ("Walnut Chair, blue", "Walnut Chair, blue")])
def test_a_group_goes_before_its_variants_unless_the_page_is_that_of_one(names: tuple[str, str]) -> None:
    headline, expected = names
    variants = [{**RED, "@id": "#red"}, {**BLUE, "@id": "#blue"}]
    group = {"@type": "ProductGroup", "name": "Walnut Chair", "hasVariant": [{"@id": "#red"}, {"@id": "#blue"}]}
    page = f"<title>{headline}</title>{marked(*variants, group)}<body><h1>{headline}</h1>{PROSE}</body>"
    findings = base.parser.read(Document(page, "https://shop.example/p/1"))
    assert findings.get("product_name") == expected
    assert findings.get("price") == Decimal(90 if headline == "Walnut Chair, blue" else 80)


@pytest.mark.parametrize("written", ["1.204", "1,204", "1 204", "1204"])
def test_a_number_of_reviews_may_be_grouped(written: str) -> None:
    rating = {"ratingValue": "4,5", "reviewCount": written}
    findings = read("", marked({"@type": "Product", "name": "Walnut Chair", "aggregateRating": rating, "sku": "W1"}))
    assert findings.get("review_count") == 1204


BUTTON = "<button>Add to cart</button>"
OTHERS = "".join(f"<li><h3>Chair {number}</h3><p>${number}9.00</p>{BUTTON}</li>" for number in range(1, 9))


def test_buttons_of_related_products_make_no_list_of_a_products_page() -> None:
    findings = read(f"<p>$129.00</p>{BUTTON}<h2>You may also like</h2><ul>{OTHERS}</ul>")
    assert (findings.is_product, findings.get("price")) == (True, Decimal("129.00"))
    assert not read(f"<ul>{OTHERS}</ul><h2>You may also like</h2><ul>{OTHERS}</ul>").is_product


def test_the_headline_of_another_part_of_the_page_is_no_products_name() -> None:
    headlines = "<h1>Shipping information</h1><h1>Walnut Chair</h1>"
    page = Document(f"<title>Shop</title><body>{headlines}<p>$129.00</p>{BUTTON}{PROSE}", "https://shop.example/p/1")
    assert base.parser.read(page).get("product_name") == "Walnut Chair"
