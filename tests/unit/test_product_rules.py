"""Reading products: one small page for each rule, and the traps of real shops."""

from decimal import Decimal
from typing import Any

import pytest

from forager.extract.html.document import Document
from forager.extract.products.findings import ProductFindings
from forager.extract.products.parsers import base

BUY = "<button>Add to cart</button>"


def read(html: str, url: str = "https://shop.example.com/p/1") -> ProductFindings:
    return base.read(Document(html, url))


def json_ld(offers: str) -> str:
    return f'<script type="application/ld+json">{{"@type": "Product", "name": "Lamp", "offers": {offers}}}</script>'


def marked_price(amount: str, currency: str) -> str:
    tag = '<meta property="product:price:{}" content="{}">'
    return tag.format("amount", amount) + tag.format("currency", currency)


@pytest.mark.parametrize(
    ("html", "name"),
    [
        ("<title>Lamp | Shop</title><h1>Summer sale</h1><h1>Lamp</h1><p>$9.00</p>" + BUY, "Lamp"),
        ("<p>Home > Light > Lamps</p><p>Desk lamp Ida</p><p>Price: $9.00</p>" + BUY, "Desk lamp Ida"),
        ("<p>Desk lamp Ida</p><p>Item #: 4711</p><p>Price: $9.00</p>", "Desk lamp Ida"),
        ("<h2>Desk lamp Ida</h2><p>$9.00</p>" + BUY, "Desk lamp Ida"),
    ],
)
def test_a_product_without_markup_is_named_by_its_headline_trail_or_labels(html: str, name: str) -> None:
    assert read(html).get("product_name") == name


@pytest.mark.parametrize("title", ["Lamp Ida | The Shop", "Lamp Ida> Lamps> The Shop"])
def test_the_headline_is_the_name_before_a_social_title_that_has_the_shop_in_it(title: str) -> None:
    html = f'<meta property="og:type" content="product"><meta property="og:title" content="{title}"><h1>Lamp Ida</h1>'
    assert read(html).get("product_name") == "Lamp Ida"


def test_a_page_with_an_order_of_its_entries_is_a_list() -> None:
    html = "<h1>Lamps</h1><p>Sort by:</p><p>Ida</p><p>$9.00</p><p>Otto</p><p>$9.00</p>"
    assert not read(html + BUY).is_product


def test_many_equal_products_in_markup_are_a_list_whatever_else_the_page_contains() -> None:
    item = '<div itemscope itemtype="https://schema.org/Product"><b itemprop="name">Ida {0}</b><div itemprop="offers" \
itemscope itemtype="https://schema.org/Offer"><b itemprop="price">{0}.00</b></div></div>'
    html = "<h1>Chairs</h1><i itemprop='sku'>77</i>" + "".join(item.format(number) for number in range(5))
    findings = read(html + BUY)
    assert findings.is_list
    assert not findings.is_product


def test_the_lower_of_two_marked_prices_is_paid_and_both_are_kept__PR_15() -> None:
    meta = (
        '<meta property="product:price:amount" content="120.00"><meta property="product:price:currency" content="USD">'
    )
    findings = read(meta + json_ld('{"price": "150.00", "priceCurrency": "USD"}'))
    assert findings.get("price") == Decimal("120.00")
    assert findings.metadata["regular_price"] == "150.00"
    assert findings.values["price"].confidence < 0.6
    assert findings.evidence()["price"]["also"] == [{"value": "150.00", "source": "json-ld"}]


def test_a_single_price_is_shown_before_the_low_end_of_a_range() -> None:
    meta = (
        '<meta property="product:price:amount" content="48,00"><meta property="product:price:currency" content="USD">'
    )
    findings = read(meta + json_ld('{"@type": "AggregateOffer", "lowPrice": "43.90", "priceCurrency": "EUR"}'))
    assert (findings.get("price"), findings.get("currency")) == (Decimal("48.00"), "USD")


@pytest.mark.parametrize(
    ("lines", "price"),
    [
        ("<p>870</p><p>руб</p>", ("870.00", "RUB")),
        ("<p>Earn $25 back in rewards for every $250 spent with us here</p><p>$80.00</p>", ("80.00", "USD")),
        ("<p>Range 60 MT</p><p>$80.00</p>", ("80.00", "USD")),
        ("<p>12 KD</p><p>Also nice: 15 KD</p>", ("12.00", "KWD")),
        ("<p>Retail Price: $125.00</p><p>Your Savings: $11.05</p><p>Your Price:</p><p>$113.95</p>", ("113.95", "USD")),
    ],
)
def test_a_visible_price_is_the_one_to_pay(lines: str, price: tuple[str, str]) -> None:
    findings = read(f"<h1>Lamp Ida</h1>{lines}{BUY}")
    assert (str(findings.get("price")), findings.get("currency")) == price


@pytest.mark.parametrize(
    ("html", "field", "value"),
    [
        ('<span class="sku">AB-123</span>', "sku", "AB-123"),
        ("<p>Product ID:</p><p>HSB2546R</p>", "sku", "HSB2546R"),
        ("<p>Item # A1</p><p>Item #: A-11</p><p>Item #: B-22</p>", "sku", None),
        ('<meta itemprop="sku" content="ND-15">', "sku", "ND-15"),
        ('<meta property="og:image" content="https://cdn.example/big/601576.jpg">', "sku", "601576"),
        ("<table><tr><td>Kód produktu:</td><td>HSF07</td></tr></table>", "sku", "HSF07"),
        ('<img src="/marchi/ida.png" alt="Ida">', "brand", "Ida"),
        ("<p>Производитель: The Face Shop</p>", "brand", "The Face Shop"),
        ("<p>Наличие на складе: Да</p>", "availability", "in_stock"),
        ("<p>Наличие на складе: Нет</p>", "availability", "out_of_stock"),
    ],
)
def test_facts_beside_the_product_are_read(html: str, field: str, value: Any) -> None:
    page = f"<h1>Lamp Ida</h1><p>$9.00</p>{html}{BUY}"
    assert read(page, "https://shop.example.com/lamp_601576_11/").get(field) == value


def test_a_short_headline_under_the_name_that_the_title_has_too_is_the_brand() -> None:
    html = f"<title>Ida - Artemide - Shop</title><h1>Ida</h1><h2>Artemide</h2><p>$9.00</p>{BUY}"
    assert read(html).get("brand") == "Artemide"


NAMED = "<title>Lamp Ida | Shop</title><h1>Lamp Ida</h1><span>$9.00</span>"


@pytest.mark.parametrize(
    ("words", "stock"),
    [
        ("<button>Lägg i varukorg</button>", "in_stock"),
        ("<button disabled>Add to cart</button><p>Sold out</p>", "out_of_stock"),
        (BUY + "<p>Out of stock</p>", "in_stock"),
        ("<p>Out of stock</p>" + BUY, "out_of_stock"),
        ("<p>Store availability is temporarily not available.</p>" + BUY, "in_stock"),
        ("<p>Nicht verfügbar in dieser Filiale</p><button>In den Warenkorb</button>", "in_stock"),
        ("<p>Also available in: Green</p>", None),
    ],
)
def test_stock_is_that_of_the_buy_box_and_not_of_a_store_a_size_or_another_article(
    words: str, stock: str | None
) -> None:
    assert read(NAMED + words).get("availability") == stock


def test_a_button_of_another_product_does_not_put_this_one_into_stock() -> None:
    others = "".join(
        f"<li class='card'><a href='/p/{n}'>Lamp {n}</a><i>$1{n}.00</i><button>Add to cart</button></li>"
        for n in (2, 3, 4)
    )
    page = NAMED + "<button disabled>Add to cart</button><h2>You may also like</h2><ul>" + others + "</ul>"
    assert read(page, "https://shop.example.com/p/lamp-ida-long").get("availability") is None


def test_a_page_that_is_a_product_s_by_its_signs_is_read_whatever_the_language_of_its_button() -> None:
    page = "<title>Lamp Ida</title><h1>Lamp Ida</h1><span>€15.99</span><button>Į krepšelį</button>"
    findings = read(page, "https://shop.example.com/lamp-ida")
    assert findings.is_product
    assert findings.get("price") == Decimal("15.99")


def test_a_page_behind_a_dialog_is_read_as_if_it_were_closed() -> None:
    shown = "<h1>Lamp Ida</h1><span>$9.00</span>" + BUY
    page = f"<title>Lamp Ida</title><div>We use cookies</div><div aria-hidden=true>{shown}</div>"
    assert read(page).get("price") == Decimal("9.00")
    for hidden in ("hidden", "aria-hidden=true style='display: none'"):
        assert not read(f"<title>Lamp Ida</title><div>We use cookies</div><div {hidden}>{shown}</div>").is_product


@pytest.mark.parametrize(
    ("line", "price"),
    [
        ("Original price was: 249€.Current price is: 149€.", "149.00"),
        ("El precio original era: 249€. El precio actual es: 149€.", "149.00"),
        ("$195.00or 4 payments of $48.75", "195.00"),
    ],
)
def test_several_amounts_of_one_line_are_parted_at_their_words(line: str, price: str) -> None:
    struck = "<del>249€</del>" if "249" in line else ""
    assert read(f"<title>Lamp Ida</title><h1>Lamp Ida</h1>{struck}<p>{line}</p>{BUY}").get("price") == Decimal(price)


def test_the_styles_and_buttons_in_a_headline_are_no_part_of_the_name() -> None:
    page = "<title>Lamp</title><h1><style>.a{color:red}</style>Lamp Ida<button>Details</button></h1><p>$9.00</p>" + BUY
    assert read(page).get("product_name") == "Lamp Ida"


def test_a_page_whose_markup_is_complete_is_not_parsed_as_a_whole() -> None:
    data = '{"@type": "Product", "name": "Lamp", "sku": "KEY-9", "brand": "Ida", "description": "A lamp.", "offers": \
{"price": "9.00", "priceCurrency": "EUR", "availability": "InStock"}}'
    start = f'<title>Lamp</title><script type="application/ld+json">{data}</script><h1>Lamp</h1>'
    text = "<p>A lamp of Ida for a desk.</p>" * 500
    document = Document(start + text, "https://shop.example.com/p/1", markup_first=True)
    assert base.read(document).get("sku") == "KEY-9"
    assert not document.is_parsed
    shown = Document(f"{start}{text}<a @click=\"() => go()\" class='sku'>AB-12</a>", "", markup_first=True)
    assert base.read(shown).get("sku") == "AB-12", "the number that the page shows beats the key in its markup"


@pytest.mark.parametrize(
    ("shown", "is_sure"),
    [
        ("EUR1.299,00", True),
        ("1 299 €", True),
        ("$1,299.00", True),
        ("1299", True),
        ("1&nbsp;299,-", True),
        ("21299", False),
        ("$1,300.00", False),
        ("<script>1299</script>", False),
        ("<b data-price='1299'>on request</b>", False),
    ],
)
def test_a_price_of_the_markup_that_the_page_does_not_show_loses_confidence(shown: str, is_sure: bool) -> None:
    marked = json_ld('{"price": "1299.00", "priceCurrency": "EUR", "availability": "InStock"}')
    found = read(f"{marked}<h1>Lamp</h1><p>{shown}</p>")
    assert found.get("price") == Decimal("1299.00")
    assert (found.values["price"].confidence >= 0.9) == is_sure


def test_stock_from_one_source_of_markup_is_less_sure_than_from_two() -> None:
    marked = json_ld('{"price": "9.00", "priceCurrency": "EUR", "availability": "InStock"}')
    meta = '<meta property="og:type" content="product"><meta property="product:availability" content="in stock">'
    assert read(marked).values["availability"].confidence < 0.9
    assert read(marked + meta).values["availability"].confidence > 0.95
