"""Near duplicates: whether two listings show the same home, and what is known of it together. Pure.

A wrong merge hides a home, and a missed one only shows it twice: so every rule that can tell two homes apart has a
veto, and a field that one side does not have is no evidence for either.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from rapidfuzz import fuzz

from forager.pipelines.listings.address import house_number, normal_street, normal_unit
from forager.pipelines.listings.records import Listing

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
    """How alike two listings must be."""

    street: float = 90.0
    """Similarity of the two street names, 0 to 100. The house number must be the same whatever this says."""
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
    """Whether two listings are the same home, and why."""

    same: bool
    reason: str
    evidence: Mapping[str, float | str]
    """What was measured until the decision was made, as JSON."""


def same(one: Listing, other: Listing, thresholds: Thresholds = Thresholds()) -> Verdict:  # noqa: B008 - it is frozen
    """Decide whether two listings show the same home. The order of the two does not matter."""
    evidence: dict[str, float | str] = {}
    reason = _difference(one, other, thresholds, evidence)
    return Verdict(reason is None, reason or "Address, place, rent and rooms agree.", evidence)


def merge(stored: Listing, seen: Listing) -> Listing:
    """Return what both know of the home, under the key and market of the stored one.

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
    """Return what tells the two apart; None if nothing does."""
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
    """Words whose smallest difference names another street: "3rd" and "5th", "n" and "s"."""
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
    """How far two ranges lie apart: 0 if they overlap, None if one is unknown."""
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
