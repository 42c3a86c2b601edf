"""Numbers and words out of the texts that a portal shows. Pure; a text that holds none gives None."""

import re
from collections.abc import Iterable, Mapping
from datetime import date
from typing import Any, Final, NamedTuple

_LARGEST: Final = 1e9
_NUMBER: Final = re.compile(r"\d[\d,]*(?:\.\d+)?")


class Range(NamedTuple):
    low: float
    high: float


def words(value: Any) -> str | None:
    """Return a text without runs of white space; None if it is empty or no text."""
    return (" ".join(value.split()) or None) if isinstance(value, str) else None


def number(value: Any) -> float | None:
    """Return a number that is given as such or as text (`"$1,460"`); None if there is none."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int | float):
        return float(value)
    several = numbers(value)
    return several[0] if several else None


def numbers(value: Any) -> list[float]:
    """Return every number of a text such as "$1,100 – $1,200" or "Studio - 2 bd", where a studio is 0."""
    if not isinstance(value, str):
        return []
    text = re.sub(r"\bstudio\b", "0", value, flags=re.IGNORECASE)
    return [float(each.replace(",", "")) for each in _NUMBER.findall(text)]


def span(values: Iterable[float | None]) -> Range | None:
    """Return the lowest and the highest of the values that are known; None if none is."""
    known = [value for value in values if value is not None]
    return Range(min(known), max(known)) if known else None


def whole(value: float | None) -> int | None:
    """Return a number rounded. Raises `ValueError` if it is too large for any rent or area (and for a column)."""
    if value is not None and not abs(value) <= _LARGEST:
        raise ValueError(f"The number {value:g} is impossible.")
    return None if value is None else round(value)


def day(value: Any) -> date | None:
    """Return a day that is given as `YYYY-MM-DD`."""
    try:
        return date.fromisoformat(value[:10]) if isinstance(value, str) else None
    except ValueError:
        return None


def mapping(value: Any) -> Mapping[str, Any]:
    """Return the value if it is an object, otherwise an empty one: upstream puts texts where objects belong."""
    return value if isinstance(value, Mapping) else {}


def objects(value: Any) -> list[Mapping[str, Any]]:
    """Return the objects of a list; empty if the value is not a list."""
    return [each for each in value if isinstance(each, Mapping)] if isinstance(value, list) else []


def texts(value: Any) -> list[str]:
    """Return the texts of a list, each once, in their order."""
    cleaned = (words(each) for each in value) if isinstance(value, list) else ()
    return list(dict.fromkeys(each for each in cleaned if each))
