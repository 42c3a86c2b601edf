"""A price out of the text in which people write it: `1.299,00 €`, `from $5`, `2 for £3`, `,89`, `140.000`. Pure.

Made to be careful: a percentage is no price, a negative amount is none, and of a range the low end is the price.
"""

import re
from dataclasses import dataclass
from decimal import Decimal

from forager.extract.currencies import CURRENCY, iso_currency

LONGEST = 1_000
_BLANKS = "\\s\u00a0\u2009\u202f"
_NUMBER = re.compile(rf"[.,]?\d(?:[\d{_BLANKS}.,'’`´]*\d)?(?:[.,](?=\D|$))?")
_BETWEEN = re.compile(r"(\d)\s*([€$£]|€uro)\s*(\d{2})(?!\d)")
"""The symbol as the decimal point: `12€99`."""
_MULTIPLE = re.compile(r"\b(\d{1,2})\s*(?:for|für|pour|x|×|por|per)\s*(?=[^\d\s]{0,4}\s*\d)", re.IGNORECASE)
"""`2 for £3`: the price of several."""
_FREE = re.compile(r"^\W*(?:free|gratis|kostenlos|gratuit|бесплатно)\W*$", re.IGNORECASE)
_ORDINAL_GROUPS = re.compile(r"\d{1,3}(?:(?P<sep>[.,])\d{3})(?:(?P=sep)\d{3})*")


@dataclass(frozen=True, slots=True)
class Price:
    """What a text says about a price."""

    amount: Decimal | None
    """None if there is none, or none that can be believed."""
    currency: str | None
    """ISO 4217; None if the text has none, or one that several countries share (`$`)."""
    symbol: str | None
    """The currency as it is written."""
    text: str | None = None
    """The number as it is written."""


def parse_price(text: str | None, hint: str | None = None, *, decimal: str | None = None) -> Price:
    """Read the first price in a text.

    `hint` is another text that may hold the currency, such as an element beside the price. `decimal` is the decimal
    separator, if it is known. A text without a price gives a `Price` without an amount.
    """
    source = (text or "")[:LONGEST]
    symbol = _currency(source, hint)
    iso = iso_currency(symbol)
    if _FREE.match(source):
        return Price(Decimal(0), iso, symbol, "0")
    found = _first_number(source)
    if found is None:
        return Price(None, iso, symbol)
    amount = to_amount(found, decimal)
    return Price(amount, iso, symbol, found)


def to_amount(number: str, decimal: str | None = None) -> Decimal | None:
    """A written number as a decimal: the separators are told apart by where they stand."""
    bare = re.sub(rf"[{_BLANKS}'’`´]", "", number)
    point = decimal or _decimal_separator(bare)
    if point is None:
        plain = re.sub(r"[.,]", "", bare)
    else:
        other = "," if point == "." else "."
        whole, _, fraction = bare.replace(other, "").rpartition(point)
        plain = f"{whole.replace(point, '') or '0'}.{fraction or '0'}"
    return Decimal(plain) if re.fullmatch(r"\d+(?:\.\d+)?", plain) and len(plain) <= 40 else None


def _decimal_separator(bare: str) -> str | None:
    """The last separator, unless it can only separate thousands."""
    last = max(bare.rfind("."), bare.rfind(","))
    if last < 0:
        return None
    separator, digits = bare[last], len(bare) - last - 1
    if digits == 3 and (_ORDINAL_GROUPS.fullmatch(bare) and not bare.startswith("0")):
        return None
    if bare.count(separator) > 1:
        return None
    return separator


def _first_number(text: str) -> str | None:
    joined = _BETWEEN.sub(r"\1.\3", text)
    joined = _MULTIPLE.sub("", joined) if CURRENCY.search(joined) else joined
    for found in _NUMBER.finditer(joined):
        rest = joined[found.end() :].lstrip()
        if rest.startswith("%") or _is_negative(joined, found.start()):
            continue
        return found[0].rstrip()
    return None


def _is_negative(text: str, start: int) -> bool:
    """A minus directly before the number or its symbol, with nothing but a blank before the minus."""
    before = re.sub(r"[€$£¥₹]\s*$", "", text[:start].rstrip()).rstrip()
    return before.endswith(("-", "−", "–")) and not before[:-1].strip()


def _currency(text: str, hint: str | None) -> str | None:
    """The first currency of the text, or else of the hint; one that only one country has goes before `$`."""
    for source in (text, (hint or "")[:LONGEST]):
        found = [each[0] for each in CURRENCY.finditer(source)][:5]
        if found:
            return next((each for each in found if iso_currency(each)), found[0]) if len(found) > 1 else found[0]
    return None
