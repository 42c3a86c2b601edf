"""Near duplicates: decides whether the listings of two sources are the same one, and joins their values. Pure.

A wrong merge hides a listing, and a missed one only shows it twice: so every rule that distinguishes two listings has a
veto, and a field that one side does not have is no evidence for either.
"""

import math
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from rapidfuzz import fuzz

from forager.pipelines.listings.parse import ListingFound
from forager.pipelines.listings.records import (
    Listing,
    ListingSource,
    address_key,
    cell_block,
    house_number,
    nearby_cells,
    normal_street,
    normal_unit,
    zip_block,
)

_EARTH_METRES: Final = 6_371_000
_RANGES: Final = (
    ("rent_min", "rent_max"),
    ("beds_min", "beds_max"),
    ("baths_min", "baths_max"),
    ("area_min", "area_max"),
)
_PLACE: Final = ("latitude", "longitude")
_TOGETHER: Final[tuple[tuple[str, ...], ...]] = (
    *_RANGES,
    _PLACE,
    ("units",),
    ("source_url",),
    ("verification_status",),
)
"""Groups of fields that come from one side: the one seen last, if it has all of the group."""
_LEFT_ALONE: Final = frozenset(
    (
        "listing_key",
        "market_id",
        "zero_at",
        "verify_at",
        "block_zip",
        "block_cell",
        *(name for group in _TOGETHER for name in group),
    )
)


@dataclass(frozen=True, slots=True)
class Thresholds:
    """Minimum similarity of two listings that are merged."""

    street: float = 90.0
    """Similarity of the two street names, 0 to 100. The house number must be the same in any case."""
    metres: float = 150.0
    """Distance between the two points."""
    rent: float = 0.15
    """Gap between the two rent ranges, as a share of the lower of the two rents at the gap."""
    beds: float = 0.0
    """Gap between the two ranges of beds."""
    baths: float = 0.5
    """Gap between the two ranges of baths."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """The decision about two listings, and the reason."""

    same: bool
    reason: str
    evidence: Mapping[str, float | str]
    """The measurements that led to the decision, as JSON."""


def same(one: Listing, other: Listing, thresholds: Thresholds = Thresholds()) -> Verdict:  # noqa: B008 - it is frozen
    """Decide whether two listings are the same one. The order of the two does not matter."""
    evidence: dict[str, float | str] = {}
    reason = _difference(one, other, thresholds, evidence)
    return Verdict(reason is None, reason or "Address, place, rent and rooms agree.", evidence)


def merge(stored: Listing, seen: Listing) -> Listing:
    """Join the values of both, under the key and market of the stored one.

    The richer value of every field wins: a value over none, the longer of two lists or texts, and otherwise what was
    seen last. The two ends of a range, and the two coordinates, always come from the same side; free units are those
    seen last, however many there were before.
    """
    values = {
        name: _richer(getattr(stored, name), getattr(seen, name))
        for name in Listing.model_fields
        if name not in _LEFT_ALONE
    }
    for group in _TOGETHER:
        source = seen if all(getattr(seen, name) is not None for name in group) else stored
        values |= {name: getattr(source, name) for name in group}
    return stored.model_copy(update=values)


def _difference(one: Listing, other: Listing, limits: Thresholds, evidence: dict[str, float | str]) -> str | None:
    """Return the difference that excludes a merge, or None."""
    return (
        _other_address(one, other, limits, evidence)
        or _other_place(one, other, limits, evidence)
        or _other_offer(one, other, limits, evidence)
    )


def _other_address(one: Listing, other: Listing, limits: Thresholds, evidence: dict[str, float | str]) -> str | None:
    numbers = house_number(one.address or ""), house_number(other.address or "")
    if None in numbers:
        return "One has no house number."
    if numbers[0] != numbers[1]:
        return "The house numbers differ."
    evidence["house_number"] = str(numbers[0])
    if normal_unit(one.unit) != normal_unit(other.unit):
        return "The units differ."
    if one.state and other.state and one.state != other.state:
        return "The states differ."
    streets = [normal_street(each.address or "").partition(" ")[2] for each in (one, other)]
    alike = fuzz.ratio(*streets)
    evidence["street"] = round(alike, 1)
    if _numbered(streets[0]) != _numbered(streets[1]):
        return "The numbers of the streets differ."
    return "The streets differ." if alike < limits.street else None


def _numbered(street: str) -> list[str]:
    """Return words whose smallest difference names another street: "3rd" and "5th", "n" and "s"."""
    return sorted(
        word for word in street.split() if word[0].isdigit() or word in ("n", "s", "e", "w", "ne", "nw", "se", "sw")
    )


def _other_place(one: Listing, other: Listing, limits: Thresholds, evidence: dict[str, float | str]) -> str | None:
    distance = _metres(one, other)
    if distance is not None:
        evidence["metres"] = round(distance, 1)
        return "They are too far apart." if distance > limits.metres else None
    if one.zip is None or one.zip != other.zip:
        return "Neither their points nor their ZIP codes show that they are in one place."
    return None


def _metres(one: Listing, other: Listing) -> float | None:
    if one.latitude is None or one.longitude is None or other.latitude is None or other.longitude is None:
        return None
    middle = math.radians((one.latitude + other.latitude) / 2)
    down = math.radians(other.latitude - one.latitude)
    right = math.radians(other.longitude - one.longitude) * math.cos(middle)
    return _EARTH_METRES * math.hypot(down, right)


def _other_offer(one: Listing, other: Listing, limits: Thresholds, evidence: dict[str, float | str]) -> str | None:
    rent = _gap(one, other, "rent_min", "rent_max")
    if rent is not None:
        lower = min(value for each in (one, other) if (value := each.rent_max) is not None)
        evidence["rent"] = round(rent / lower, 3) if lower else rent
        if rent > limits.rent * lower:
            return "The rents differ."
    for name, limit in (("beds", limits.beds), ("baths", limits.baths)):
        gap = _gap(one, other, f"{name}_min", f"{name}_max")
        if gap is not None:
            evidence[name] = gap
            if gap > limit:
                return f"The {name} differ."
    return None


def _gap(one: Listing, other: Listing, low: str, high: str) -> float | None:
    """Return the gap between two ranges: 0 if they overlap, None if one is unknown."""
    ends = [getattr(each, name) for each in (one, other) for name in (low, high)]
    if None in ends:
        return None
    return float(max(0, ends[2] - ends[1], ends[0] - ends[3]))


def _richer(stored: Any, seen: Any) -> Any:
    if stored is None or seen is None:
        return stored if seen is None else seen
    if isinstance(stored, list | str) and isinstance(seen, list | str) and len(stored) > len(seen):
        return stored
    return seen


# Resolves each listing of a batch: the same source again, a near duplicate of a stored listing, or a new one. Pure.
#
# A near duplicate is merged into the stored listing, and the reason is kept as a row; a wrong merge that was split is
# never made again. Two rows of one batch for the same listing become one sighting of it.


MOST_CANDIDATES = 20
"""Maximum stored listings that one listing is compared with."""


@dataclass(frozen=True, slots=True)
class Merge:
    """A source that is merged into a stored listing, and the reason."""

    source_key: str
    listing_key: str
    verdict: Verdict


@dataclass(frozen=True, slots=True)
class OwningMarket:
    """The market of a stored listing, if another market is being scraped."""

    market_id: str
    city: str
    """The market's."""


@dataclass(frozen=True, slots=True)
class Stored:
    """The stored rows that concern a batch of listings."""

    known: Mapping[str, str] = field(default_factory=dict)
    """Source key to the key of the listing that the source shows."""
    listings: Mapping[str, Listing] = field(default_factory=dict)
    """The listings of these sources, and all candidates, by key."""
    shared: Collection[str] = ()
    """Keys of listings with several sources: what one source leaves out, another may have."""
    splits: Collection[tuple[str, str]] = ()
    """(source key, listing key) that must not be merged again."""
    owners: Mapping[str, OwningMarket] = field(default_factory=dict)
    """Listing key to the other market that it belongs to. A market that was removed owns none."""


@dataclass(slots=True)
class Resolved:
    listings: dict[str, Listing] = field(default_factory=dict)
    """One sighting of each listing, by key."""
    sources: list[ListingSource] = field(default_factory=list)
    merges: list[Merge] = field(default_factory=list)


def resolve(batch: Iterable[ListingFound], stored: Stored, thresholds: Thresholds, city: str) -> Resolved:
    """Decide for every listing of a batch, in order. `city` is that of the scraped market."""
    resolved, nearby = Resolved(), _Nearby(stored.listings.values())
    shared = set(stored.shared)
    for each in batch:
        source = each.source.source_key
        key = stored.known.get(source)
        if key is None:
            key = source
            match = _best(each.listing, nearby.candidates(each.listing), stored.splits, thresholds)
            if match is not None:
                key = match.listing_key
                shared.add(key)
                resolved.merges.append(match)
        before = resolved.listings.get(key) or (stored.listings.get(key) if key in shared else None)
        market = _market_of(each.listing, stored.owners.get(key), city)
        seen = each.listing.model_copy(update={"listing_key": key, **market})
        resolved.listings[key] = seen if before is None else merge(before, seen).model_copy(update=market)
        own = {"listing_key": key, "market_id": market["market_id"]}
        resolved.sources.append(each.source.model_copy(update=own))
        nearby.add(resolved.listings[key])
    return resolved


def _market_of(seen: Listing, owner: OwningMarket | None, city: str) -> dict[str, Any]:
    """Return the market that a listing belongs to, and its rate of ageing: None, which leaves the stored rate as it is,
    if another market owns the listing. A new rate of the owner may be stored before this sighting is, and must stay.

    Scrapes of neighbouring markets show the same listings. A listing stays in its market, and does not move with every
    scrape, unless it is in the city of the scraped market and not in that of its own.
    """
    if owner is None or (_is_in(seen, city) and not _is_in(seen, owner.city)):
        return {"market_id": seen.market_id, "decay_rate": seen.decay_rate}
    return {"market_id": owner.market_id, "decay_rate": None}


def _is_in(listing: Listing, city: str) -> bool:
    return listing.city is not None and listing.city.casefold() == city.casefold()


def judge(one: Listing, other: Listing, thresholds: Thresholds) -> Verdict:
    """The same address with the same unit is the same listing; otherwise all known values must agree."""
    exact = address_key(one.address, one.unit, one.zip)
    if exact is not None and exact == address_key(other.address, other.unit, other.zip):
        return Verdict(True, "The address and the unit are the same.", {"address": exact})
    return same(one, other, thresholds)


def _best(
    listing: Listing, candidates: Sequence[Listing], splits: Collection[tuple[str, str]], thresholds: Thresholds
) -> Merge | None:
    """Return the most similar candidate that is the same listing."""
    matches = [
        Merge(listing.listing_key, each.listing_key, verdict)
        for each in candidates
        if (listing.listing_key, each.listing_key) not in splits and (verdict := judge(listing, each, thresholds)).same
    ]
    return max(matches, key=_alike, default=None)


def _alike(match: Merge) -> float:
    street = match.verdict.evidence.get("street", 100.0)
    return float(street) if isinstance(street, int | float) else 100.0


class _Nearby:
    """Listings by their blocks: those of the store, and those of the batch as they are resolved."""

    def __init__(self, listings: Iterable[Listing]) -> None:
        self._listings: dict[str, Listing] = {}
        self._blocks: defaultdict[str, dict[str, None]] = defaultdict(dict)
        for listing in listings:
            self.add(listing)

    def add(self, listing: Listing) -> None:
        self._listings[listing.listing_key] = listing
        for block in (
            zip_block(listing.address, listing.zip),
            cell_block(listing.address, listing.latitude, listing.longitude),
        ):
            if block is not None:
                self._blocks[block][listing.listing_key] = None

    def candidates(self, listing: Listing) -> list[Listing]:
        """At most 20, those of the same ZIP code first."""
        by_zip = zip_block(listing.address, listing.zip)
        blocks = [*([by_zip] if by_zip else ()), *nearby_cells(listing.address, listing.latitude, listing.longitude)]
        keys = dict.fromkeys(key for block in blocks for key in self._blocks.get(block, ()))
        return [self._listings[key] for key in keys if key != listing.listing_key][:MOST_CANDIDATES]
