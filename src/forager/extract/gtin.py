"""Article numbers of the GTIN family (EAN, UPC, ISBN, ISSN): found in text, checked by their check digit. Pure."""

import re

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
    """`gtin8`, `upc`, `gtin13`, `gtin14`, `isbn10`, `isbn13`, `issn` or `ismn`; None if the check digit is wrong."""
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
