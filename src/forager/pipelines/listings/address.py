"""American street addresses in one spelling, so that two portals' spellings compare equal. Pure."""

import re
from functools import lru_cache
from typing import Final

_WORDS: Final = {
    "street": "st", "avenue": "ave", "av": "ave", "road": "rd", "drive": "dr", "lane": "ln", "boulevard": "blvd",
    "place": "pl", "court": "ct", "square": "sq", "terrace": "ter", "parkway": "pkwy", "highway": "hwy",
    "circle": "cir", "trail": "trl", "turnpike": "tpke", "plaza": "plz", "alley": "aly",
    "north": "n", "south": "s", "east": "e", "west": "w",
    "northeast": "ne", "northwest": "nw", "southeast": "se", "southwest": "sw",
    "first": "1st", "second": "2nd", "third": "3rd", "fourth": "4th", "fifth": "5th", "sixth": "6th",
    "seventh": "7th", "eighth": "8th", "ninth": "9th", "tenth": "10th",
}  # fmt: skip
_UNIT: Final = re.compile(
    r"(?:,\s*|\s+)(?:#\s*|(?:apartment|apt|unit|suite|ste)\b\.?\s*#?\s*)([a-z0-9-]+)\s*$", re.IGNORECASE
)
_REMEMBERED: Final = 8_192
"""Addresses whose normal form is remembered: while a page is resolved, each is asked for several times."""
_NUMBER: Final = re.compile(r"\d+[a-z]?(?:-\d+[a-z]?)?")


@lru_cache(maxsize=_REMEMBERED)
def normal_street(street: str) -> str:
    """Return the street line in lower case, without punctuation and unit, with the postal short forms."""
    bare = re.sub(r"[^\w\s-]", "", split_unit(street)[0].lower())
    words = bare.split()
    return " ".join(_WORDS.get(word, word) for word in words)


@lru_cache(maxsize=_REMEMBERED)
def house_number(street: str) -> str | None:
    """Return the house number that the street line starts with; None if it has none."""
    first = normal_street(street).partition(" ")[0]
    return first if _NUMBER.fullmatch(first) else None


def split_unit(street: str) -> tuple[str, str | None]:
    """Split "40 Mill Rd, Apt 3B" into the street line and the unit: ("40 Mill Rd", "3B"); None if it names no unit."""
    match = _UNIT.search(street)
    return (street, None) if match is None else (street[: match.start()].rstrip(" ,"), match[1])


def normal_unit(unit: str | None) -> str:
    """Return the unit in one spelling: `apt. 3-b` and `#3B` are `3b`; an absent one is empty."""
    bare = re.sub(r"^\s*(?:apartment|apt|unit|suite|ste)\b", "", (unit or "").lower())
    return re.sub(r"[^a-z0-9]", "", bare)


def address_key(street: str | None, unit: str | None, zip_code: str | None) -> str | None:
    """Return the name by which two sources know the same home; None if the address is not exact enough for it."""
    if not street or not zip_code or house_number(street) is None:
        return None
    return f"address:{normal_street(street)}|{normal_unit(unit or split_unit(street)[1])}|{zip_code}"
