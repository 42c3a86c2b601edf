"""Names of cities: 68,000 cities of 5,000 inhabitants and more, from GeoNames (CC BY 4.0). Pure.

A name in a text is taken for a city only if there is such a city, or if other evidence names it as one: markup, a
label, a postcode next to it. The file is written by `scripts/gazetteer`. It is kept as one text and searched in place,
because a table of its 178,000 names would take ten times the memory.
"""

import gzip
from functools import cache, lru_cache
from typing import NamedTuple

from forager.extract.tables import FOLDER
from forager.extract.text.locations import folded


class CityName(NamedTuple):
    countries: tuple[str, ...]
    """ISO 3166 codes of the countries that have a city of this name, the largest city first."""
    is_large: bool
    """True if one of these cities has 100,000 inhabitants or more."""


@lru_cache(maxsize=4_096)
def city_named(name: str) -> CityName | None:
    """Return what is known of a city's name, in any language for large cities; None if there is no such city."""
    plain = folded(name)
    if not 2 <= len(plain) <= 40 or "\t" in plain:
        return None
    names = _names()
    start = names.find(f"\n{plain}\t".encode())
    if start < 0:
        return None
    told = names[start + len(plain.encode()) + 2 : names.index(b"\n", start + 1)].decode()
    return CityName(tuple(told.rstrip("+").split(",")), told.endswith("+"))


def is_city_in(name: str, country: str | None) -> bool:
    """Return whether there is a city of this name; in this country, if one is given."""
    known = city_named(name)
    return known is not None and (country is None or country in known.countries)


@cache
def _names() -> bytes:
    return gzip.decompress((FOLDER / "cities.txt.gz").read_bytes())
