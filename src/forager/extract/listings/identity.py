"""Decides whether a page with values of a home is the page of a home. Pure.

Every shop shows prices, sales and sizes, and every company an address. What a page declares itself to be decides
first; then values, and labels of values, that only pages of homes have.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from itertools import pairwise
from typing import Any

from forager.extract.html.document import Document, VisibleLine
from forager.extract.html.page_fit import PageFit, declared_types
from forager.extract.html.structured_data import Thing
from forager.extract.listings import words
from forager.extract.tables import any_of, table
from forager.extract.text.addresses import COUNTIES
from forager.extract.text.locations import country_code, country_of_state

_DATA = table("listings")

# Street, city and postcode of a home, from the texts that may be its address. Pure.


_STREET_WORD = any_of(
    _DATA["street"],
    r"\b(?:{})\b\.?|(?:straße|strasse|str\.|weg|platz|allee|gasse|gatan|vej)\b|\b(?:calle|avenida|rue|via|rua"
    r"|paseo|ul\.)\b",
)
_STREET = re.compile(
    r"^\d+[A-Za-z]?[\s,-](?!\s*(?:bed|bath|bhk|br\b|room|sq|m2|m²|zimmer|hab|story|storey|of\b))|"
    + _STREET_WORD.pattern,
    re.IGNORECASE,
)
_POSTCODE = re.compile(
    r"\b(?:\d{5}(?:-\d{4})?|[A-Z]{1,2}\d[A-Z\d]? \d[A-Z]{2}|[A-Z]\d[A-Z] ?\d[A-Z]\d|\d{4} ?[A-Z]{2}\b|\d{4}(?=$))\b"
)
_OUTWARD = re.compile(r"\s*\b[A-Z]{1,2}\d[A-Z\d]?$")
_IN = re.compile(r"^.*?\b(?:for (?:sale|rent) in|to (?:rent|let) in|en (?:venta|alquiler) en|in)\s+", re.IGNORECASE)
_LABEL = re.compile(r"^(?:address|adresse|dirección|indirizzo|location)\s*:?\s*", re.IGNORECASE)
_NEAR = re.compile(r"\s+(?:near|at|off|corner of|auf karte)\b.*$", re.IGNORECASE)
_GLUED = re.compile(
    r"\b(Street|Road|Lane|Avenue|Drive|Close|Court|Square|Place|Grove|Terrace|Crescent|Parade|Boulevard)(?=[A-Z][a-z])"
)
"""Two elements without a blank between them: `133 Bethany RoadHoppers Crossing`."""
_CODE_FIRST = re.compile(r"\d{4,5}\s+[^\W\d]")
NO_PLACE = any_of(
    _DATA["no_place"],
    r"[@?!*=]|https?:|^(?:close|maps?|view|show|share|save|print|send|directions|search|terms|contact|karte|mapa"
    r"|carte)$|\b(?:{})\b",
)
"""Lines of buttons, links and forms next to an address."""
_TAIL = re.compile(r"\s+-\s+.*$|\s*\[.*$|\s*\([^)]*\d{4,}.*$")


LONGEST_TITLE = 500
"""Characters of a title or headline that are read. Some of the patterns for them take time by the square of a length,
and a page decides how long its title is."""


@dataclass(frozen=True, slots=True)
class AddressFound:
    street: str | None = None
    city: str | None = None
    postcode: str | None = None


def title_of(document: Document) -> str:
    """Return the beginning of the page's title, or an empty text."""
    return (document.title or "")[:LONGEST_TITLE]


def is_street(text: str) -> bool:
    """Return whether a text is a street with a number, and little else."""
    return bool(re.match(r"\d+[A-Za-z]?\s", text)) and bool(_STREET.search(text)) and len(text.split()) <= 7


def has_street_word(text: str) -> bool:
    """Return whether a text has a word for a street: `10 Tall Oak Blvd`, and not `2016 Chevrolet Colorado`."""
    return bool(_STREET_WORD.search(text))


def place_of(text: str) -> AddressFound:
    """Take an address of one line apart: `133 Bethany Road, Hoppers Crossing VIC 3029`. A part that is not certain
    is None."""
    bare = _TAIL.sub("", _LABEL.sub("", _GLUED.sub(r"\1, ", text.replace("•", ","))))
    code = _POSTCODE.search(bare)
    parts = [part.strip(" .") for part in re.split(r"[,|]", bare) if part.strip(" .")]
    streets = [at for at, part in enumerate(parts) if _STREET.search(part)]
    street = parts[streets[0]] if streets else None
    if street and len(parts) > streets[0] + 1 and re.fullmatch(r"\d+[A-Za-z]?", parts[streets[0] + 1]):
        street = f"{street}, {parts[streets[0] + 1]}"
    after = parts[(streets[0] + 1 if streets else 0) :]
    names = [name for part in after if (name := _town(part))]
    names += [name for part in after if _CODE_FIRST.match(part) and (name := _town(part))]  # beside its code, surely
    street = _NEAR.sub("", _IN.sub("", street)) if street and not re.match(r"\d{4}-\d\d", street) else None
    return AddressFound(street, names[-1] if names else None, code[0] if code else None)


def _town(part: str) -> str | None:
    """Return the name of a town in a part of an address, without its state and code; None for a county or a country."""
    name = _OUTWARD.sub("", _POSTCODE.sub("", part)).strip(" ,.-")
    words = name.split()
    if len(words) > 1 and words[-1].isupper() and len(words[-1]) <= 3:
        name = " ".join(words[:-1])
    is_other = country_code(name, codes=False) or name.casefold() in COUNTIES or re.search(r"\d", name)
    if not name or is_other or (name.isupper() and len(name) <= 3) or country_of_state(name):
        return None
    return name if len(name) <= 40 else None


# The values of a home that were found on a page.


@dataclass(slots=True)
class ListingValues:
    """Values by field, each with its source and confidence. The first value of a field holds."""

    kind: PageFit = "item"
    values: dict[str, tuple[Any, str, float]] = field(default_factory=dict)
    has_home_label: bool = False
    """True if the label of the price stands only on pages of homes: `Kaltmiete`, `asking price`."""
    in_dollars: bool = False
    """True if the price has the sign `$`, which several countries use."""

    def add(self, name: str, value: Any, source: str, confidence: float) -> None:
        if value not in (None, "") and name not in self.values:
            self.values[name] = (value, source, confidence)

    def get(self, name: str) -> Any:
        return self.values[name][0] if name in self.values else None

    def source(self, name: str) -> str | None:
        return self.values[name][1] if name in self.values else None


DWELLINGS = (
    "RealEstateListing", "Apartment", "House", "SingleFamilyResidence", "Residence", "ApartmentComplex",
    "Accommodation", "Suite",
)  # fmt: skip
"""Types of structured data that declare a home."""
HOMES = (*DWELLINGS, "Product")
"""Types that pages of homes have. Some portals mark homes as products, as every shop marks its goods."""
LEAST_HOME_PRICE = Decimal(50_000)
"""Amount from which a price is likely to be a home's although its label is one of shops as well."""

LEAST_MATTERS = 2
"""Matters of homes that a page must speak of if its only value of a home is a street."""


def is_home(home: ListingValues, document: Document, known: Iterable[Thing], scope: Sequence[VisibleLine]) -> bool:
    """Return whether the page is that of a home.

    A page that declares a home is one if it has any value of it. A page that declares only a product needs a value
    that products do not have: bedrooms, rooms, a rent period, an address of its own, or a price that is labelled as
    homes' prices are. On a page that declares neither, bedrooms, an area next to a price or a street, or a word for
    rent or sale next to a price is enough. A street is not: every firm has one. It needs words of homes on the page,
    and a headline other than that of a firm's contact page.
    """
    declared = declared_types(known)
    if declared & frozenset(DWELLINGS):
        return bool(home.values.keys() - {"title", "offer"})
    if "Product" in declared or (document.metas.get("og:type") or "").casefold().endswith("product"):
        return _is_no_product(home, scope)
    if _is_priced_as_a_home(home, document, scope):
        return True
    if words.NOT_A_HOME.search(home.get("title") or title_of(document)):
        return False
    has_place = _has_street(home)
    if "bedrooms" in home.values or ("area" in home.values and (has_place or "price" in home.values)):
        return True
    return (has_place or "area" in home.values) and _speaks_of_homes(document)


def _is_no_product(home: ListingValues, scope: Sequence[VisibleLine]) -> bool:
    is_found = bool(home.values.keys() & {"bedrooms", "price_period"}) or home.has_home_label
    return is_found or _has_own_street(home) or _has_rooms(scope) or _has_living_area(scope)


def _has_street(home: ListingValues) -> bool:
    """Return whether the street is one: it is in an address, or has a word for a street. A headline that begins
    with a number may be a model (`2016 Colorado`), and any text with commas an offer (`12 gears, new`)."""
    source = home.source("street")
    return source is not None and (source not in ("css:h1", "text:address") or has_street_word(home.get("street")))


def _has_own_street(home: ListingValues) -> bool:
    """Return whether the street is where the address of the item does. One in the text may be that of the shop."""
    return _has_street(home) and home.source("street") != "text:address"


def _is_priced_as_a_home(home: ListingValues, document: Document, scope: Sequence[VisibleLine]) -> bool:
    """Return whether a price is next to a word for rent or sale, its period or a number of rooms, or under a
    label that only homes have. Under a label that shops also use, it must be high, or the title must name a kind of
    home."""
    if "price" not in home.values:
        return False
    if home.values.keys() & {"offer", "price_period"} or home.has_home_label or _has_rooms(scope):
        return True
    is_dear = Decimal(home.get("price")) >= LEAST_HOME_PRICE
    if is_dear and "street" in home.values:
        return True
    titles = f"{(home.get('title') or '')[:LONGEST_TITLE]} {title_of(document)}"
    return home.source("price") == "label:price" and (is_dear or bool(words.DWELLING.search(titles)))


def _speaks_of_homes(document: Document) -> bool:
    """Return whether the page has words of several different matters of homes."""
    text = document.text
    return sum(bool(pattern.search(text)) for pattern in words.MATTERS_OF_HOMES) >= LEAST_MATTERS


def _has_rooms(scope: Sequence[VisibleLine]) -> bool:
    """Return whether a line is a number of rooms and no more, or two lines are: the label and its number."""
    texts = [line.text for line in scope if len(line.text) <= 40]
    return any(words.ROOMS.fullmatch(text) for text in (*texts, *(f"{one} {two}" for one, two in pairwise(texts))))


def _has_living_area(scope: Sequence[VisibleLine]) -> bool:
    return any(words.LIVING_AREA.match(line.text) for line in scope)
