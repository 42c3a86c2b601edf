"""Values that a page's scripts hold about its product, and the article number that the page itself shows."""

import json

import pytest

from forager.extract.html.document import Document
from forager.extract.products.findings import CONFIDENCE, ProductFindings
from forager.extract.products.parsers.base import read

pytestmark = pytest.mark.one_store

SHOWN = "<h1>Blue lamp</h1><span class='price'>€ 19.90</span><p>by Acme</p><button>Add to cart</button>"


def page(script: str, body: str = SHOWN, head: str = "") -> ProductFindings:
    html = f"<html><head><title>Blue lamp</title>{head}</head><body>{body}<script>{script}</script></body></html>"
    return read(Document(html, "https://shop.example/p/blue-lamp"))


def pushed(**item: object) -> str:
    return f"dataLayer.push({{event: 'view', items: [{json.dumps(item)}]}})"


def test_an_object_with_the_product_s_name_gives_number_brand_and_stock() -> None:
    found = page(pushed(name="Blue lamp", sku="BL-77", brand="Acme", price="19.90", available=True))
    assert (found.get("sku"), found.get("brand"), found.get("availability")) == ("BL-77", "Acme", "in_stock")
    assert found.values["sku"].source == "script"
    assert found.values["sku"].confidence == CONFIDENCE["script"] < CONFIDENCE["meta"]


def test_an_object_of_another_product_gives_nothing() -> None:
    found = page(pushed(name="Red chair", sku="RC-1", brand="Acme"))
    assert "sku" not in found
    assert "brand" not in found


def test_objects_that_contradict_each_other_give_nothing() -> None:
    found = page(pushed(name="Blue lamp", sku="BL-77") + ";" + pushed(name="Blue lamp", sku="BL-78"))
    assert "sku" not in found


def test_a_brand_and_a_price_that_the_page_does_not_show_are_not_given() -> None:
    shown = "<h1>Blue lamp</h1><p>by Acme, for € 19.90</p><button>Add to cart</button>"
    found = page(pushed(name="Blue lamp", brand="Hidden Works", price=1990), shown)
    assert "brand" not in found
    assert found.get("price") != 1990


def test_one_variant_in_stock_is_enough() -> None:
    variants = ";".join(pushed(name="Blue lamp", sku="BL-77", available=each) for each in (False, True))
    assert page(variants).get("availability") == "in_stock"


@pytest.mark.parametrize(
    "script", ['x = {"name": "Blue lamp"', '{"name":"Blue lamp","sku":', "[[[" * 1000 + '"Blue lamp"']
)
def test_a_broken_script_is_no_failure(script: str) -> None:
    assert page(script).get("product_name") == "Blue lamp"


def marked(sku: str) -> str:
    offers = {"@type": "Offer", "price": "19.90", "priceCurrency": "EUR", "availability": "InStock"}
    data = {"@type": "Product", "name": "Blue lamp", "sku": sku, "offers": offers}
    return f"<script type='application/ld+json'>{json.dumps(data)}</script>"


def test_a_shown_article_number_beats_one_that_only_the_markup_has() -> None:
    found = page("", SHOWN + "<p class='prd-code'>Product code: 141677</p>", marked("10134622"))
    assert found.get("sku") == "141677"
    assert [each.value for each in found.others["sku"]] == ["10134622"]


def test_a_number_of_the_markup_stays_if_shown_and_is_less_sure_if_not() -> None:
    shown = page("", SHOWN + "<p>Number 10134622</p><p class='prd-code'>141677</p>", marked("10134622"))
    hidden = page("", SHOWN, marked("10134622"))
    assert shown.get("sku") == hidden.get("sku") == "10134622"
    assert hidden.values["sku"].confidence < 0.9 < shown.values["sku"].confidence


def test_several_shown_numbers_are_of_several_products() -> None:
    found = page("", SHOWN + "<p class='sku'>A-100</p><p class='sku'>A-200</p>", marked("10134622"))
    assert found.get("sku") == "10134622"


DISCOUNTED = "<h1>Blue lamp</h1><p><span>EUR219.99</span> <b>-50%</b></p><p>EUR{}</p><button>Add to cart</button>"


def priced(price: str) -> str:
    data = {
        "@type": "Product",
        "name": "Blue lamp",
        "offers": {"@type": "Offer", "price": price, "priceCurrency": "EUR"},
    }
    return f"<script type='application/ld+json'>{json.dumps(data)}</script>"


def test_the_price_that_a_discount_leaves_holds_before_the_one_of_the_markup() -> None:
    found = page("", DISCOUNTED.format("110.00"), priced("219.99"))
    assert (str(found.get("price")), found.get("currency")) == ("110.00", "EUR")
    assert found.metadata["regular_price"] == "219.99"
    assert found.values["price"].confidence < 0.9


@pytest.mark.parametrize("other", ["12.50", "219.99", "180.00"])
def test_an_amount_that_the_discount_does_not_leave_is_not_today_s_price(other: str) -> None:
    assert str(page("", DISCOUNTED.format(other), priced("219.99")).get("price")) == "219.99"


def test_a_discount_on_another_product_changes_nothing() -> None:
    others = "<p>EUR50.00 <b>-50%</b></p><p>EUR25.00</p>"
    assert str(page("", SHOWN + others, priced("19.90")).get("price")) == "19.90"


def test_a_brand_of_the_markup_that_the_page_does_not_show_is_less_sure() -> None:
    data = {"@type": "Product", "name": "Blue lamp", "sku": "1", "brand": "Acm", "offers": {"price": "19.90"}}
    hidden = page("", SHOWN, f"<script type='application/ld+json'>{json.dumps(data)}</script>")
    shown = page("", SHOWN, f"<script type='application/ld+json'>{json.dumps({**data, 'brand': 'ACME'})}</script>")
    assert hidden.values["brand"].confidence < 0.9 < shown.values["brand"].confidence
