"""The findings of a parser on one page: values by field, each with its source and confidence. Pure.

Every value is checked when it is added. A value that cannot be right (a negative price, a rating of 11) is not used; it
is listed in `refused` with its reason.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from typing import Any, Literal

from forager.extract.html.document import Document
from forager.extract.html.page_fit import title_or_headline
from forager.extract.html.page_kind import PageKind
from forager.extract.tables import any_of, table
from forager.extract.text.prices import availability_of, iso_currency
from forager.extract.text.strings import DISAGREED, one_line, paragraphs

_DATA = table("products")

# Article numbers of the GTIN family (EAN, UPC, ISBN, ISSN): found in text, checked by their check digit. Pure.


_LABEL = re.compile(r"^[\s(]*(?:gtin|ean|upc|isbn|issn|jan)(?:[\s-]?(?:8|10|12|13|14)(?=\W))?[\s:.#-]*", re.IGNORECASE)
_LENGTHS = {8: "gtin8", 12: "upc", 13: "gtin13", 14: "gtin14"}


def gtin_of(text: str | int | None) -> str | None:
    """Return the digits of a valid GTIN-8, -12, -13 or -14, or of an ISBN-10 as its ISBN-13; None for anything else."""
    kind = classify(text)
    if kind is None or kind == "issn":
        return None
    digits = _digits(text)
    return _isbn13(digits) if kind == "isbn10" else digits


def classify(text: str | int | None) -> str | None:
    """Return the kind of a product code: `gtin8`, `upc`, `gtin13`, `gtin14`, `isbn10`, `isbn13`, `issn` or `ismn`. None
    if its check digit is wrong."""
    digits = _digits(text)
    if len(digits) == 10 and _isbn10_holds(digits):
        return "isbn10"
    if len(digits) == 8 and _issn_holds(digits):
        return "issn"
    if not digits.isascii() or not digits.isdigit() or len(digits) not in _LENGTHS or not _gtin_holds(digits):
        return None
    if len(digits) == 13:
        if digits.startswith("9790"):
            return "ismn"
        if digits.startswith(("978", "979")):
            return "isbn13"
        if digits.startswith("977"):
            return "issn"
    return _LENGTHS[len(digits)]


def _digits(text: str | int | None) -> str:
    if text is None or isinstance(text, bool):
        return ""
    bare = _LABEL.sub("", str(text), count=1)
    return re.sub(r"[\s()\u2010-\u2015-]", "", bare)


def _gtin_holds(digits: str) -> bool:
    if not digits.strip("0"):
        return False
    total = sum(int(digit) * (3 if place % 2 else 1) for place, digit in enumerate(reversed(digits)))
    return total % 10 == 0


def _isbn10_holds(digits: str) -> bool:
    if not re.fullmatch(r"[0-9]{9}[0-9Xx]", digits) or not digits.strip("0"):
        return False
    return _weighed(digits) % 11 == 0


def _issn_holds(digits: str) -> bool:
    return re.fullmatch(r"[0-9]{7}[0-9Xx]", digits) is not None and _weighed(digits) % 11 == 0


def _weighed(digits: str) -> int:
    values = [10 if digit in "Xx" else int(digit) for digit in digits]
    return sum(value * (len(digits) - place) for place, value in enumerate(values))


def _isbn13(isbn10: str) -> str:
    body = "978" + isbn10[:9]
    total = sum(int(digit) * (3 if place % 2 else 1) for place, digit in enumerate(body))
    return f"{body}{-total % 10}"


Source = Literal["json-ld", "microdata", "opengraph", "meta", "selector", "learnt", "script", "heuristic", "sign"]
ImageKind = Literal["primary", "gallery", "thumbnail"]
CONFIDENCE: Mapping[Source, float] = {
    "json-ld": 0.95,
    "microdata": 0.9,
    "opengraph": 0.8,
    "meta": 0.7,
    "selector": 0.7,
    "learnt": 0.6,
    "script": 0.6,
    "heuristic": 0.4,
    "sign": 0.3,
}
"""`learnt`: by a path that the site's other pages have taught, whose score decides (`wrappers.py`). `script`: an object
with the product's name in a script of the page. `sign`: a currency by a sign that several countries share; a currency
that an operator set for the shop beats it."""
MARKED_STOCK = 0.88
"""The most that a state of stock has from one source of markup: one in eight is that of another variant, or of
yesterday."""
SUREST = 0.99
UNSEEN = 0.9
"""Factor on the confidence of a value of the markup that the page does not show."""
COMPARED = frozenset(("price", "currency", "availability", "rating", "review_count", "gtin"))
"""Fields whose values are the same or not. Names and texts of two sources differ without being wrong."""
HIGHEST_PRICE = Decimal("99999999.99")
"""The largest value of DECIMAL(10, 2)."""
LONGEST = {"product_name": 512, "brand": 255, "category": 255, "sku": 100, "description": 20_000}
FIELDS = (
    "product_name",
    "description",
    "price",
    "currency",
    "availability",
    "rating",
    "review_count",
    "brand",
    "category",
    "sku",
    "gtin",
)
"""The attributes of a product that a page can show."""
DECIMALS = frozenset(("price", "rating"))
MOST_IMAGES = 20
_GROUPED = re.compile(r"[,'’\s]|\.(?=\d{3}(?:\D|$))")
"""Signs between groups of digits: `1.204`, `1,204`, `1 204`."""


@dataclass(frozen=True, slots=True)
class Value:
    """One value of a field."""

    value: Any
    source: Source
    confidence: float

    def evidence(self) -> dict[str, Any]:
        return {"source": self.source, "confidence": round(self.confidence, 2)}


@dataclass(frozen=True, slots=True)
class Offered:
    """A price that one source has."""

    amount: Decimal
    currency: str | None
    source: Source
    lowest: bool
    """True if it is the low end of a range."""


@dataclass(frozen=True, slots=True)
class Image:
    url: str
    alt: str | None = None
    kind: ImageKind = "gallery"


@dataclass(slots=True)
class ProductFindings:
    """Filled by a parser, best source first: the first value of a field holds.

    Another source that agrees makes it surer; one that disagrees makes it less sure and is listed in `others`.
    """

    values: dict[str, Value] = field(default_factory=dict)
    images: list[Image] = field(default_factory=list)
    metadata: dict[str, Any] = field(default_factory=dict)
    """Values without a field of their own: `regular_price`, `offers`, `asin` …"""
    others: dict[str, list[Value]] = field(default_factory=dict)
    """Values of other sources that differ from the value in force."""
    prices: list[Offered] = field(default_factory=list)
    """Every price that was added, in this order: `choose_price` decides between them."""
    is_list: bool = False
    """True if markup describes many equal products: the page is a list, and none of them is its product."""
    page: PageKind | None = None
    """The kind of the page, where the parser decided it: a page of another kind has no product."""
    refused: list[tuple[str, str]] = field(default_factory=list)
    """Field and reason of every value that could not be right."""

    def restored(self) -> "ProductFindings":
        """Return findings that have crossed as JSON with their numbers as numbers again."""
        for name in DECIMALS & self.values.keys():
            self.values[name] = _as_decimal(self.values[name])
        for name in DECIMALS & self.others.keys():
            self.others[name] = [_as_decimal(each) for each in self.others[name]]
        return self

    def __contains__(self, name: str) -> bool:
        return name in self.values

    def get(self, name: str) -> Any:
        """Return the value of a field; None if it was not found."""
        finding = self.values.get(name)
        return None if finding is None else finding.value

    def add(self, name: str, raw: Any, source: Source) -> bool:
        """Add one value, as the page has it. Returns whether the field now has a value."""
        if raw is None or raw == "":
            return name in self.values
        try:
            value = _CHECKS[name](raw)
        except ValueError as error:
            self.refused.append((name, str(error)))
            return name in self.values
        if value is not None:
            self._keep(name, value, source)
        return name in self.values

    def add_price(self, amount: Any, currency: str | None, source: Source, *, lowest: bool = False) -> None:
        """Add a price with its currency. The two are never taken from different offers. `lowest`: of a range."""
        before = len(self.refused)
        if amount is None or not self.add("price", amount, source) or len(self.refused) > before:
            return
        offered = Offered(_price(amount), iso_currency(currency), source, lowest)
        self.prices.append(offered)
        if offered.amount == self.get("price"):
            self.add("currency", currency, source)

    def hold_price(self, offered: Offered) -> None:
        """Let another price hold than the first one; the one that held until now is listed in `others`."""
        held = self.values["price"]
        sure = CONFIDENCE[offered.source] * DISAGREED
        self.others["price"] = [each for each in self.others.get("price", []) if each.value != offered.amount]
        self.others["price"].append(held)
        self.values["price"] = Value(offered.amount, offered.source, sure)
        self.values.pop("currency", None)
        if offered.currency:
            self.values["currency"] = Value(offered.currency, offered.source, sure)

    def doubt(self, name: str, shown: Any = None) -> None:
        """Lower the confidence of a value that the page does not show. If it shows another one, that one holds."""
        held = self.values[name]
        if shown is None:
            self.values[name] = Value(held.value, held.source, held.confidence * UNSEEN)
        elif shown != held.value:
            self.others.setdefault(name, []).append(held)
            self.values[name] = Value(shown, "heuristic", CONFIDENCE["selector"])

    def add_image(self, url: str | None, alt: str | None = None, kind: str = "gallery") -> None:
        if url is None or not url.startswith(("http://", "https://")) or len(url) > 2_048:
            return
        if len(self.images) < MOST_IMAGES and all(each.url != url for each in self.images):
            chosen: ImageKind = "primary" if not self.images else "thumbnail" if kind == "thumbnail" else "gallery"
            self.images.append(Image(url, one_line(alt)[:512] if alt else None, chosen))

    def evidence(self) -> dict[str, dict[str, Any]]:
        """Return source and confidence by field, as the API shows them."""
        told = {name: finding.evidence() for name, finding in self.values.items()}
        for name, others in self.others.items():
            told[name]["also"] = [{"value": str(each.value), "source": each.source} for each in others]
        return told

    @property
    def is_product(self) -> bool:
        """Return whether the page shows one product: a name, and something that only a product has."""
        return (
            not self.is_list
            and (self.page is None or self.page.kind == "product")
            and "product_name" in self.values
            and any(name in self.values for name in ("price", "availability", "sku", "gtin"))
        )

    def _keep(self, name: str, value: Any, source: Source) -> None:
        held = self.values.get(name)
        if held is None:
            self.values[name] = Value(value, source, confidence_of(source, name))
        elif held.source != source and _agree(held.value, value):
            surer = 1 - (1 - held.confidence) * (1 - CONFIDENCE[source])
            self.values[name] = Value(held.value, held.source, min(SUREST, surer))
        elif held.source != source and name in COMPARED:
            self.values[name] = Value(held.value, held.source, held.confidence * DISAGREED)
            self.others.setdefault(name, []).append(Value(value, source, CONFIDENCE[source]))


def confidence_of(source: Source, name: str) -> float:
    """Return the confidence of a field's value that only one source has."""
    return min(CONFIDENCE[source], MARKED_STOCK) if name == "availability" else CONFIDENCE[source]


def _as_decimal(value: Value) -> Value:
    return value if isinstance(value.value, Decimal) else Value(Decimal(value.value), value.source, value.confidence)


def _agree(one: Any, other: Any) -> bool:
    return bool(one.casefold() == other.casefold() if isinstance(one, str) and isinstance(other, str) else one == other)


def decimal_of(raw: Any) -> Decimal:
    """Return a number in structured data. Raises `ValueError` if the value is not a number."""
    if isinstance(raw, bool):
        raise ValueError(f"{raw!r} is not a number")
    try:
        number = Decimal(str(raw).strip())
    except InvalidOperation:
        raise ValueError(f"{str(raw)[:40]!r} is not a number") from None
    if not number.is_finite():
        raise ValueError(f"{raw!r} is not a number")
    return number


def _price(raw: Any) -> Decimal:
    price = decimal_of(raw)
    if not 0 <= price <= HIGHEST_PRICE:
        raise ValueError(f"a price of {price} is out of range")
    return price.quantize(Decimal("0.01"))


def _rating(raw: Any) -> Decimal:
    rating = decimal_of(str(raw).replace(",", "."))
    if not 0 <= rating <= 5:
        raise ValueError(f"a rating of {rating} is not between 0 and 5")
    return rating.quantize(Decimal("0.01"))


def _count(raw: Any) -> int:
    count = decimal_of(_GROUPED.sub("", str(raw)))
    if count != count.to_integral_value() or not 0 <= count <= 2_000_000_000:
        raise ValueError(f"{count} is not a number of reviews")
    return int(count)


def _currency(raw: Any) -> str:
    code = iso_currency(str(raw))
    if code is None:
        raise ValueError(f"{str(raw)[:20]!r} is not an ISO 4217 currency")
    return code


def _gtin(raw: Any) -> str:
    gtin = gtin_of(raw)
    if gtin is None:
        raise ValueError(f"{str(raw)[:30]!r} has no valid check digit")
    return gtin


def _line(name: str, raw: Any) -> str | None:
    return one_line(str(raw))[: LONGEST[name]].rstrip() or None


_CHECKS = {
    "product_name": lambda raw: _line("product_name", raw),
    "description": lambda raw: paragraphs(str(raw))[: LONGEST["description"]] or None,
    "price": _price,
    "currency": _currency,
    "availability": lambda raw: availability_of(str(raw)),
    "rating": _rating,
    "review_count": _count,
    "brand": lambda raw: _line("brand", raw),
    "category": lambda raw: _line("category", raw),
    "sku": lambda raw: _line("sku", raw),
    "gtin": _gtin,
}


# Soft 404s: pages for a missing product with status 200. Pure.
#
# They are recognised before anything is parsed, because such a page shows other products and their prices. The words
# are narrower than those of `page_fit.error_of`: an unavailable product or a page that denies access is not
# gone.


_GONE = any_of(
    _DATA["gone"],
    r"\b(?:page|product|item|article|listing|offer)s?\b.{0,40}\b(?:not found|no longer (?:available|exists?"
    r"|sold)|(?:does not|doesn.t) exist|(?:was|has been|is) (?:removed|deleted|gone|discontinued)"
    r"|could ?n.t be found)|{}",
)


def says_missing(document: Document) -> str | None:
    """Return the title or headline that reports a missing product, or None."""
    return title_or_headline(document, _GONE)
