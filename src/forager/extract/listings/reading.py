"""A home by its page: structured data first, then the text around the headline. Pure.

Prices are all over such a page: per area, deposits, mortgages, averages of the street, other homes. Only the amount
next to a word for the price, or the first one near the headline, is the price.
"""

import re
from collections.abc import Iterator, Sequence
from datetime import date
from decimal import Decimal
from itertools import pairwise
from typing import Any
from urllib.parse import unquote

from selectolax.lexbor import LexborNode

from forager.extract.html.document import Document, VisibleLine
from forager.extract.html.page_fit import PageFit, declares_other, error_of, is_empty
from forager.extract.html.page_kind import page_kind
from forager.extract.html.structured_data import Thing, first, of_type, text_of, things, types_of
from forager.extract.listings import words
from forager.extract.listings.identity import (
    DWELLINGS,
    HOMES,
    LONGEST_TITLE,
    NO_PLACE,
    AddressFound,
    ListingValues,
    is_home,
    is_street,
    place_of,
    title_of,
)
from forager.extract.tables import table
from forager.extract.text.addresses import addresses, american, australian
from forager.extract.text.gazetteer import is_city_in
from forager.extract.text.prices import parse_price
from forager.extract.text.strings import one_line

_DATA = table("listings")

# A day as pages write it: `1. September 2026`, `Sep 1, 2026`, `1er septembre 2026`, `2026-09-01`. Pure.
#
# `9/10/2026` is the ninth of October in most countries and the tenth of September in one: it is no day here.


_MONTHS = tuple(_DATA["months"])
"""Beginnings of the names of the months, in the languages that are read."""
_ISO = re.compile(r"(?P<year>20\d\d)-(?P<month>\d{1,2})-(?P<day>\d{1,2})")
_DOTTED = re.compile(r"(?P<day>\d{1,2})\.(?P<month>\d{1,2})\.(?P<year>20\d\d)")
_SLASHED = re.compile(r"(?P<one>\d{1,2})/(?P<two>\d{1,2})/(?P<year>20\d\d)")
_DAY_FIRST = re.compile(
    r"(?P<day>\d{1,2})(?:er|st|nd|rd|th|\.|º)?\s+(?:de\s+)?(?P<name>[^\W\d]+)\.?,?\s+(?:de\s+)?(?P<year>20\d\d)"
)
_MONTH_FIRST = re.compile(r"(?P<name>[^\W\d]+)\.?\s+(?P<day>\d{1,2})(?:st|nd|rd|th)?,?\s+(?P<year>20\d\d)")


def day_of(text: str) -> date | None:
    """Parse a date. None if the text is not a date, or is ambiguous."""
    for pattern in (_ISO, _DOTTED):
        if match := pattern.fullmatch(text):
            return _date(match["year"], int(match["month"]), match["day"])
    if match := _SLASHED.fullmatch(text):
        one, two = int(match["one"]), int(match["two"])
        if (one > 12) == (two > 12) and one != two:
            return None
        return _date(match["year"], min(one, two) if one > 12 or two > 12 else one, str(max(one, two)))
    match = _DAY_FIRST.fullmatch(text) or _MONTH_FIRST.fullmatch(text)
    month = _month(match["name"].casefold()) if match else None
    return _date(match["year"], month, match["day"]) if match and month else None


def _month(name: str) -> int | None:
    found = [
        (len(start), at) for at, starts in enumerate(_MONTHS, 1) for start in starts.split() if name.startswith(start)
    ]
    return max(found)[1] if found else None


def _date(year: str, month: int, day: str) -> date | None:
    try:
        return date(int(year), month, int(day))
    except ValueError:
        return None


NEAR = 14
"""Lines around the headline in which the price stands."""
LEAST_PRICE = Decimal(100)
LONGEST_UNIT, LONGEST_OFFER = 12, 20
MANY = 8
"""Prices from which a page with the headline of a list is a list."""
STRUCTURED, SELECTOR, LABEL, NEARBY, GUESS = 0.95, 0.85, 0.8, 0.7, 0.55
_AROUND = frozenset(("nav", "footer", "header", "aside"))
_SIGNED = re.compile(
    r"[$€£₹¥₽₺₪₱₫฿円]|zł|Kč|\b(?:EUR|eur|USD|GBP|AUD|CAD|ZAR|CHF|PLN|CZK|SEK|NOK|DKK|HUF|AED|Ft|TL)\b|\bRs\.?|\bR \d"
    r"|\d\s?kr\b|руб"
)
_FORM_CLASS = re.compile(r"form|contact|request|message|mail", re.IGNORECASE)
"""Elements for the input of an address or a message."""
_CITY_AND_CODE = re.compile(r"(?P<city>[^\W\d][^\d,]{1,40}?)\s*\(?\d{4,5}\)?|\d{4,5}\s+(?P<last>[^\W\d][^\d,]{1,40})")
"""`Nantes 44000`, `Nantes (44000)`, `44000 Nantes`."""
_NEVER = frozenset(("article", "documentation", "forum", "posting", "postings"))
"""Kinds of pages that never describe a home, even if they contain streets and rents."""
_PRICES = ("price", "minPrice", "lowPrice")


def read_home(document: Document) -> ListingValues:
    """Read a page. A list of homes, an error or an empty page has that `kind`, and no values."""
    home = ListingValues()
    lines = [line for line in document.shown if line.area not in _AROUND]
    headline = _headline(document)
    home.kind = _kind(document, lines, headline)
    if home.kind != "item":
        return home
    known = things(document)
    if page_kind(document).kind in _NEVER:
        return ListingValues("other")
    if declares_other(known, *HOMES):
        return ListingValues("other")
    for thing in of_type(known, *HOMES):
        _read_thing(thing, home)
    for thing in of_type(known, "Offer"):
        offered = first(thing.get("itemOffered"))
        if isinstance(offered, dict) and types_of(offered) & frozenset(DWELLINGS):
            _read_offered(thing.data, f"{thing.source}:Offer", home)
    home.add("title", headline, "css:h1", LABEL)
    scope = _scope(lines, headline)
    _read_price(scope, headline, home)
    _read_numbers(scope, headline, home)
    _read_place(document, scope, headline, home)
    _read_offer(document, scope, headline, home)
    return home if is_home(home, document, known, scope) else ListingValues("other")


def _headline(document: Document) -> str | None:
    texts = [text for node in document.tree.css("h1")[:5] if (text := _words_of(node))]
    title = title_of(document)
    if texts:
        return next((text for text in texts if text.casefold() in title.casefold()), texts[0])
    for node in document.tree.css("h2")[:5]:
        text = _words_of(node)
        if len(text) > 5 and title.casefold().startswith(text.casefold()):
            return text
    return re.split(r"\s+[|–-]\s+", title)[0] or None


def _words_of(node: LexborNode) -> str:
    return one_line(node.text(separator=" "))[:LONGEST_TITLE].rstrip()


def _kind(document: Document, lines: Sequence[VisibleLine], headline: str | None) -> PageFit:
    if is_empty(document):
        return "empty"
    if error_of(document):
        return "error"
    amounts = {line.text for line in lines if len(line.text) <= 80 and _amount(line.text) is not None}
    listed = headline is None or words.LIST_TITLE.match(headline) or not document.tree.css_first("h1")
    if len(amounts) >= MANY and listed and not re.match(r"\d", headline or ""):
        return "list"
    return "item"


def _scope(lines: Sequence[VisibleLine], headline: str | None) -> list[VisibleLine]:
    """From shortly before the headline to where other homes begin."""
    start = next((at for at, line in enumerate(lines) if headline and headline in line.text), 0)
    begin = max(0, start - NEAR)
    end = next((at for at, line in enumerate(lines) if at > start and words.ENDS.match(line.text)), len(lines))
    return list(lines[begin:end])


def _read_thing(thing: Thing, home: ListingValues) -> None:
    kind = min(thing.types)
    source = f"{thing.source}:{kind}"
    offer = first(thing.get("offers"))
    if isinstance(offer, dict) and ("Product" not in thing.types or thing.types & frozenset(DWELLINGS)):
        _read_offered(offer, f"{source}.offers", home)
    address = first(thing.get("address"))
    if isinstance(address, dict):
        street = text_of(address.get("streetAddress"))
        if street and "," in street:
            street = place_of(street).street or street
        home.add("street", street, f"{source}.address", STRUCTURED)
        home.add("city", text_of(address.get("addressLocality")), f"{source}.address", STRUCTURED)
        home.add("state_region", text_of(address.get("addressRegion")), f"{source}.address", STRUCTURED)
        home.add("postcode", text_of(address.get("postalCode")), f"{source}.address", STRUCTURED)
        home.add("country", text_of(address.get("addressCountry")), f"{source}.address", STRUCTURED)
    home.add("bedrooms", _plain(text_of(thing.get("numberOfBedrooms"))), f"{source}.numberOfBedrooms", STRUCTURED)
    baths = thing.get("numberOfBathroomsTotal", "numberOfFullBathrooms")
    home.add("bathrooms", _plain(text_of(baths)), f"{source}.numberOfBathroomsTotal", STRUCTURED)
    size = first(thing.get("floorSize"))
    if isinstance(size, dict) and (number := _area(text_of(size.get("value")) or "")):
        unit = (text_of(size.get("unitCode")) or text_of(size.get("unitText")) or "").casefold()
        home.add("area", number, f"{source}.floorSize", STRUCTURED)
        home.add("area_unit", "sqft" if unit in ("ftk", "sqft", "sq ft", "square feet") else "m2", source, STRUCTURED)


def _read_offered(offer: dict[str, Any], source: str, home: ListingValues) -> None:
    """Add the price of an offer, or of its price specification; of a range, the low end."""
    for part in (offer, first(offer.get("priceSpecification"))):
        if not isinstance(part, dict):
            continue
        price = parse_price(next((text for name in _PRICES if (text := text_of(part.get(name)))), None))
        if price.amount and price.amount >= LEAST_PRICE:
            home.add("price", str(price.amount), source, STRUCTURED)
            home.add("currency", text_of(part.get("priceCurrency") or offer.get("priceCurrency")), source, STRUCTURED)


def _read_price(scope: Sequence[VisibleLine], headline: str | None, home: ListingValues) -> None:
    if any(words.NO_PRICE.search(line.text) for line in scope[: 3 * NEAR] if len(line.text) <= 60):
        return
    headlines = [at for at, line in enumerate(scope) if headline and headline in line.text] or [0]
    labelled, near = [], []
    for at, line in enumerate(scope):
        before = scope[at - 1].text if at else ""
        amount = _amount(line.text, before)
        if amount is None:
            continue
        if label := _price_label(scope, at):
            labelled.append((line.text, amount, bool(words.HOME_PRICE.match(label))))
        elif min(abs(at - each) for each in headlines) <= NEAR:
            near.append((line.text, amount, False))
    for found, source, sure in ((labelled, "label:price", LABEL), (near, "text:price", NEARBY)):
        for text, amount, has_home_label in found[:1]:
            home.add("price", str(amount), source, sure)
            priced = parse_price(text)
            home.add("currency", priced.currency, source, sure)
            home.in_dollars |= priced.symbol == "$"
            home.add("price_period", _period(text), source, sure)
            home.has_home_label |= has_home_label


def _price_label(scope: Sequence[VisibleLine], at: int) -> str | None:
    """Return the line that labels an amount as the price: its own, the one above or the one below; or None."""
    if words.PRICE_LABEL.match(scope[at].text):
        return scope[at].text
    if _labels(scope, at):
        return scope[at - 1].text
    after = scope[at + 1].text if at + 1 < len(scope) else ""
    return after if _is_below(scope, at) and _is_label(after) else None


def _labels_other(text: str) -> bool:
    """Return whether a line labels another amount. A line with an amount of its own is not a label."""
    return len(text) <= 40 and not re.search(r"\d", text) and bool(words.OTHER_MONEY.search(text))


def _is_label(text: str) -> bool:
    return len(text) <= 40 and bool(words.PRICE_LABEL.match(text))


def _labels(scope: Sequence[VisibleLine], at: int) -> bool:
    """Return whether the line above is a label for the price, and not one that is under the amount before it."""
    return at > 0 and _is_label(scope[at - 1].text) and not (at > 1 and _is_below(scope, at - 2))


def _is_below(scope: Sequence[VisibleLine], at: int) -> bool:
    """Return whether the label of an amount is below it: the line below is a label, and the line above is not."""
    above = scope[at - 1].text if at else ""
    is_amount = bool(_SIGNED.search(scope[at].text)) and len(scope[at].text) <= 20
    return is_amount and not _is_label(above) and not words.OTHER_MONEY.search(above[:40])


def _amount(text: str, before: str = "") -> Decimal | None:
    """Return the price in a line; None if it is an amount of something else."""
    if len(text) > 140 or not _SIGNED.search(text):
        return None
    head = words.PER_AREA.sub(" ", re.split(r"\s@\s|\(", text)[0])
    if words.OTHER_MONEY.search(head[:60]) or (_labels_other(before)):
        return None
    sign = _SIGNED.search(head)
    price = parse_price(head[max(0, sign.start() - 12) :] if sign else head)
    amount = price.amount
    if amount is not None and price.text is not None:
        times = words.times(head[head.find(price.text) + len(price.text) :])
        amount = amount if times == 1 else Decimal(int(amount * times))
    return amount if amount is not None and amount >= LEAST_PRICE else None


def _period(text: str) -> str | None:
    return next((name for name, pattern in words.PERIODS if pattern.search(text)), None)


def _read_numbers(scope: Sequence[VisibleLine], headline: str | None, home: ListingValues) -> None:
    texts = [*([headline] if headline else []), *(line.text for line in scope if len(line.text) <= 300)]
    for name, patterns in (
        ("bedrooms", (words.BEDS, words.BEDS_AFTER)),
        ("bathrooms", (words.BATHS, words.BATHS_AFTER)),
    ):
        found = next((match for text in texts for each in patterns if (match := each.search(text))), None)
        if found:
            home.add(name, _plain(words.number_of(found)), "text", NEARBY)
    for text in texts[1:]:
        match = words.LABELLED_AREA.search(text)
        if match:
            home.add("area", _area(match["number"]), "label:area", LABEL)
            home.add(
                "area_unit", "sqft" if "ft" in match[0].casefold() or "feet" in match[0] else "m2", "label:area", LABEL
            )
    labelled = (below.text for line, below in pairwise(scope) if words.AREA_LABEL.fullmatch(line.text))
    for near, source, sure in (
        (tuple(labelled), "label:area", LABEL),
        ((*texts[1:], *_in_two_lines(scope)), "text", NEARBY),
    ):
        for text in near:
            match = words.AREA.search(text)
            if match and not words.OTHER_AREA.search(text[: match.start()][-25:]):
                home.add("area", _area(match["number"]), source, sure)
                home.add("area_unit", "sqft" if "f" in match["unit"].casefold() else "m2", source, sure)
                break


def _in_two_lines(scope: Sequence[VisibleLine]) -> Iterator[str]:
    """Yield a number and the unit of area under it as one text."""
    for line, below in pairwise(scope):
        if words.BARE_NUMBER.fullmatch(line.text) and len(below.text) <= LONGEST_UNIT:
            yield f"{line.text} {below.text}"


def _read_place(document: Document, scope: Sequence[VisibleLine], headline: str | None, home: ListingValues) -> None:
    for text, source, sure in _address_texts(document, scope, headline):
        place = place_of(text)
        if place.city or place.street:
            _add_place(place, source, sure, home)
            _add_state(text, source, sure, home)
        if home.get("city") and home.get("street"):
            break
    _read_address(document, home)
    title = re.split(r"\s+[|]\s+", title_of(document))[0]
    told = re.search(r"\b(?:in|en)\s+(?P<place>[^|]{4,80})$", title)
    if told and not home.get("city"):
        _add_place(place_of(told["place"]), "title", GUESS, home)


DOLLARS = {"US": "USD", "CA": "CAD", "AU": "AUD"}


def _add_state(text: str, source: str, sure: float, home: ListingValues) -> None:
    """Add state and country of an address that names them beside its postcode (`Decorah, IA 52101`), and by them the
    currency of a price in dollars."""
    where = american([text], 0) or australian([text], 0)
    if where is None or where.country is None or where.city != home.get("city"):
        return
    home.add("state_region", where.state_region, source, sure)
    home.add("country", where.country, source, sure)
    if home.in_dollars:
        home.add("currency", DOLLARS[where.country], source, sure)


def _read_address(document: Document, home: ListingValues) -> None:
    """Add the first address of the page that is not in its footer, where it is the portal's."""
    shown = document.shown
    for address in addresses(document):
        if shown[address.line].area == "footer":
            continue
        line = shown[address.line].text
        above = shown[address.line - 1].text if address.line else ""
        street = place_of(line).street or place_of(above).street
        found = AddressFound(street, address.where.city, place_of(line).postcode)
        _add_place(found, "text:address", GUESS, home)
        break


def _add_place(place: AddressFound, source: str, sure: float, home: ListingValues) -> None:
    """Add the parts of an address. A city out of plain text needs a postcode next to it, or a city of that name."""
    home.add("street", place.street, source, sure)
    if place.city and (sure >= SELECTOR or place.postcode or is_city_in(place.city, None)):
        home.add("city", place.city, source, sure)
    home.add("postcode", place.postcode, source, sure)


def _address_texts(
    document: Document, scope: Sequence[VisibleLine], headline: str | None
) -> Iterator[tuple[str, str, float]]:
    """Texts that may be the address, the most likely first."""
    for node in document.tree.css("[itemprop=address], [class*='address' i], [data-testid*='address' i]")[:5]:
        if _FORM_CLASS.search(node.attributes.get("class") or ""):
            continue
        lines = [line.text.strip(" ,") for line in document.lines_in(node) if line.tag != "button"]
        text = ", ".join(line for line in lines if not NO_PLACE.search(line))
        if 5 < len(text) <= 120 and not _is_in_footer(node):
            yield text, "css:address", SELECTOR
    if headline and ("," in headline or is_street(headline)):
        yield headline, "css:h1", LABEL
    at = next((at for at, line in enumerate(scope) if headline and headline in line.text), 0)
    for line in scope[at + 1 : at + 4]:
        if len(line.text) > 120 or _SIGNED.search(line.text):
            continue
        coded = _CITY_AND_CODE.fullmatch(line.text)
        if "," in line.text or (coded and is_city_in(coded["city"] or coded["last"], None)):
            yield line.text, "text:address", NEARBY


def _is_in_footer(node: LexborNode) -> bool:
    """Return whether an element is in the page's footer, where the address is that of the portal or the shop."""
    above: LexborNode | None = node
    while above is not None and above.tag != "footer":
        above = above.parent
    return above is not None


def _read_offer(document: Document, scope: Sequence[VisibleLine], headline: str | None, home: ListingValues) -> None:
    told = f"{headline or ''} {title_of(document)} {unquote(document.url)} {_trail(document)}"
    is_rent, is_sale = bool(words.RENT.search(told)), bool(words.SALE.search(told))
    if is_rent != is_sale:
        home.add("offer", "rent" if is_rent else "sale", "title", LABEL)
    for line in scope[: 2 * NEAR]:  # a line of its own: `For sale`
        if len(line.text) <= LONGEST_OFFER and (words.RENT.fullmatch(line.text) or words.SALE.fullmatch(line.text)):
            home.add("offer", "rent" if words.RENT.fullmatch(line.text) else "sale", "text", NEARBY)
    for line in scope:
        match = words.AVAILABLE.search(line.text[:300])
        if match and (day := day_of(match["date"])):
            home.add("available_from", day.isoformat(), "text", NEARBY)
            return
    for line, below in pairwise(scope):
        match = words.AVAILABLE.search(f"{line.text} {below.text}") if len(line.text) <= 40 else None
        if match and (day := day_of(match["date"])):
            home.add("available_from", day.isoformat(), "label:available", LABEL)
            return


def _trail(document: Document) -> str:
    """Return the words of the breadcrumb trail, whose first steps are often rent or sale."""
    nodes = document.tree.css("[class*='breadcrumb' i], [aria-label*='breadcrumb' i]")[:2]
    return " ".join(one_line(node.text(separator=" "))[:LONGEST_TITLE] for node in nodes)


def _area(text: str) -> str | None:
    amount = parse_price(f"{text} €").amount if text else None
    return None if amount is None or not 5 <= amount <= 100_000 else _plain(str(amount))


def _plain(text: str | None) -> str | None:
    """Return a number without a needless `.0`; None for anything else."""
    match = re.match(r"\d+(?:\.\d+)?", (text or "").replace(",", "."))
    if not match:
        return None
    return match[0].rstrip("0").rstrip(".") if "." in match[0] else match[0]
