"""Whether a page that has values of a home is the page of a home. Pure.

Every shop shows prices, sales and sizes, and every company an address. What a page declares itself to be decides
first; then values, and labels of values, that only pages of homes have.
"""

from collections.abc import Iterable, Sequence
from decimal import Decimal
from itertools import pairwise

from forager.extract.document import Document, Line
from forager.extract.homes import words
from forager.extract.homes.places import has_street_word
from forager.extract.homes.values import Home
from forager.extract.page_kind import declared_types
from forager.extract.structured_data import Thing

DWELLINGS = (
    "RealEstateListing", "Apartment", "House", "SingleFamilyResidence", "Residence", "ApartmentComplex",
    "Accommodation", "Suite",
)  # fmt: skip
"""Types of structured data that declare a home."""
HOMES = (*DWELLINGS, "Product")
"""Types that pages of homes have. Some portals mark homes as products, as every shop marks its goods."""
LEAST_HOME_PRICE = Decimal(50_000)
"""Amount from which a price under a label that shops use, too, is likely to be a home's."""

LEAST_MATTERS = 2
"""Matters of homes that a page must speak of if its only value of a home is a street."""


def is_home(home: Home, document: Document, known: Iterable[Thing], scope: Sequence[Line]) -> bool:
    """Whether the page is that of a home.

    A page that declares a home is one if it has any value of it. A page that declares only a product needs a value
    that products do not have: bedrooms, rooms, a rent period, an address of its own, or a price that is labelled as
    homes' prices are. On a page that declares neither, bedrooms, an area beside a price or a street, or a word for rent
    or sale beside a price is enough. A street is not: every firm has one. It needs words of homes on the page, and a
    headline that is not that of a firm's contact page.
    """
    declared = declared_types(known)
    if declared & frozenset(DWELLINGS):
        return bool(home.values.keys() - {"title", "offer"})
    if "Product" in declared or (document.metas.get("og:type") or "").casefold().endswith("product"):
        return _is_no_product(home, scope)
    if _is_priced_as_a_home(home, document, scope):
        return True
    if words.NOT_A_HOME.search(home.get("title") or document.title or ""):
        return False
    has_place = _has_street(home)
    if "bedrooms" in home.values or ("area" in home.values and (has_place or "price" in home.values)):
        return True
    return (has_place or "area" in home.values) and _speaks_of_homes(document)


def _is_no_product(home: Home, scope: Sequence[Line]) -> bool:
    is_found = bool(home.values.keys() & {"bedrooms", "price_period"}) or home.has_home_label
    return is_found or _has_own_street(home) or _has_rooms(scope) or _has_living_area(scope)


def _has_street(home: Home) -> bool:
    """Whether the street is one: it stands in an address, or has a word for a street. A headline that begins with a
    number may be a model (`2016 Colorado`), and any text with commas an offer (`12 gears, new`)."""
    source = home.source("street")
    return source is not None and (source not in ("css:h1", "text:address") or has_street_word(home.get("street")))


def _has_own_street(home: Home) -> bool:
    """Whether the street stands where the address of the item does. One in the text may be that of the shop."""
    return _has_street(home) and home.source("street") != "text:address"


def _is_priced_as_a_home(home: Home, document: Document, scope: Sequence[Line]) -> bool:
    """Whether a price stands beside a word for rent or sale, its period or a number of rooms, or under a label that
    only homes have. Under a label that shops use, too, it must be high, or the title name a kind of home."""
    if "price" not in home.values:
        return False
    if home.values.keys() & {"offer", "price_period"} or home.has_home_label or _has_rooms(scope):
        return True
    is_dear = Decimal(home.get("price")) >= LEAST_HOME_PRICE
    if is_dear and "street" in home.values:
        return True
    titles = f"{home.get('title') or ''} {document.title or ''}"
    return home.source("price") == "label:price" and (is_dear or bool(words.DWELLING.search(titles)))


def _speaks_of_homes(document: Document) -> bool:
    """Whether the page has words of several different matters of homes."""
    text = document.text
    return sum(bool(pattern.search(text)) for pattern in words.MATTERS_OF_HOMES) >= LEAST_MATTERS


def _has_rooms(scope: Sequence[Line]) -> bool:
    """Whether a line is a number of rooms and no more, or two lines are: the label and its number."""
    texts = [line.text for line in scope if len(line.text) <= 40]
    return any(words.ROOMS.fullmatch(text) for text in (*texts, *(f"{one} {two}" for one, two in pairwise(texts))))


def _has_living_area(scope: Sequence[Line]) -> bool:
    return any(words.LIVING_AREA.match(line.text) for line in scope)
