"""A price out of the text in which people write it: `1.299,00 €`, `from $5`, `2 for £3`, `,89`, `140.000`. Pure.

It is careful: a percentage or a negative amount is not a price, and the price of a range is its low end. The end of
this file recognises whether a product can be bought, from the many phrases that pages use.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import islice
from typing import Literal

from forager.extract.tables import any_of_lower, by_member, spoken, table

_DATA = table("currencies")

# Currencies as pages write them: symbols, codes and words, and the ISO 4217 code of those that are unmistakable. Pure.
#
# A symbol that several countries use (`$`, `kr`, `¥`) has no code: assuming one would be wrong for the others.


_SYMBOLS: dict[str, str | None] = by_member(_DATA["symbols"]) | dict.fromkeys(_DATA["shared_symbols"])
_CODES = frozenset(_DATA["codes"].split())


def is_currency(code: str) -> bool:
    """Return whether this is an ISO 4217 code, in upper case."""
    return code in _CODES


def iso_currency(written: str | None) -> str | None:
    """Return the ISO 4217 code for a symbol, word or code; None if it is unknown or several currencies share it."""
    if not written:
        return None
    text = written.strip()
    if text.upper() in _CODES:
        return text.upper()
    return _SYMBOLS.get(text)


class _Tree(dict[str, "_Tree"]):
    """Codes and symbols by their letters, so that a text is looked through once and not once for each of them."""

    ends = False

    def add(self, written: str) -> None:
        node = self
        for letter in written:
            node = node.setdefault(letter, _Tree())
        node.ends = True

    def pattern(self, written: str = "") -> str:
        """Matches the longest one. What begins or ends with a letter must not be part of a word."""
        after = [re.escape(letter) + node.pattern(written + letter) for letter, node in sorted(self.items())]
        here = [_border(written)] if self.ends else []
        return f"(?:{'|'.join(after + here)})" if len(after) + len(here) > 1 else "".join(after + here)


def _border(written: str) -> str:
    if written == "R":
        return r"(?=\s?\d)"
    return r"(?![^\W\d_])" if written[-1].isalpha() else ""


def _finder() -> re.Pattern[str]:
    words, signs = _Tree(), _Tree()
    for each in {*_CODES, *(code.lower() for code in _CODES), *_SYMBOLS}:
        (words if each[0].isalpha() else signs).add(each)
    return re.compile(rf"(?<![^\W\d_]){words.pattern()}|{signs.pattern()}")


CURRENCY = _finder()
"""Finds a currency in a text, the longest one that begins at a place."""


LONGEST = 300
MOST_NUMBERS = 20
_BLANK = "[\\s\u00a0\u2009\u202f]"
_NUMBER = re.compile(
    rf"[.,]?(?:\d{{1,3}}(?:{_BLANK}\d{{3}}(?!\d))++(?:[.,]\d+)?|\d+(?:[.,'’`´]\d+)*+)"
    rf"(?:[.,]{_BLANK}\d\d(?![\d.,]))?+(?:[.,](?=\D|$))?"
)
"""A blank is part of a number only before groups of three digits, or between the separator and two last ones."""
_BETWEEN = re.compile(r"(?<![.,\d])(\d+(?:[., ]\d{3})*)\s*(?:[€$£]|€uro)\s*(\d{2})(?![\d.,]|\s*[€$£])")
"""The symbol as the decimal point: `12€99`."""
_SEVERAL = re.compile(r"\s*(?:for|für|pour|voor|por|za|x|×)\s*(?=[^\d\s]{0,4}\s*\d)", re.IGNORECASE)
"""The word between a count and the price of that count: `2 for £3`."""
_NOW = re.compile(r"\b(?:now|jetzt|aktuell|maintenant|ahora|adesso|nu|teraz|nyní|сейчас)\b", re.IGNORECASE)
_FREE = re.compile(r"^\W*(?:free|gratis|kostenlos|gratuit|бесплатно)\W*$", re.IGNORECASE)
_CLOSE = re.compile(rf"(?:[.,]?[-–—]{{1,2}})?{_BLANK}*")
"""Between a number and its currency: nothing, or the dash of `5,-`."""
_DATE = re.compile(r"\d{1,2}[./-]\d{1,2}[./-](?:19|20)\d\d|(?:19|20)\d\d-\d\d-\d\d")
_ORDINAL_GROUPS = re.compile(r"\d{1,3}(?:(?P<sep>[.,])\d{3})(?:(?P=sep)\d{3})*")
_THOUSANDTHS = frozenset(("BHD", "IQD", "JOD", "KWD", "LYD", "OMR", "TND"))
"""Currencies with three decimals: `12.500 KD` is twelve and a half."""


_SEPARATORS = str.maketrans({"٬": ",", "٫": ".", "，": ",", "．": "."})
_KRONOR = re.compile(r"(?<=\d):[-–](?!\d)")
_PERCENT = re.compile(r"\s*%")
_MINUS = re.compile(r"(?:^|\s)[-−–](?:[€$£¥₹]\s?)?$")

Span = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Price:
    """The price found in a text."""

    amount: Decimal | None
    """None if there is no credible price."""
    currency: str | None
    """ISO 4217; None if the text has none, or one that several countries share (`$`)."""
    symbol: str | None
    """The currency as it is written."""
    text: str | None = None
    """The number as it is written."""


def parse_price(text: str | None, hint: str | None = None, *, decimal: str | None = None) -> Price:
    """Read the first price in a text.

    `hint` is another text that may hold the currency, such as an element next to the price. `decimal` is the decimal
    separator, if it is known. A text without a price gives a `Price` without an amount.
    """
    source = _plain((text or "")[:LONGEST])
    symbol = _currency(source, hint)
    iso = iso_currency(symbol)
    if _FREE.match(source):
        return Price(Decimal(0), iso, symbol, "0")
    number = _best_number(_BETWEEN.sub(r"\1.\2", source))
    if number is None:
        return Price(None, iso, symbol)
    amount = to_amount(number, decimal if decimal in (".", ",") else None, iso)
    return Price(amount, iso, symbol, number)


def _plain(text: str) -> str:
    """Return the text with separators in ASCII, and with the Swedish `:-` as the currency that it means."""
    if not text.isascii():
        text = text.translate(_SEPARATORS)
    return _KRONOR.sub(" kr", text) if ":" in text else text


def to_amount(number: str, decimal: str | None = None, currency: str | None = None) -> Decimal | None:
    """Parse a written number as a decimal. Separators are distinguished by their position."""
    bare = re.sub(rf"{_BLANK}|['’`´]", "", number).rstrip(".,")  # `$4.95, free` or `5,-`: no digit follows
    point = decimal or _decimal_separator(bare, currency)
    if point is None:
        plain = re.sub(r"[.,]", "", bare)
    else:
        other = "," if point == "." else "."
        whole, _, fraction = bare.replace(other, "").rpartition(point)
        plain = f"{whole.replace(point, '') or '0'}.{fraction or '0'}"
    return Decimal(plain) if re.fullmatch(r"\d+(?:\.\d+)?", plain) and len(plain) <= 40 else None


def _decimal_separator(bare: str, currency: str | None) -> str | None:
    """Return the last separator, unless it can only separate thousands."""
    last = max(bare.rfind("."), bare.rfind(","))
    if last < 0:
        return None
    separator, digits = bare[last], len(bare) - last - 1
    if bare.count(separator) > 1:
        return None
    if digits == 3 and _ORDINAL_GROUPS.fullmatch(bare) and not bare.startswith("0") and currency not in _THOUSANDTHS:
        return None
    return separator


def _best_number(text: str) -> str | None:
    """Return the number of the price: a number next to a currency before any other, today's before what it was, and
    otherwise the first."""
    marks = [mark.span() for mark in islice(CURRENCY.finditer(text), MOST_NUMBERS)]
    dates = [date.span() for date in _DATE.finditer(text)]
    matches = islice(_NUMBER.finditer(text), MOST_NUMBERS)
    numbers = [each for each in matches if _may_be_price(text, each, marks, dates)]
    priced = [each for each in numbers if any(_belong(text, each, mark) for mark in marks)]
    if len(priced) > 1 and (now := _NOW.search(text, priced[0].end())):
        later = [each for each in priced if each.start() >= now.end() and re.search("[1-9]", each[0])]
        priced = later or priced
    best = priced or numbers
    return best[0][0].rstrip() if best else None


def _may_be_price(text: str, match: re.Match[str], marks: Sequence[Span], dates: Sequence[Span]) -> bool:
    """A percentage, a negative amount, a date, a part of a code and the count in `2 for £3` are not prices."""
    start, end = match.span()
    if _PERCENT.match(text, end) or text[:start].endswith("%"):
        return False
    if _MINUS.search(text, max(0, start - 5), start):
        return False
    if any(first <= start < last for first, last in dates):
        return False
    if text[start - 1 : start].isalpha() and not any(last == start for _, last in marks):
        return False  # a part of a code: `MzI5Ljk5`
    return not (len(match[0]) <= 2 and _SEVERAL.match(text, end) and any(first >= end for first, _ in marks))


def _belong(text: str, match: re.Match[str], mark: Span) -> bool:
    """Return whether a currency is next to a number and does not belong to the number after it."""
    (start, end), (first, last) = match.span(), mark
    if last <= start:
        return start - last <= 3 and not text[last:start].strip(" \u00a0\u2009\u202f:.")
    if first < end or first - end > 6 or not _CLOSE.fullmatch(text, end, first):
        return False
    return first == end or not text[last : last + 1].isdigit()


def _currency(text: str, hint: str | None) -> str | None:
    """Return the first currency of the text, or else of the hint; one that only one country has goes before `$`."""
    for source in (text, (hint or "")[:LONGEST]):
        marks = [each[0] for each in islice(CURRENCY.finditer(source), 5)]
        if marks:
            return next((each for each in marks if iso_currency(each)), marks[0]) if len(marks) > 1 else marks[0]
    return None


# Availability.

_PRODUCTS = table("products")

Availability = Literal["in_stock", "out_of_stock", "preorder", "discontinued", "unknown"]

_SCHEMA: dict[str, Availability] = by_member(_PRODUCTS["schema"])
"""Values of schema.org and of OpenGraph, without their address, blanks and hyphens."""

_PHRASES: tuple[tuple[Availability, re.Pattern[str]], ...] = (
    # In this order: "no longer available" before "not available", "not in stock" before "in stock".
    ("discontinued", any_of_lower(_PRODUCTS["discontinued"])),
    ("preorder", any_of_lower(_PRODUCTS["preorder"])),
    ("out_of_stock", any_of_lower((*_PRODUCTS["out_of_stock"], *spoken("out_of_stock")))),
    ("in_stock", any_of_lower((*_PRODUCTS["in_stock"], *spoken("in_stock")))),
)


def availability_of(text: str | None) -> Availability | None:
    """Return the availability that a text expresses; None if it is not recognised."""
    if not text:
        return None
    word = re.sub(r"[\s_-]+", "", text.strip().rpartition("/")[2].rpartition("#")[2].rpartition(":")[2]).lower()
    if word in _SCHEMA:
        return _SCHEMA[word]
    if len(text) > 200:
        return None
    lowered = text.lower()
    return next((meaning for meaning, pattern in _PHRASES if pattern.search(lowered)), None)
