"""The places that exist in the sandbox, as a pure function of a seed: which a ZIP has for a keyword, and their facts.

Nothing is stored: a place is recomputed from its identity whenever it is asked for, so that a world of millions costs
no memory. Never does I/O and never looks at a clock.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import shake_128
from struct import Struct
from typing import NamedTuple

from forager.core.errors import Rejected
from forager.sandbox.draw import chance, draw
from forager.sandbox.geography import Area, area_of

PAGE_SIZE = 10


class Band(NamedTuple):
    """A share of all (ZIP, keyword) pairs, and how many places such a pair has."""

    share: float
    fewest: int
    most: int


MIXED_DENSITY = (Band(0.15, 0, 0), Band(0.35, 1, 9), Band(0.30, 10, 29), Band(0.20, 30, 60))
FULL_DENSITY = (Band(1.0, 1000, 1000),)  # every page that a job can ask for is full: the worst case for credits


class Place(NamedTuple):
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
    chance: int  # 32 bits that decide which optional fields this place has


class Reach(NamedTuple):
    """What a job that stops at the first short page asks for and sees."""

    queries: int
    cids: frozenset[str]


@dataclass(frozen=True, slots=True)
class World:
    seed: int = 7
    density: Sequence[Band] = MIXED_DENSITY
    neighbour_share: float = 0.06
    """Share of rows that every ZIP with the same first four digits shows too: a bar at the border belongs to both."""
    repeat_share: float = 0.02
    """Share of rows, from the second page on, that an earlier page of the same ZIP showed already."""

    def __post_init__(self) -> None:
        if not math.isclose(sum(band.share for band in self.density), 1.0, abs_tol=1e-6):
            raise Rejected(f"The shares of the density bands must add up to 1: {list(self.density)}")
        if any(not 0 <= band.fewest <= band.most for band in self.density):
            raise Rejected(f"A density band needs 0 ≤ fewest ≤ most: {list(self.density)}")

    def count(self, zip_code: str, keyword: str) -> int:
        """How many rows the ZIP has for the keyword, over all pages."""
        draw = self._draw("density", zip_code, keyword, size=8)
        chance, size = int.from_bytes(draw[:4], "big") / 2**32, int.from_bytes(draw[4:], "big")
        band = self.density[-1]
        for band in self.density:
            if chance < band.share:
                break
            chance -= band.share
        return band.fewest + size % (band.most - band.fewest + 1)

    def page(self, zip_code: str, keyword: str, page: int, size: int = PAGE_SIZE) -> list[Place]:
        """The rows of one page; a page beyond the last is empty. Within a page of ten no place is shown twice."""
        first = (page - 1) * size
        last = min(first + size, self.count(zip_code, keyword))
        blocks = {
            block: self._tens(zip_code, keyword, str(block))
            for block in range(first // PAGE_SIZE, -(-last // PAGE_SIZE))
        }
        return [self._row(zip_code, keyword, index, blocks[index // PAGE_SIZE]) for index in range(first, last)]

    def reach(self, zip_code: str, keyword: str, pages: int) -> Reach:
        """What an auditor expects of a job that asks for up to `pages` pages and stops at the first short one."""
        cids: set[str] = set()
        for page in range(1, pages + 1):
            rows = self.page(zip_code, keyword, page)
            cids.update(place.cid for place in rows)
            if len(rows) < PAGE_SIZE:
                return Reach(page, frozenset(cids))
        return Reach(pages, frozenset(cids))

    def chance(self, *parts: object) -> float:
        """A number in [0, 1) that belongs to these words and this seed, whatever the order of requests."""
        return chance(self.seed, *parts)

    def _row(self, zip_code: str, keyword: str, index: int, tens: bytes) -> Place:
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
        """The chances of ten rows in one draw: a hash per row would be most of the cost of an answer."""
        words = f"{self.seed}\x1frows\x1f{zip_code}\x1f{keyword}\x1f{block}"
        return shake_128(words.encode()).digest(PAGE_SIZE * _FACTS.size)

    def _facts(self, tens: bytes, index: int) -> tuple[float, tuple[int, ...]]:
        kind, *facts = _FACTS.unpack_from(tens, index % PAGE_SIZE * _FACTS.size)
        return kind / 2**16, tuple(facts)

    def _draw(self, *parts: object, size: int) -> bytes:
        return draw(self.seed, *parts, size=size)


_FACTS = Struct(">HQQQIHHHHHH")


def _place(zip_code: str, facts: tuple[int, ...]) -> Place:
    """A business from its chances. Positional, in the order of `Place`: this runs for every row of every new answer."""
    cid, far, token, chance, north, east, word, house, votes, line = facts
    area = area_of(zip_code)
    name = f"{_FIRST[word % len(_FIRST)]} {_SECOND[word // 64 % len(_SECOND)]}"
    rated = votes % 8
    return Place(
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
