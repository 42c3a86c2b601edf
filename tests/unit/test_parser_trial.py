"""Two parsers on the same pages: evidence by field decides, and products that a page does not show count for nobody."""

import pytest

from forager.extract.products.findings import ProductFindings
from forager.pipelines.products.parser_trial import Trial, is_supported, trial

SHOP_PAGE = b"<h1>Lamp</h1><b>12.50 EUR</b><i>Harbour</i><u>L-1</u>"
ABOUT_PAGE = b"<h1>About us</h1><p>Since 1999.</p>"


def found(name: str, price: str, **more: str) -> ProductFindings:
    findings = ProductFindings()
    findings.add("product_name", name, "selector")
    findings.add_price(price, "EUR", "selector")
    for field, value in more.items():
        findings.add(field, value, "json-ld")
    return findings


def test_a_candidate_that_invents_products_and_loses_fields_does_not_win() -> None:
    compared = Trial()
    right = found("Lamp", "12.50", brand="Harbour", sku="L-1", availability="InStock")
    for _ in range(200):
        compared.add(trial(found("Lamp", "9.99"), right, SHOP_PAGE))
    for _ in range(12):
        compared.add(trial(found("About us", "9.99"), ProductFindings(), ABOUT_PAGE))
    winner, reasons = compared.decide()
    assert winner == "current", reasons
    assert compared.pages["added_pages"] == 0
    assert any("brand" in each for each in reasons)


def test_inventing_products_alone_decides_nothing() -> None:
    compared = Trial()
    right = found("Lamp", "12.50")
    for _ in range(100):
        compared.add(trial(right, right, SHOP_PAGE))
    for _ in range(20):
        compared.add(trial(found("About us", "9.99"), ProductFindings(), ABOUT_PAGE))
    assert compared.decide()[0] == "undecided"


def test_more_products_that_the_pages_show_do_not_outweigh_a_worse_field() -> None:
    compared = Trial()
    right = found("Lamp", "12.50", brand="Harbour")
    for _ in range(100):
        compared.add(trial(found("Lamp", "12.50"), right, SHOP_PAGE))
    for _ in range(50):
        compared.add(trial(found("Lamp", "12.50"), ProductFindings(), SHOP_PAGE))
    winner, reasons = compared.decide()
    assert (winner, [each.split(" (")[0] for each in reasons]) == ("current", ["worse: brand"])


def test_products_that_the_pages_show_win() -> None:
    compared = Trial()
    for _ in range(60):
        compared.add(trial(found("Lamp", "12.50"), ProductFindings(), SHOP_PAGE))
    assert compared.decide()[0] == "candidate"
    lost = Trial()
    for _ in range(60):
        lost.add(trial(ProductFindings(), found("Lamp", "12.50"), SHOP_PAGE))
    assert lost.decide()[0] == "current"


@pytest.mark.parametrize(
    ("price", "page", "is_there"),
    [
        ("1299.90", "1,299.90", True),
        ("1299.90", "1.299,90 €", True),
        ("1299.90", "1 299,9", True),
        ("1299.00", "1299", True),
        ("1299.00", "1.299,–", True),
        ("9.99", "19.99", False),
        ("9.99", "9.995", False),
        ("9.00", "1999", False),
        ("9.00", "9.50", False),
    ],
)
def test_a_price_is_looked_for_in_its_usual_spellings(price: str, page: str, is_there: bool) -> None:
    assert is_supported(found("Lamp", price), page.encode()) is is_there
