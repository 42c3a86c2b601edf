"""The places that exist in the sandbox, as a pure function of a seed: which a ZIP has for a keyword, and their facts.

Nothing is stored: a place is recomputed from its identity whenever it is read, so that a world of millions costs
no memory. Never does I/O and never looks at a clock.
"""

import math
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b, shake_128
from statistics import NormalDist
from struct import Struct
from typing import NamedTuple

from forager.core.errors import Rejected

# The rough location of a ZIP code: state, an invented city, a point, a telephone area.
#
# The states and the centres are real enough for a map; cities and area codes are invented. Never a source of reference
# data: the ZIP table of the places pipeline is that.


class Area(NamedTuple):
    state: str
    city: str
    latitude: float
    longitude: float
    phone_area: int


@lru_cache(maxsize=50_000)
def area_of(zip_code: str) -> Area:
    """The same for every seed: only the businesses on the land change. ZIPs with the same four digits share a city."""
    state, latitude, longitude = _STATES[bisect_right(_FIRST_PREFIXES, zip_code[:3]) - 1][1:]
    town = blake2b(zip_code[:4].encode(), digest_size=8).digest()
    spot = blake2b(zip_code.encode(), digest_size=4).digest()
    city = _CITY_FIRST[town[0] % len(_CITY_FIRST)] + _CITY_LAST[town[1] % len(_CITY_LAST)]
    return Area(
        state,
        city,
        latitude + (town[2] - 128) / 128 + (spot[0] - 128) / 4096,
        longitude + (town[3] - 128) / 128 + (spot[1] - 128) / 4096,
        201 + int.from_bytes(town[4:6], "big") % 780,
    )


def prefix_of(state: str) -> str:
    """Return the first three digits of some ZIP code of this state; of the last state for one that does not exist."""
    return next((row[0] for row in reversed(_STATES) if row[1] == state), _STATES[-1][0])


# First three-digit prefix of a run of ZIP codes, its state, and a point near that state's middle.
_STATES: tuple[tuple[str, str, float, float], ...] = (
    ("000", "NY", 40.8, -73.0),
    ("006", "PR", 18.2, -66.4),
    ("010", "MA", 42.3, -71.8),
    ("028", "RI", 41.7, -71.5),
    ("030", "NH", 43.6, -71.5),
    ("039", "ME", 45.2, -69.2),
    ("050", "VT", 44.1, -72.7),
    ("060", "CT", 41.6, -72.7),
    ("070", "NJ", 40.2, -74.6),
    ("100", "NY", 42.9, -75.5),
    ("150", "PA", 40.9, -77.8),
    ("197", "DE", 39.0, -75.5),
    ("200", "DC", 38.9, -77.0),
    ("206", "MD", 39.0, -76.8),
    ("220", "VA", 37.5, -78.8),
    ("247", "WV", 38.6, -80.6),
    ("270", "NC", 35.5, -79.4),
    ("290", "SC", 33.9, -80.9),
    ("300", "GA", 32.6, -83.4),
    ("320", "FL", 28.6, -82.4),
    ("350", "AL", 32.8, -86.8),
    ("370", "TN", 35.9, -86.4),
    ("386", "MS", 32.7, -89.7),
    ("398", "GA", 31.6, -84.2),
    ("400", "KY", 37.5, -85.3),
    ("430", "OH", 40.3, -82.8),
    ("460", "IN", 39.9, -86.3),
    ("480", "MI", 44.3, -85.4),
    ("500", "IA", 42.0, -93.5),
    ("530", "WI", 44.6, -89.9),
    ("550", "MN", 46.3, -94.3),
    ("570", "SD", 44.4, -100.2),
    ("580", "ND", 47.4, -100.5),
    ("590", "MT", 47.0, -109.6),
    ("600", "IL", 40.0, -89.2),
    ("630", "MO", 38.4, -92.5),
    ("660", "KS", 38.5, -98.4),
    ("680", "NE", 41.5, -99.8),
    ("700", "LA", 31.1, -92.0),
    ("716", "AR", 34.9, -92.4),
    ("730", "OK", 35.6, -97.5),
    ("750", "TX", 31.5, -99.3),
    ("800", "CO", 39.0, -105.5),
    ("820", "WY", 43.0, -107.5),
    ("832", "ID", 44.4, -114.6),
    ("840", "UT", 39.3, -111.7),
    ("850", "AZ", 34.3, -111.7),
    ("870", "NM", 34.4, -106.1),
    ("889", "NV", 39.3, -116.6),
    ("900", "CA", 37.2, -119.5),
    ("967", "HI", 20.3, -156.4),
    ("970", "OR", 43.9, -120.6),
    ("980", "WA", 47.4, -120.4),
    ("995", "AK", 64.0, -152.0),
)
_FIRST_PREFIXES = [row[0] for row in _STATES]
_CITY_FIRST = (
    "Mar",
    "Alder",
    "Quarry",
    "Cedar",
    "North",
    "Stone",
    "Hollow",
    "Pine",
    "Iron",
    "Clear",
    "Fox",
    "Haw",
    "Bright",
)
_CITY_LAST = (
    "low",
    "ville",
    " Falls",
    "ton",
    " Springs",
    "field",
    " Ridge",
    "port",
    " Creek",
    "bury",
    " Mills",
    "dale",
)


# Seeded draws: a number that belongs to some words and a seed, whatever the order in which requests arrive.
#
# Simulated worlds are computed from these draws when they are read, so that they need no memory and repeat exactly.


def draw(seed: int, *parts: object, size: int) -> bytes:
    """Return `size` (at most 64) pseudo-random bytes that are the same for the same seed and parts."""
    text = "\x1f".join([str(seed), *map(str, parts)])
    return blake2b(text.encode(), digest_size=size).digest()


def chance(seed: int, *parts: object) -> float:
    """Return a pseudo-random number in [0, 1) that is the same for the same seed and parts."""
    return int.from_bytes(draw(seed, "chance", *parts, size=6), "big") / 2**48


def log_normal(median: float, sigma: float, drawn: float) -> float:
    """Return the value of a log-normal distribution at the quantile `drawn`; the median where `sigma` is 0."""
    if not median or not sigma:
        return median
    return median * math.exp(sigma * _NORMAL.inv_cdf(min(max(drawn, 1e-9), 1 - 1e-9)))


_NORMAL = NormalDist()


PAGE_SIZE = 10


class Band(NamedTuple):
    """A share of all (ZIP, keyword) pairs, and how many places such a pair has."""

    share: float
    fewest: int
    most: int


MIXED_DENSITY = (Band(0.15, 0, 0), Band(0.35, 1, 9), Band(0.30, 10, 29), Band(0.20, 30, 60))
FULL_DENSITY = (Band(1.0, 1000, 1000),)  # every page of a job is full: the worst case for credits


class SimulatedPlace(NamedTuple):
    """Everything that is true about one business. An answer shows a part of it."""

    cid: str
    fid: str
    place_id: str
    title: str
    street: str
    area: Area
    zip: str
    latitude: float
    longitude: float
    rating_tenths: int
    rating_count: int
    phone: str
    website: str
    chance: int  # 32 bits that select the optional fields of this place


class Reach(NamedTuple):
    """The requests and results of a job that stops at the first short page."""

    queries: int
    cids: frozenset[str]


@dataclass(frozen=True, slots=True)
class World:
    seed: int = 7
    density: Sequence[Band] = MIXED_DENSITY
    neighbour_share: float = 0.06
    """Share of rows that every ZIP with the same first four digits also shows: a bar at the border belongs to both."""
    repeat_share: float = 0.02
    """Share of rows, from the second page on, that an earlier page of the same ZIP showed already."""

    def __post_init__(self) -> None:
        if not math.isclose(sum(band.share for band in self.density), 1.0, abs_tol=1e-6):
            raise Rejected(f"The shares of the density bands must add up to 1: {list(self.density)}")
        if any(not 0 <= band.fewest <= band.most for band in self.density):
            raise Rejected(f"A density band needs 0 ≤ fewest ≤ most: {list(self.density)}")

    def count(self, zip_code: str, keyword: str) -> int:
        """Return how many rows the ZIP has for the keyword, over all pages."""
        draw = self._draw("density", zip_code, keyword, size=8)
        chance, size = int.from_bytes(draw[:4], "big") / 2**32, int.from_bytes(draw[4:], "big")
        band = self.density[-1]
        for band in self.density:
            if chance < band.share:
                break
            chance -= band.share
        return band.fewest + size % (band.most - band.fewest + 1)

    def page(self, zip_code: str, keyword: str, page: int, size: int = PAGE_SIZE) -> list[SimulatedPlace]:
        """Return the rows of one page; a page beyond the last is empty. Within a page of ten no place is shown
        twice."""
        first = (page - 1) * size
        last = min(first + size, self.count(zip_code, keyword))
        blocks = {
            block: self._tens(zip_code, keyword, str(block))
            for block in range(first // PAGE_SIZE, -(-last // PAGE_SIZE))
        }
        return [self._row(zip_code, keyword, index, blocks[index // PAGE_SIZE]) for index in range(first, last)]

    def reach(self, zip_code: str, keyword: str, pages: int) -> Reach:
        """Return the expected requests and results of a job of up to `pages` pages that stops at the first short
        one."""
        cids: set[str] = set()
        for page in range(1, pages + 1):
            rows = self.page(zip_code, keyword, page)
            cids.update(place.cid for place in rows)
            if len(rows) < PAGE_SIZE:
                return Reach(page, frozenset(cids))
        return Reach(pages, frozenset(cids))

    def chance(self, *parts: object) -> float:
        """Return a number in [0, 1) that belongs to these words and this seed, whatever the order of requests."""
        return chance(self.seed, *parts)

    def _row(self, zip_code: str, keyword: str, index: int, tens: bytes) -> SimulatedPlace:
        kind, facts = self._facts(tens, index)
        if index >= PAGE_SIZE and kind < self.repeat_share:
            index = index % PAGE_SIZE + PAGE_SIZE * (int(kind * 2**16) % (index // PAGE_SIZE))
            kind, facts = self._facts(self._tens(zip_code, keyword, str(index // PAGE_SIZE)), index)
        # The shared place is chosen by its position on the page, so that one page cannot show it twice.
        if self.repeat_share <= kind < self.repeat_share + self.neighbour_share:
            zip_code = zip_code[:4] + "0"
            _, facts = self._facts(self._tens(zip_code, keyword, "shared"), index)
        return _place(zip_code, facts)

    def _tens(self, zip_code: str, keyword: str, block: str) -> bytes:
        """Return the chances of ten rows in one draw: a hash per row would be most of the cost of an answer."""
        words = f"{self.seed}\x1frows\x1f{zip_code}\x1f{keyword}\x1f{block}"
        return shake_128(words.encode()).digest(PAGE_SIZE * _FACTS.size)

    def _facts(self, tens: bytes, index: int) -> tuple[float, tuple[int, ...]]:
        kind, *facts = _FACTS.unpack_from(tens, index % PAGE_SIZE * _FACTS.size)
        return kind / 2**16, tuple(facts)

    def _draw(self, *parts: object, size: int) -> bytes:
        return draw(self.seed, *parts, size=size)


_FACTS = Struct(">HQQQIHHHHHH")


def _place(zip_code: str, facts: tuple[int, ...]) -> SimulatedPlace:
    """Return a business from its chances. Positional, in the order of `Place`: this runs for every row of every new
    answer."""
    cid, far, token, chance, north, east, word, house, votes, line = facts
    area = area_of(zip_code)
    name = f"{_FIRST[word % len(_FIRST)]} {_SECOND[word // 64 % len(_SECOND)]}"
    rated = votes % 8
    return SimulatedPlace(
        str(cid),
        f"{far:#x}:{cid:#x}",
        f"ChIJ{token:016x}{far % 2**28:07x}",
        name + _ENDING[word // 4096 % len(_ENDING)],
        f"{100 + house % 9800} {_STREET[house // 512 % len(_STREET)]}",
        area,
        zip_code,
        _coordinate(area.latitude, north),
        _coordinate(area.longitude, east),
        25 + votes % 26 if rated else 0,
        1 + (votes >> 3) % (9000 if votes % 5 == 0 else 400) if rated else 0,
        f"({area.phone_area}) 555-01{line // 10 % 100:02d}" if line % 10 else "",
        _website(name, cid, line // 1000) if line % 10 != 1 else "",
        chance,
    )


def _coordinate(centre: float, offset: int) -> float:
    """Seven digits, and on every fourth place the artefact of float arithmetic that real answers have."""
    value = round(centre + (offset - 32768) / 1_000_000, 7)
    return math.nextafter(value, 0.0) if offset % 4 == 0 else value


def _website(name: str, cid: int, style: int) -> str:
    slug = name.lower().replace("& ", "").replace(" ", "-") + f"-{cid % 100_000}"
    if style % 4 == 0:
        return f"http://{slug}.example/"
    if style % 4 == 1:
        return f"https://social.example/{slug}"
    return f"https://{slug}.example/?utm_source=listing" if style % 4 == 2 else f"https://www.{slug}.example/"


_FIRST = (
    "Quarry", "Tanner", "Blue Door", "Harbor", "Old Mill", "Copper", "Juniper", "Sunset", "Main Street", "Union",
    "Liberty", "Granite", "Silver", "Maple", "Red Barn", "Corner", "Golden", "Lucky", "Prairie", "Canyon",
    "Lakeside", "Highland", "Orchard", "Station", "Crown", "Ember", "Willow", "Falcon", "Cactus", "River",
)  # fmt: skip
_SECOND = (
    "House", "Lofts", "Corner", "Works", "Room", "Collective", "Company", "Place", "Yard", "Point",
    "Garden", "Square", "Hall", "Depot", "Exchange", "Brothers", "& Sons", "Studio", "Group", "Center",
)  # fmt: skip
_ENDING = ("", "", "", "", " Inc", " LLC", " Downtown", " East", " West", " No. 2")
_STREET = (
    "Tanner St", "N Main St", "Oak Ave", "W 3rd St", "Mill Rd", "Elm St", "E Jefferson Blvd", "County Rd 12",
    "Depot Ln", "S Central Ave", "Hwy 60", "Park Pl", "Washington St Ste 4", "Lake Dr", "Orchard Way",
)  # fmt: skip
