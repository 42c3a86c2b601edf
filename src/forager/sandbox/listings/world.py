"""Apartments for rent in any number of markets, as a pure function of a seed and the time. Nothing is stored.

A market is whatever is searched for ("Boston, MA"). A listing is one property on one portal; a property may be on a
second portal, under another title and id. Its id contains its market and home, so that a page of the site is
answered without a table.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import blake2b
from typing import NamedTuple

from forager.sandbox.world import chance, draw

# The times at which a home is listed: a pure function of its draws and the time, so that a year needs no memory.
#
# Most homes come and go: each cycle of them is a time on the market and then a time off it. The others stay.


DAY = 86_400.0
FOREVER = float("inf")


class Span(NamedTuple):
    """A time on the market, in seconds since 1970: from `begin` up to, and not including, `end`."""

    begin: float
    end: float

    def holds(self, moment: float) -> bool:
        return self.begin <= moment < self.end


@dataclass(frozen=True, slots=True)
class Timeline:
    """The cycles of one thing on a market."""

    seed: int
    key: str
    moves: bool
    """True if it comes and goes; otherwise it is always there."""
    shortest: float = 6 * DAY
    longest: float = 40 * DAY
    kept: float = 1.0
    """Share of each span that is kept: a second portal drops a home before the first does."""

    @property
    def period(self) -> float:
        """Length of a cycle."""
        return self.shortest + (self.longest - self.shortest) * chance(self.seed, self.key, "period")

    def span(self, moment: float) -> Span:
        """Return the time on the market of the cycle that this moment is in; it may have ended already."""
        if not self.moves:
            return Span(-FOREVER, FOREVER)
        return self._span(self._number(moment))

    def listed(self, moment: float) -> bool:
        return self.span(moment).holds(moment)

    def version(self, moment: float) -> int:
        """Counts the cycles: what comes back may have changed."""
        return self._number(moment) if self.moves else 0

    def spans(self, start: float, end: float) -> Iterator[Span]:
        """Yield every time on the market that overlaps [start, end)."""
        if not self.moves:
            yield Span(-FOREVER, FOREVER)
            return
        for number in range(self._number(start), self._number(end) + 1):
            span = self._span(number)
            if span.end > start and span.begin < end:
                yield span

    def _number(self, moment: float) -> int:
        period = self.period
        return int((moment - self._phase(period)) // period)

    def _phase(self, period: float) -> float:
        return chance(self.seed, self.key, "phase") * period

    def _span(self, number: int) -> Span:
        period = self.period
        begin = self._phase(period) + number * period
        share = 0.45 + 0.45 * chance(self.seed, self.key, "stay", number)
        return Span(begin, begin + period * share * self.kept)


MOST_HOMES = 1 << 14
_BITS = 35
_ODD = 0x5DEECE66D & ((1 << _BITS) - 1)
_INVERSE = pow(_ODD, -1, 1 << _BITS)
_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"


class SimulatedMarket(NamedTuple):
    number: int
    """20 bits of a hash of its name: what the homes are drawn from."""
    city: str
    state: str


class SimulatedListing(NamedTuple):
    """A property on one portal: `twin` is the second one."""

    market: int
    home: int
    twin: bool


@dataclass(frozen=True)
class ListingsWorld:
    seed: int = 7
    homes: int = 30
    """Properties that a market ever has; those that are listed at a moment are fewer."""
    sizes: Mapping[str, int] = field(default_factory=dict)
    """Another number of homes for named markets (`"Boston, MA"`)."""
    moving_share: float = 0.6
    """Share of homes that come and go; the others are always listed."""
    twin_share: float = 0.1
    """Share of homes that a second portal also lists."""

    def market(self, search: str) -> SimulatedMarket:
        """Return the market that the words of a search name."""
        city, _, state = search.partition(",")
        city, state = " ".join(city.split()).title(), state.strip().upper()
        return SimulatedMarket(market_number(f"{city}, {state}"), city, state)

    def listings(self, search: str, moment: float) -> list[SimulatedListing]:
        """Return what a search of this market shows at this moment, in the order of the homes."""
        return [each for each in self.all_listings(search) if self.listed(each, moment)]

    def all_listings(self, search: str) -> Iterator[SimulatedListing]:
        """Yield every listing that this market ever has."""
        number = self.market(search).number
        for home in range(self._size(search)):
            yield SimulatedListing(number, home, twin=False)
            if self.has_twin(number, home):
                yield SimulatedListing(number, home, twin=True)

    def has_twin(self, market: int, home: int) -> bool:
        return chance(self.seed, market, home, "twin") < self.twin_share

    def timeline(self, listing: SimulatedListing) -> Timeline:
        """Return when the property is listed on this portal; the second portal drops it before the first does."""
        key = f"{listing.market}/{listing.home}"
        moves = listing.twin or chance(self.seed, key, "moves") < self.moving_share
        return Timeline(self.seed, key, moves, kept=0.6 if listing.twin else 1.0)

    def listed(self, listing: SimulatedListing, moment: float) -> bool:
        return self.timeline(listing).listed(moment)

    def home_listed(self, listing: SimulatedListing, moment: float) -> bool:
        """Return whether any portal lists the property."""
        both = (SimulatedListing(listing.market, listing.home, twin) for twin in (False, True))
        return any(self.listed(each, moment) for each in both if not each.twin or self.has_twin(each.market, each.home))

    def spans(self, listing: SimulatedListing, start: float, end: float) -> Iterator[Span]:
        """Yield every time on the market that overlaps [start, end): what a test compares the stored state with."""
        return self.timeline(listing).spans(start, end)

    def listing_id(self, listing: SimulatedListing) -> str:
        """Seven characters, as the real portal has them."""
        value = (listing.market << 15 | listing.home << 1 | listing.twin) * _ODD % (1 << _BITS)
        value ^= self.seed * 0x9E3779B1 % (1 << _BITS)
        text = ""
        for _ in range(7):
            value, digit = divmod(value, 36)
            text = _DIGITS[digit] + text
        return text

    def listing(self, listing_id: str) -> SimulatedListing | None:
        """Return the listing with this id; None if no market can have it."""
        if len(listing_id) != 7 or not set(listing_id) <= set(_DIGITS):
            return None
        value = int(listing_id, 36) ^ self.seed * 0x9E3779B1 % (1 << _BITS)
        if value >> _BITS:
            return None
        value = value * _INVERSE % (1 << _BITS)
        listing = SimulatedListing(value >> 15, value >> 1 & (MOST_HOMES - 1), bool(value & 1))
        biggest = max((self.homes, *self.sizes.values()))
        known = listing.home < biggest and (not listing.twin or self.has_twin(listing.market, listing.home))
        return listing if known else None

    def draws(self, listing: SimulatedListing, *parts: object, size: int = 16) -> bytes:
        """Return the draws of the property: both portals get the same."""
        return draw(self.seed, listing.market, listing.home, *parts, size=size)

    def rent_version(self, listing: SimulatedListing, moment: float) -> int:
        """Changes when the rents of the property do: every ten days to a month."""
        days = 10 + 20 * chance(self.seed, listing.market, listing.home, "rent-days")
        return int(moment // (days * DAY))

    def _size(self, search: str) -> int:
        return self.sizes.get(search, self.homes)


@lru_cache(maxsize=10_000)
def market_number(name: str) -> int:
    return int.from_bytes(blake2b(name.lower().encode(), digest_size=3).digest(), "big") >> 4
