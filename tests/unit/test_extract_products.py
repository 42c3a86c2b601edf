"""Canonical URLs, prices, availability and article numbers: hard cases, and what always holds."""

import csv
from decimal import Decimal
from functools import partial
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forager.extract.html.document import Document
from forager.extract.products.findings import classify, gtin_of
from forager.extract.products.parsers import base
from forager.extract.text.prices import _CODES, _SYMBOLS, CURRENCY, availability_of, iso_currency, parse_price
from forager.extract.text.urls import canonical_url, url_hash
from tests.support.cpu_time import cpu_ns
from tests.support.shared_data import shared_data


@pytest.mark.parametrize(
    ("text", "amount", "currency"),
    [
        ("1.299,00 €", "1299.00", "EUR"),
        ("CHF 1'234.–", "1234", "CHF"),
        ("₹1,23,456.00", "123456.00", "INR"),
        ("1 299:-", "1299", None),
        ("Online Price MzI5Ljk5 $", None, None),
        ("Rs500", "500", None),
        ("Price :- Rs 500", "500", None),
        ("١٬٢٩٩٫٠٠ د.إ", "1299.00", "AED"),
        ("€1'049,95", "1049.95", "EUR"),
        ("from $5", "5", None),
        ("2 for £3", "3", "GBP"),
        ("-20 %", None, None),
        ("20% off, now 7,50 zł", "7.50", "PLN"),
        (",89", "0.89", None),
        ("140.000", "140000", None),
        ("1,299", "1299", None),
        ("12€99", "12.99", "EUR"),
        ("-$5", None, None),
        ("£3.49 - £5.99", "3.49", "GBP"),
        ("1 299,00 kr", "1299.00", None),
        ("US$:12.99", "12.99", "USD"),
        ("$1,190.00 AUD", "1190.00", "AUD"),
        ("5 000 руб.", "5000", "RUB"),
        ("¥1,200", "1200", None),
        ("0,5 Kč", "0.5", "CZK"),
        ("R 273.00", "273.00", "ZAR"),
        ("Free", "0", None),
        ("Call for price", None, None),
        ("NaN", None, None),
        ("", None, None),
        ("3.000.000 ₫", "3000000", "VND"),
        ("1.299,- €", "1299", "EUR"),
        ("Delivery £4.95, free over £50", "4.95", "GBP"),
        ("19,99 € 15,99 €", "19.99", "EUR"),
        ("$12 per 100g", "12", None),
        ("3 x 9,99 €", "9.99", "EUR"),
        ("3 Ausgaben für nur 14,85 EUR", "14.85", "EUR"),
        ("Was $120.00 Now $60.00", "60.00", None),
        ("Save $5 now $20", "20", None),
        ("- $44.99", "44.99", None),
        ("12.500 KD", "12.500", "KWD"),
        ("0.500", "0.500", None),
        ("118, 99 TL", "118.99", "TRY"),
        ("15.08.2017", None, None),
        ("50 - $2.00 100 - $2.75", "2.00", None),
        ("-20 % 15,99 €", "15.99", "EUR"),
        ("٣٠ ر.س", "30", "SAR"),
    ],
)
def test_a_price_is_read_as_people_write_it__PR_15(text: str, amount: str | None, currency: str | None) -> None:
    price = parse_price(text)
    assert price.amount == (None if amount is None else Decimal(amount))
    assert price.currency == currency


@given(st.integers(0, 10**9), st.sampled_from([("{}.{:02}", ","), ("{},{:02}", ".")]))
def test_a_written_price_is_read_back_whatever_the_separators__PR_15(cents: int, form: tuple[str, str]) -> None:
    shape, thousands = form
    text = shape.format(f"{cents // 100:,}".replace(",", thousands), cents % 100)
    assert parse_price(f"{text} €").amount == Decimal(cents) / 100


@given(st.text(max_size=200))
def test_no_text_breaks_the_price_parser_and_no_price_is_negative(text: str) -> None:
    amount = parse_price(text).amount
    assert amount is None or amount >= 0


@pytest.mark.parametrize(
    ("words", "meaning"),
    [
        ("https://schema.org/InStock", "in_stock"),
        ("http://schema.org/LimitedAvailability", "in_stock"),
        ("schema:OutOfStock", "out_of_stock"),
        ("SoldOut", "out_of_stock"),
        ("out of stock", "out_of_stock"),
        ("oos", "out_of_stock"),
        ("PreOrder", "preorder"),
        ("BackOrder", "preorder"),
        ("Discontinued", "discontinued"),
        ("Only 3 left in stock - order soon.", "in_stock"),
        ("Currently unavailable.", "out_of_stock"),
        ("This item is no longer available", "discontinued"),
        ("Nicht auf Lager", "out_of_stock"),
        ("Sofort lieferbar", "in_stock"),
        ("Rupture de stock", "out_of_stock"),
        ("В наличии", "in_stock"),
        ("Ships within 2 days", "in_stock"),
        ("A fine table", None),
        ("", None),
    ],
)
def test_words_for_stock_have_one_meaning__PR_11(words: str, meaning: str | None) -> None:
    assert availability_of(words) == meaning


@pytest.mark.parametrize(
    ("url", "canonical"),
    [
        ("HTTP://Shop.Example:80/a/../b/./c?z=1&a=2#top", "http://shop.example/b/c?a=2&z=1"),
        ("https://shop.example:443", "https://shop.example/"),
        ("https://shop.example:8443/", "https://shop.example:8443/"),
        ("https://shop.example/p?utm_source=x&id=7&gclid=1&fbclid=2", "https://shop.example/p?id=7"),
        ("https://shop.example/p/7?ref=cat_7", "https://shop.example/p/7"),
        ("https://shop.example/p.php?ref=abc_1", "https://shop.example/p.php?ref=abc_1"),
        ("https://shop.example/%7euser/%c3%a9", "https://shop.example/~user/%C3%A9"),
        ("https://müller.example/", "https://xn--mller-kva.example/"),
        ("https://shop.example/a//b/", "https://shop.example/a//b/"),
        ("https://shop.example/?q=a+b&empty=", "https://shop.example/?empty=&q=a+b"),
    ],
)
def test_a_url_has_one_spelling__PR_5(url: str, canonical: str) -> None:
    assert canonical_url(url) == canonical


@pytest.mark.parametrize(
    "url", ["ftp://x.example/", "javascript:alert(1)", "shop.example", "http://", "https://u:p@x.example/"]
)
def test_what_is_no_page_has_no_canonical_url(url: str) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        canonical_url(url)


_NAMES = st.text(st.characters(categories=["Ll", "Nd"], max_codepoint=0x24F), min_size=1, max_size=6)
_PAIRS = st.lists(st.tuples(_NAMES, st.text(max_size=6)), max_size=6)


@given(_PAIRS, st.randoms(use_true_random=False))
def test_canonical_urls_are_idempotent_and_free_of_order__PR_5(pairs: list[tuple[str, str]], random: object) -> None:
    kept = [(f"x{name}", value) for name, value in pairs]  # no name of ours is a tracking parameter
    shuffled = list(kept)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    one, other = (_url(each) for each in (kept, shuffled))
    assert canonical_url(one) == canonical_url(other)
    assert canonical_url(canonical_url(one)) == canonical_url(one)
    assert canonical_url(one).count("=") == len(kept)  # every real parameter is kept
    assert len(url_hash(canonical_url(one))) == 64


def _url(pairs: list[tuple[str, str]]) -> str:
    query = "&".join(f"{quote(name)}={quote(value, safe='')}" for name, value in pairs)
    return f"https://shop.example/p?{query}"


@pytest.mark.parametrize(
    ("written", "gtin"),
    [
        ("4006381333931", "4006381333931"),
        ("EAN: 4006381333931", "4006381333931"),
        ("036000291452", "036000291452"),
        ("0-306-40615-2", "9780306406157"),
        ("978-0-306-40615-7", "9780306406157"),
        ("4006381333932", None),
        ("0000000000000", None),
        ("12345", None),
        ("", None),
    ],
)
def test_an_article_number_needs_its_check_digit__PR_11(written: str, gtin: str | None) -> None:
    assert gtin_of(written) == gtin


def test_a_symbol_of_several_countries_is_no_currency__PR_11() -> None:
    assert [iso_currency(each) for each in ("$", "kr", "¥", "Rs")] == [None] * 4
    assert [iso_currency(each) for each in ("€", "eur", "US$", "zł")] == ["EUR", "EUR", "USD", "PLN"]
    assert classify("03178471") == "issn"


def test_prices_of_real_pages_are_read_as_in_their_source__PR_15() -> None:
    with (shared_data("prices") / "price_strings.csv").open(encoding="utf-8", newline="") as file:
        rows = [row for row in csv.DictReader(file) if "xfail" not in row["set"]]
    assert len(rows) == 841
    assert sum(map(reads_price, rows)) / len(rows) >= 0.99


def reads_price(row: dict[str, str]) -> bool:
    found = parse_price(row["price_raw"], row["currency_raw"], decimal=row["forced_decimal_separator"] or None)
    expected = Decimal(row["expected_amount"]) if row["expected_amount"] else None
    return found.amount == expected and (found.symbol or "") == row["expected_currency"]


def test_article_numbers_are_classified_as_in_their_source__PR_11() -> None:
    with (shared_data("prices") / "gtin_classification.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["input"] for row in rows if (classify(row["input"]) or "") != row["expected_type"]] == []


def test_every_currency_is_found_where_it_stands_alone_and_not_in_a_word() -> None:
    for written in {*_SYMBOLS, *_CODES}:
        found = CURRENCY.search(f"7 {written} 7")
        assert found is not None, written
        assert found[0] == written
    assert CURRENCY.search("Kroner Eurotunnel Rates dinner") is None


def test_a_long_text_is_not_searched_for_ever() -> None:
    """A character of it costs at most a few times as much as a character of a price."""
    price = "20% off, now 7,50 zł"
    each = cpu_ns(lambda: parse_price(price)) / len(price)
    for text in ("1 " * 5_000, "1$ " * 5_000, "a" * 50_000, "20% " * 5_000, "1.1.2000 " * 2_000):
        assert cpu_ns(partial(parse_price, text)) < 5 * each * len(text), text[:10]


def visible(html: str, url: str = "https://shop.example.com/p/1") -> dict[str, object]:
    found = base.read(Document(html.encode(), url))
    return {name: value.value for name, value in found.values.items()}


PAGE = "<html><head><meta charset=utf-8><title>{title}</title></head><body>{body}</body></html>"


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (  # the button is an input, the old price is labelled
            "<h1>Oak Table</h1><p>Retail: $125.00</p><p>Our price: $99.50</p><input type=submit value='Add to Basket'>",
            {"product_name": "Oak Table", "price": Decimal("99.50"), "currency": "USD", "availability": "in_stock"},
        ),
        (  # no headline: an element that is called the product's name
            "<div class='product-name'>Oak Table</div><span class='price'>£20.00</span><button>Add to cart</button>",
            {"product_name": "Oak Table", "price": Decimal("20.00"), "currency": "GBP", "availability": "in_stock"},
        ),
        (  # an article number in one line
            "<h1>Oak Table</h1><p>€ 10,83</p><p>Artikelnummer: 8570931</p><button>In den Warenkorb</button>",
            {
                "product_name": "Oak Table",
                "price": Decimal("10.83"),
                "currency": "EUR",
                "sku": "8570931",
                "availability": "in_stock",
            },
        ),
        (  # a list of products is no product
            "<h1>Tables</h1>" + "<p>Table</p><p>$5.00</p><button>Add to cart</button>" * 6,
            {},
        ),
        ("<h1>About us</h1><p>We have sold $5.00 worth of tables, and then $7.00 worth.</p>", {}),
    ],
)
def test_a_page_without_markup_is_read_as_a_reader_would__PR_10(body: str, expected: dict[str, object]) -> None:
    assert visible(PAGE.format(title="Oak Table | Shop", body=body)) == expected


def shown(body: str) -> dict[str, object]:
    """Read a page of one product in euros or pounds, with its button."""
    return visible(PAGE.format(title="Oak Table", body=f"<h1>Oak Table</h1>{body}<button>Add to cart</button>"))


@pytest.mark.parametrize(
    ("body", "price"),
    [
        ("<p>Il prezzo originale era: 74,00 €.Il prezzo attuale è: 59,00 €.</p>", "59.00"),
        ("<p>Ursprünglicher Preis war: 74,00 €Aktueller Preis ist: 59,00 €.</p>", "59.00"),
        ("<p>Normaler Preis €119,00 Verkaufspreis €89,90</p>", "89.90"),
        ("<p>de R$ 199,90 por R$ 149,90</p>", "149.90"),
        ("<p>Regular price £20.00</p>", "20.00"),  # the only one
        ("<p>£220.00 + £12.00 delivery</p>", "220.00"),
        ("<p>Get a £30 gift card on approval</p><p>£48.99</p>", "48.99"),
        ("<p>Najniższa cena z 30 dni przed obniżką: 99,00 zł</p><p>89,00 zł</p>", "89.00"),
        ("<p>Used for £11.00</p><p>£25.00</p>", "25.00"),
        ("<p><del>£195.00</del></p><p>get it for £185.25 (5% off) with Auto-Replenish</p>", "195.00"),
        ("<p><span class='price text-bold'>£48.99</span></p><p>You save: £6.01</p>", "48.99"),  # bold is not old
        ("<p><span class='price-old'>£60.00</span></p><p><span class='price'>£48.99</span></p>", "48.99"),
        ("<s class='price'>259,00 €</s><p class='price'>259,00 €</p><p>Gratuit 2,99 €</p>", "259.00"),
        ("<p class='regular-price'>14,00 €</p><p class='current-price'>11,90 €</p>", "11.90"),
        ("<p>270,00 Kn</p><p>540,00 Kn</p>", "270.00"),
    ],
)
def test_the_price_is_what_a_buyer_pays_today__PR_10(body: str, price: str) -> None:
    assert shown(body)["price"] == Decimal(price)


@pytest.mark.parametrize(
    ("body", "availability"),
    [
        ("<p>€ 5,00</p><label>XL Variant sold out or unavailable</label>", "in_stock"),  # of another size
        ("<p>€ 5,00</p><p>Sale Sold out</p>", "in_stock"),  # the badges of the theme, one of which is shown
        ("<p>€ 5,00</p><p>Sold out</p>", "out_of_stock"),
        ("<p>€ 5,00</p><p>Ultimi pezzi</p>", "in_stock"),
    ],
)
def test_words_for_stock_are_those_of_the_product_itself__PR_11(body: str, availability: str) -> None:
    assert shown(body)["availability"] == availability


def test_a_button_written_over_many_lines_is_a_button_to_buy__PR_11() -> None:
    padded = "<button class='x'>" + " \n" * 60 + "Add to cart" + " \n" * 60 + "</button>"
    body = f"<h1>Oak Table</h1><p>€ 5,00</p>{padded}"
    assert visible(PAGE.format(title="Oak Table", body=body))["availability"] == "in_stock"
    body = body.replace("<button ", "<button disabled ")
    assert "availability" not in visible(PAGE.format(title="Oak Table", body=body))


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ("<div><b>SKU</b><div>WB-90</div></div>", "WB-90"),
        ("<p><label>Référence</label> <span>HOV-50</span></p>", "HOV-50"),
        ("<p>Produktnummer: NK-1004</p>", "NK-1004"),
        ("<p>Model shown is 180 cm tall</p>", None),
    ],
)
def test_an_article_number_has_a_label_before_it_or_above_it__PR_10(body: str, code: str | None) -> None:
    assert shown("<p>€ 5,00</p>" + body).get("sku") == code


def test_the_opening_price_of_an_auction_is_not_its_price__PR_10() -> None:
    markup = (
        '<script type="application/ld+json">{"@type": "Product", "name": "Oak Table", "offers": {"@type": "Offer",'
        ' "price": "150", "priceCurrency": "USD"}}</script><meta property="product:price:amount" content="200">'
        '<meta property="product:price:currency" content="USD">'
    )
    body = "<h1>Oak Table</h1><p>$200</p><p>{} <span>$150</span></p>"
    page = PAGE.replace("<title>", markup.replace("{", "{{").replace("}", "}}") + "<title>")
    opening = page.format(title="Oak Table", body=body.format("Starting Price"))
    assert visible(opening)["price"] == Decimal("200.00")
    assert visible(page.format(title="Oak Table", body=body.format("Sale Price")))["price"] == Decimal("150.00")


def test_the_headline_of_the_shop_in_the_header_is_no_product_name__PR_10() -> None:
    body = "<header><h1>Wood Works</h1></header><h1>Oak Table</h1><p>€ 5,00</p><button>Add to cart</button>"
    assert visible(PAGE.format(title="Oak Table - Wood Works", body=body))["product_name"] == "Oak Table"


def test_a_bare_dollar_is_american_only_where_nothing_speaks_against_it__PR_11() -> None:
    body = "<h1>Oak Table</h1><p>$20.00</p><button>Add to cart</button>{}"
    page = PAGE.format(title="Oak Table", body=body)
    assert visible(page.format(""))["currency"] == "USD"
    for against in ("<p>All prices in CAD</p>", "<p>A$20.00</p>"):
        assert "currency" not in visible(page.format(against))
    for url in ("shop.example.com.au/p/1", "shop.example.ca/p/1", "ca.example.com/p/1", "example.com/en-au/p/1"):
        assert "currency" not in visible(page.format(""), f"https://{url}")
    for hint in ('<html lang="en-CA">', '<html><meta property="og:locale" content="en_AU">', "<html lang=fr>"):
        assert "currency" not in visible(page.format("").replace("<html>", hint))
    assert visible(page.format("").replace("<html>", '<html lang="en-US">'))["currency"] == "USD"
    assert base.read(Document(page.format(""), "https://x.example.com/")).values["currency"].source == "sign"
