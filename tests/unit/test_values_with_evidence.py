"""Values that need evidence: places that exist, codes and brands by label and address, stock of the product itself."""

import pytest

from forager.extract.html.document import Document
from forager.extract.listings.reading import read_home
from forager.extract.products.parsers import base
from forager.extract.text.gazetteer import city_named, is_city_in
from forager.extract.text.prices import availability_of
from forager.pipelines.scrape.extractors.posting_page import is_place

pytestmark = pytest.mark.one_store

PAGE = (
    "<html><head><title>Blue lamp</title></head><body><h1>Blue lamp</h1>{}<span>$19.90</span>"
    "<button>Add to cart</button>{}</body></html>"
)


def product(before: str = "", after: str = "", url: str = "https://shop.example/lamp") -> dict[str, object]:
    findings = base.read(Document(PAGE.format(before, after), url))
    return {name: value.value for name, value in findings.values.items()}


def test_cities_are_known_by_their_names_in_many_languages() -> None:
    assert city_named("München") == city_named("MÜNCHEN")
    assert is_city_in("Munich", "DE")
    assert is_city_in("Мюнхен", "DE")
    assert not is_city_in("Munich", "FR")
    assert city_named("Berlin") is not None
    assert city_named("Berlin").countries[0] == "DE"  # type: ignore[union-attr]


@pytest.mark.parametrize("name", ["Enter City", "", "x", "Change Location", "a\tb", "n" * 41, "Hire Movers in Jackson"])
def test_what_is_no_city_is_not_found(name: str) -> None:
    assert city_named(name) is None


@pytest.mark.parametrize(("text", "expected"), [
    ("Change Location", False), ("Enter City", False), ("head", False), ("Odense", True), ("Berlin, Germany", True),
])  # fmt: skip
def test_a_place_of_a_posting_must_be_one(text: str, expected: bool) -> None:
    assert is_place(text) is expected


def test_a_city_out_of_a_title_must_be_one() -> None:
    page = (
        "<title>Flat to rent in {}</title><h1>Nice flat to rent</h1><p>£1,200 pcm</p><p>2 bedrooms</p>"
        + "<p>x</p>" * 60
    )
    assert read_home(Document(page.format("Manchester"))).get("city") == "Manchester"
    assert read_home(Document(page.format("Your Dreams Today"))).get("city") is None


def test_rent_or_sale_is_read_from_the_breadcrumb() -> None:
    body = "<h1>Lovely place</h1><p>€ 900</p><p>2 bedrooms</p>" + "<p>Some words about it.</p>" * 20
    trail = "<div class='breadcrumbs'>Home > {} > Oslo</div>"
    assert read_home(Document(trail.format("Til leie") + body)).get("offer") == "rent"
    assert read_home(Document(trail.format("Til salgs") + body)).get("offer") == "sale"


@pytest.mark.parametrize("label", ["Brand", "Tootja", "Zīmols", "Производитель", "Márka", "メーカー"])
def test_the_brand_is_read_from_a_table_in_many_languages(label: str) -> None:
    assert product(after=f"<table><tr><td>{label}:</td><td>Acme</td></tr></table>")["brand"] == "Acme"


def test_two_pairs_in_one_row_of_a_table_are_two_facts() -> None:
    row = "<table><tr><td>Brand</td><td>Acme</td><td>SKU</td><td>AB-123</td></tr></table>"
    found = product(after=row)
    assert (found["brand"], found["sku"]) == ("Acme", "AB-123")


def test_the_number_of_the_address_is_the_code_if_the_page_has_it_as_well() -> None:
    url = "https://shop.example/itm/143863282131"
    assert product(after="<div data-id='143863282131'></div>", url=url)["sku"] == "143863282131"
    assert "sku" not in product(url=url)
    assert product(after="<div data-sku='AB-7788'></div>")["sku"] == "AB-7788"


def test_the_stock_of_one_size_or_of_other_products_is_not_that_of_the_product() -> None:
    assert product(before="<li>Size 42 - sold out</li>")["availability"] == "in_stock"
    assert product(before="<p>Sold out</p>")["availability"] == "out_of_stock"


def test_a_bid_and_a_month_s_instalment_are_no_price_if_there_is_another() -> None:
    assert str(product(before="<p>$4.99 / month</p>")["price"]) == "19.90"
    assert str(product(before="<p>Current bid $4.99</p>")["price"]) == "19.90"


@pytest.mark.parametrize(("words", "expected"), [
    ("Išparduota", "out_of_stock"), ("在庫あり", "in_stock"), ("Hết hàng", "out_of_stock"), ("στοκ", None),
    ("Made in Laos", None),
])  # fmt: skip
def test_stock_is_read_in_many_languages(words: str, expected: str | None) -> None:
    assert availability_of(words) == expected


def test_a_shop_s_name_behind_a_dash_is_no_part_of_the_product_s_name() -> None:
    head = (
        "<meta property='og:type' content='product'><meta property='og:title' content='Blue lamp - Lamps Ltd'>"
        "<meta property='og:site_name' content='Lamps Ltd'><meta property='product:price:amount' content='5'>"
    )
    findings = base.read(Document(f"<html><head>{head}</head><body><p>text</p></body></html>", "https://x.example/p/1"))
    assert findings.get("product_name") == "Blue lamp"
