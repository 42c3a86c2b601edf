"""Reading homes for rent or sale: one small page for each rule, and amounts that are not the price."""

import json
from typing import Any

import pytest

from forager.extract.html.document import Document
from forager.extract.html.json_page import page_of_json
from forager.extract.listings.identity import ListingValues, place_of
from forager.extract.listings.reading import read_home

PROSE = "<p>" + "A house of stone with a garden to the south. " * 5 + "</p>"


def read(lines: str, url: str = "https://homes.example/1") -> ListingValues:
    return read_home(Document(f"<title>5 Mill Lane, Leeds</title><h1>5 Mill Lane, Leeds</h1>{lines}{PROSE}", url))


@pytest.mark.parametrize(
    ("lines", "price"),
    [
        ("<p>£325,000 (£271/sq. ft)</p>", "325000"),
        ("<p>Deposit £1,500</p><p>£950 pcm</p>", "950"),
        ("<p>959,87 €</p><p>Kaltmiete</p><p>1.290,87 €</p><p>Warmmiete</p>", "959.87"),
        ("<dl><dt>Warmmiete</dt><dd>1079,17 €</dd><dt>Kaltmiete</dt><dd>800,00 €</dd></dl>", "800.00"),
        ("<p>R 1 395 000</p><p>Bond repayment R 13 693</p>", "1395000"),
        ("<p>$470,000 - $500,000</p>", "470000"),
        ("<p>Price on request</p><p>Deposit £500</p>", None),
        ("<p>Estimated mortgage £1,450 per month</p>", None),
        ("<p>Cena: 650 000 zł</p>", "650000"),
        ("<p>Pris: 3 950 000 kr</p>", "3950000"),
        ("<p>₹ 85 Lac</p>", "8500000"),
        ("<p>₹1.25 Cr</p>", "12500000"),
        ("<p>£1.2m</p>", "1200000"),
        ("<p>賃料: 12.5万円</p>", "125000"),
        ("<p>Vraagprijs € 425.000 k.k.</p>", "425000"),
    ],
)
def test_other_amounts_are_not_taken_for_the_price(lines: str, price: str | None) -> None:
    assert read(lines + "<p>3 beds</p>").get("price") == price


@pytest.mark.parametrize(
    ("text", "field", "value"),
    [
        ("3 Beds1 Bath1 Parking315.15m²", "bedrooms", "3"),
        ("3 Beds1 Bath1 Parking315.15m²", "bathrooms", "1"),
        ("2BR / 1.5Ba 950ft2", "bathrooms", "1.5"),
        ("2 BHK Flat", "bedrooms", "2"),
        ("Two bedroom flat", "bedrooms", "2"),
        ("1,611 sqft", "area", "1611"),
        ("61,53 m²", "area", "61.53"),
        ("Plot 1 596 m²", "area", None),
        ("£289 /sqft", "area", None),
        ("2 bd | 1 ba", "bedrooms", "2"),
        ("85 mq", "area", "85"),
        ("45.2㎡", "area", "45.2"),
        ("Available from 1 September 2026", "available_from", "2026-09-01"),
        ("Disponible le 1er septembre 2026", "available_from", "2026-09-01"),
        ("Available Sep 1st, 2026", "available_from", "2026-09-01"),
        ("Available 9/15/2026", "available_from", "2026-09-15"),
        ("Available 15/09/2026", "available_from", "2026-09-15"),
        ("Available 9/10/2026", "available_from", None),
    ],
)
def test_numbers_are_read_with_their_words(text: str, field: str, value: str | None) -> None:
    assert read(f"<p>£325,000</p><p>{text}</p>").get(field) == value


def test_text_after_similar_listings_belongs_to_others() -> None:
    home = read("<p>£325,000</p><h2>Similar homes</h2><p>4 beds</p>")
    assert home.get("bedrooms") is None


@pytest.mark.parametrize(
    ("text", "street", "city", "postcode"),
    [
        ("Frankfurter Allee 218, 10365 Berlin, Lichtenberg", "Frankfurter Allee 218", "Berlin", "10365"),
        ("133 Bethany RoadHoppers Crossing, VIC 3029", "133 Bethany Road", "Hoppers Crossing", "3029"),
        ("133 Bethany Road, Hoppers Crossing VIC 3029", "133 Bethany Road", "Hoppers Crossing", "3029"),
        ("Station Road, Great Shefford, Hungerford, Berkshire, RG17", "Station Road", "Hungerford", None),
        ("2200 Pacific Ave Unit 1B, San Francisco, CA 94115", "2200 Pacific Ave Unit 1B", "San Francisco", "94115"),
        ("Dúplex en venta en calle Subida Amargura, 2, El Molar", "calle Subida Amargura, 2", "El Molar", None),
        ("4 bedroom house for sale", None, "4 bedroom house for sale", None),
    ],
)
def test_an_address_of_one_line_is_taken_apart(text: str, street: str | None, city: str, postcode: str | None) -> None:
    place = place_of(text)
    assert (place.street, place.postcode) == (street, postcode)
    if street:
        assert place.city == city


def test_many_prices_under_a_plural_are_a_list() -> None:
    prices = "".join(f"<p>£{300 + number},000</p>" for number in range(12))
    assert read_home(Document(f"<h1>Houses for sale in Leeds</h1>{prices}{PROSE}")).kind == "list"
    assert read_home(Document("<p>Please enable JS</p>")).kind == "empty"


def page_of(title: str, lines: str, data: str = "") -> ListingValues:
    script = f'<script type="application/ld+json">{data}</script>' if data else ""
    return read_home(
        Document(f"<title>{title}</title>{script}<h1>{title}</h1>{lines}{PROSE}", "https://page.example/1")
    )


@pytest.mark.parametrize("declared", ["RealEstateListing", "House"])
def test_a_page_that_declares_a_home_is_one_with_no_more_than_a_price(declared: str) -> None:
    offers = '{"price": 450000, "priceCurrency": "EUR"}'
    home = page_of("Villa Mar", "", f'{{"@type": "{declared}", "name": "Villa Mar", "offers": {offers}}}')
    assert (home.kind, home.get("price"), home.get("currency")) == ("item", "450000", "EUR")


@pytest.mark.parametrize(
    ("lines", "price"),
    [
        ("<p>Kaufpreis: 450.000 €</p>", "450000"),
        ("<p>Kaltmiete</p><p>800,00 €</p>", "800.00"),
        ("<p>Asking price: $1,250,000</p>", "1250000"),
        ("<p>Guide price £120,000</p>", "120000"),
        ("<p>Prix : 250 000 €</p>", "250000"),
        ("<p>Loyer : 950 €</p>", "950"),
        ("<p>Precio: 350.000 €</p>", "350000"),
        ("<p>Vraagprijs € 450.000 k.k.</p>", "450000"),
        ("<p>Zimmer: 3</p><p>1.200 €</p>", "1200"),
        ("<dl><dt>Zimmer</dt><dd>3,5</dd></dl><p>1.200 €</p>", "1200"),
    ],
)
def test_a_price_with_a_label_that_homes_have_or_beside_rooms_makes_a_home(lines: str, price: str) -> None:
    home = page_of("Mar y Sol", lines)
    assert (home.kind, home.get("price")) == ("item", price)


@pytest.mark.parametrize(("title", "kind"), [("Piso en Lavapiés", "item"), ("Aspiradora silenciosa", "other")])
def test_a_low_price_with_a_shops_label_needs_a_home_in_the_title(title: str, kind: str) -> None:
    assert page_of(title, "<p>Precio: 950 €</p>").kind == kind


PRODUCT = '{"@type": "Product", "name": "x", "offers": {"price": 249, "priceCurrency": "GBP"}}'


@pytest.mark.parametrize(
    ("title", "lines"),
    [
        ("Wool rug - summer sale", "<p>£249</p>"),
        ("Wool rug", "<p>£249</p><p>Size: 6 m²</p>"),
        ("Wool rug - summer sale", "<p>£249</p><p>6 m²</p><footer><p class=address>4 Mill Road, Leeds</p></footer>"),
        ("2016 Colorado, 4 doors", "<p>Price: £20,055</p>"),
    ],
)
@pytest.mark.parametrize("is_open_graph", [False, True])
def test_a_product_is_not_a_home_for_its_sale_its_size_or_the_address_of_its_shop(
    title: str, lines: str, is_open_graph: bool
) -> None:
    meta, data = ('<meta property="og:type" content="product">', "") if is_open_graph else ("", PRODUCT)
    assert page_of(title, meta + lines, data).kind == "other"


@pytest.mark.parametrize(
    "lines",
    [
        "<p>£325,000</p><p>3 beds</p>",
        "<p>£950 pcm</p>",
        "<p>£325,000</p><p class=address>5 Mill Lane, Leeds</p>",
        "<p>325.000 €</p><p>Wohnfläche: 85 m²</p>",
        "<p>325.000 €</p><p>3 Zimmer</p>",
        "<p>Kaufpreis</p><p>325.000 €</p>",
    ],
)
def test_a_home_marked_as_a_product_is_recognised_by_fields_of_homes(lines: str) -> None:
    assert page_of("Light and quiet", lines, PRODUCT).kind == "item"


@pytest.mark.parametrize("lines", ["<p>Salary: £45,000</p>", "<p>£45,000 per month</p><p>Hill Road, Leeds</p>"])
def test_a_page_that_declares_a_job_is_not_a_home(lines: str) -> None:
    assert page_of("Letting agent, apartments to rent", lines, '{"@type": "JobPosting", "title": "x"}').kind == "other"


@pytest.mark.parametrize(
    ("headline", "words", "kind"),
    [
        ("Ace Braces", "We straighten teeth, and we lease our rooms.", "other"),
        ("Bramble Beds", "Beds for every bedroom, and pillows.", "other"),
        ("Contact us", "Apartments for rent, all over the town. Ask us for floor plans.", "other"),
        ("Bramble Court", "Apartments for rent, with one or two bedrooms.", "item"),
        ("Brombeerhof", "Helle Wohnungen zu vermieten, mit Grundrissen.", "item"),
    ],
)
def test_a_street_is_a_homes_only_on_a_page_that_speaks_of_homes(headline: str, words: str, kind: str) -> None:
    page = (
        f"<h1>{headline}</h1><p>{words}</p><p>2500 Legacy Drive</p><p>Frisco, TX 75034</p>"
        + "<p>Come and see us.</p>" * 9
    )
    assert read_home(Document(page, "https://firm.example/")).kind == kind


@pytest.mark.parametrize(
    ("data", "field", "value"),
    [
        ({"@type": ["Product", "Apartment"], "offers": {"price": "1250", "priceCurrency": "EUR"}}, "price", "1250"),
        (
            {"@type": "Offer", "price": 350000, "itemOffered": {"@type": "House", "numberOfBedrooms": 4}},
            "price",
            "350000",
        ),
        (
            {"@type": "House", "offers": {"priceSpecification": {"price": "900", "priceCurrency": "CHF"}}},
            "currency",
            "CHF",
        ),
        ({"@type": "House", "floorSize": {"value": "1,850", "unitCode": "FTK"}}, "area", "1850"),
    ],
)
def test_structured_data_of_homes_has_many_shapes(data: dict[str, Any], field: str, value: str) -> None:
    script = f'<script type="application/ld+json">{json.dumps(data)}</script>'
    assert read(script).get(field) == value


def test_buttons_beside_an_address_are_no_part_of_it() -> None:
    lines = "<div class=address><p>12 Oak Close</p><p>Mountain View, CA 94040</p><p>View on map</p><p>Sign in</p></div>"
    home = read(f"<p>£325,000</p><p>3 beds</p>{lines}")
    assert (home.get("street"), home.get("city"), home.get("postcode")) == ("12 Oak Close", "Mountain View", "94040")


@pytest.mark.parametrize(
    ("lines", "area", "unit"),
    [
        ("<p>2015</p><p>sq ft</p>", "2015", "sqft"),
        ("<p>About 130 m²</p><p>Wohnfläche ca.:</p><p>131,37 m²</p>", "131.37", "m2"),
        ("<p>Общая площадь: 54,5</p>", "54.5", "m2"),
        ("<p>Bendras plotas: 61</p>", "61", "m2"),
        ("<p>Plot 900 m²</p>", None, None),
    ],
)
def test_an_area_is_read_beside_its_label_or_over_its_unit(lines: str, area: str | None, unit: str | None) -> None:
    home = read(f"<p>£325,000</p><p>3 beds</p>{lines}")
    assert (home.get("area"), home.get("area_unit")) == (area, unit)


@pytest.mark.parametrize("rooms", ["3 huonetta", "3 izby", "3 кімнати", "3 sobe"])
def test_rooms_in_many_languages_distinguish_a_home_from_a_product(rooms: str) -> None:
    product = json.dumps({"@type": "Product", "name": "Number 5", "offers": {"price": "120000"}})
    page = f"<title>Number 5</title><script type='application/ld+json'>{product}</script><h1>Number 5</h1>{PROSE}<p>"
    assert read_home(Document(f"{page}{rooms}</p>", "https://homes.example/1")).kind == "item"
    assert read_home(Document(f"{page}3 pieces</p>", "https://homes.example/1")).kind == "other"


def test_a_portal_s_json_is_read_as_the_page_that_its_program_shows() -> None:
    answer = {
        "header": {"title": "Details", "id": "12"},
        "sections": [
            {"type": "TOP", "attributes": [
                {"label": "Kaltmiete 17,51 €/m²", "highlighted": True, "text": "2.300 €"},
                {"label": "Warmmiete", "text": "2.780 €"},
            ]},
            {"type": "TITLE", "title": "Loft with a garden of its own"},
            {"type": "MAP", "address": "Kölner Straße 223, 40227 Düsseldorf"},
            {"type": "LIST", "attributes": [{"type": "TEXT", "label": "Wohnfläche ca.:", "text": "131,37 m²"}]},
        ],
    }  # fmt: skip
    home = read_home(Document(page_of_json(answer), "https://homes.example/api/12"))
    found = {name: home.get(name) for name in ("title", "price", "area", "street", "postcode", "city")}
    assert found == {
        "title": "Loft with a garden of its own", "price": "2300", "area": "131.37", "street": "Kölner Straße 223",
        "postcode": "40227", "city": "Düsseldorf",
    }  # fmt: skip


def test_json_of_any_shape_becomes_a_page() -> None:
    deep: Any = "x"
    for _ in range(1_000):
        deep = [deep]
    trees: list[Any] = [None, 1, "a < b", [], {}, deep, {"a": "https://a.example/b", "b": "CONSTANT", "c": True}]
    for tree in trees:
        assert read_home(Document(page_of_json(tree), "https://homes.example/1")).kind != "item"
    assert "a &lt; b" in page_of_json({"text": "a < b"})
