"""Searches in the text of a page: what it shows, amounts of money, stock words."""

import pytest

from forager.core.reading import care
from forager.extract.html.document import LARGE, Document
from forager.extract.html.page_signs import has_amount
from forager.extract.products.parsers.base import parser
from forager.extract.tables import any_of_lower
from forager.extract.text.prices import availability_of


@pytest.mark.parametrize(
    ("html", "text", "shown"),
    [
        ("<p>Brand: ACME</p>", "Acme", True),
        ("<p>Acmes</p>", "Acme", False),
        ("<p title='Acme'>x</p>", "Acme", False),
        ("<p>Ö5 Acme</p>", "Acme", True),
        ("<p>x</p><script>f('<b>Acme</b>')</script>", "Acme", False),
        ("<SCRIPT>f('<b>Acme</b>')</SCRIPT>", "Acme", False),
        ("<script>f('<b>Acme</b>')</script><p>Acme</p>", "Acme", True),
        ("<script>var a = '<script>'; var b = '<b>Acme</b>'</script>", "Acme", False),
        ("<script>1</script>" + "<i></i>" * 9_000 + "<p>Acme</p>", "Acme", True),
        ("<script>" + "1;" * 90_000 + "'<b>Acme</b>'</script>", "Acme", False),
        ("<p>Скамья садовая</p>", "скамья", False),  # letters beyond ASCII are compared as they are
        ("<p>Скамья садовая</p>", "Скамья", True),
        ("<p>Стамья садовая</p>", "Скамья", False),
    ],
)
@pytest.mark.parametrize("encoding", ["utf-8", "cp1251"])
def test_a_text_is_shown_between_tags_outside_of_scripts(html: str, text: str, shown: bool, encoding: str) -> None:
    if encoding == "cp1251" and "Ö" in html:
        pytest.skip("that encoding has no such letter")
    page = f"<meta charset={encoding}>{html}".encode(encoding)

    assert Document(page).shows(text) is shown
    assert Document(page.decode(encoding)).shows(text) is shown


def test_a_number_may_touch_letters_but_no_other_digit() -> None:
    assert Document("<b>12.50EUR</b>").shows("12.50", number=True)
    assert not Document("<b>112.50</b>").shows("12.50", number=True)
    assert not Document("<b>12.50EUR</b>").shows("12.50")


def test_a_text_alone_has_its_element_for_itself() -> None:
    assert Document("<td> A-7 </td>").shows("a-7", alone=True)
    assert not Document("<td>Code A-7</td>").shows("A-7", alone=True)


@pytest.mark.parametrize("care_is_needed", [True, False])
@pytest.mark.parametrize(
    "body",
    [
        "<p>Grüße</p>".encode(),
        b"\xef\xbb\xbf<p>with a mark</p>",
        b"<p>a\0b</p>",
        b"<meta charset=latin1><p>\xe9t\xe9</p>",
        "<meta charset=utf-16><p>ж</p>".encode("utf-16"),
        b"<p>\xed\xa0\x80 half a sign",
    ],
)
def test_bytes_and_their_text_are_the_same_page(
    body: bytes, care_is_needed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(care, "is_needed", care_is_needed)
    one, other = Document(body), Document(Document(body).source)

    assert one.source == other.source
    assert one.text == other.text != ""
    assert one.tree.html == other.tree.html


def test_the_beginning_of_a_large_page_is_not_parsed_by_itself() -> None:
    offer = '"offers":{"price":"12.50","priceCurrency":"EUR"}'
    data = f'{{"@type":"Product","name":"Oak table","brand":"Acme","sku":"A7",{offer}}}'
    start = f"<title>Oak table</title><script type=application/ld+json>{data}</script><h1>Oak table</h1>"
    small = Document(start + "<p>more</p>" * 100, markup_first=True)
    large = Document(start + "<p>more</p>" * (LARGE // 10), markup_first=True)

    assert small.beginning.css_first("p") is None
    assert large.beginning is large.tree
    assert parser.read(small).values == parser.read(large).values != {}


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("$5", True),
        ("for 5 €", True),
        ("5€", True),
        ("EUR 5", True),
        ("EUR. 5", True),
        ("5 EUR", True),
        ("5 EURO", False),
        ("XEUR 5", False),
        ("xEUR EUR 5", True),
        ("12,-", True),
        ("R$ 10", True),
        ("TRY 5", False),
        ("5 items", False),
        ("a €", False),
        ("10 Kč", True),
        ("", False),
    ],
)
def test_an_amount_has_a_currency_beside_it(text: str, found: bool) -> None:
    assert has_amount(text) is found


def test_patterns_for_lower_case_keep_their_classes() -> None:
    pattern = any_of_lower([r"Not\Sin stock", r"SOLD\W+out"])

    assert pattern.search("not-in stock")
    assert pattern.search("sold - out")
    assert not pattern.search("not in stock")


@pytest.mark.parametrize("text", ["IN STOCK", "Auf Lager", "IN DEN WARENKORB? AUF LAGER!"])
def test_words_for_stock_are_recognised_in_any_case(text: str) -> None:
    assert availability_of(text) == "in_stock"
