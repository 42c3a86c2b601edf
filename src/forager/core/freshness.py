"""Freshness: how far a stored record can still be trusted, as a function of time.

Confidence starts at a base (100 when the thing was seen) and falls by `rate` points with every whole hour, down to 0,
so the base itself holds for an hour. No job rewrites rows to age them. What is stored is the moment at which confidence
reaches 0 (`zero_at`): it moves only when the base or the rate does, and an index over it answers "confidence of at
least c now". All functions are pure; moments are timezone-aware.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, ClassVar, Final, Literal, Self

from forager.core.record import Clear, Index, Record

SEEN: Final = 100
"""The base of a record that its source has just shown."""
VERIFIED: Final = 80
"""The base of a record whose own page has just been found live."""
DOUBTFUL: Final = 40
"""Below this confidence a record is verified, and lists leave it out."""

_RECENT: Final = 80
_LISTED: Final = 50
_HOUR: Final = timedelta(hours=1)


def confidence(base: float, since: datetime, rate: float, at: datetime) -> float:
    """Return the confidence at the moment `at`, from 0 to `base`.

    `base` was set at `since` and falls by `rate` points at the end of each whole hour. A moment before `since` has the
    full base, so that two clocks that differ a little never show less than was set.
    """
    return _after(base, rate, max(0, (at - since) // _HOUR))


def falls_below(base: float, since: datetime, rate: float, level: float) -> datetime:
    """Return the first moment at which confidence is below `level`; `since` itself if it never was as high.

    Raises ValueError if the rate is not positive (such a record would never age), or if the level is not above 0.
    """
    if level <= 0:
        raise ValueError(f"A level of {level}: confidence is never below 0.")
    return since + _hours_at_least(base, rate, level) * _HOUR


def zero_at(base: float, since: datetime, rate: float) -> datetime:
    """Return the moment at which confidence reaches 0: what is stored and indexed."""
    return since + _hours_to_zero(base, rate) * _HOUR


def latest_zero_below(level: float, base: float, rate: float, at: datetime) -> datetime | None:
    """Return the bound of a confidence filter: at `at`, records of this base and rate have a confidence of at least
    `level` if, and only if, their `zero_at` is after the returned moment. None if no record of this base ever has it.
    `level` must be above 0: everything has 0.
    """
    hours = _hours_at_least(base, rate, level)
    return None if hours == 0 else at + (_hours_to_zero(base, rate) - hours) * _HOUR


def _after(base: float, rate: float, hours: int) -> float:
    return max(0.0, base - rate * hours)


def _hours_at_least(base: float, rate: float, level: float) -> int:
    """Return for how many hours confidence is at least `level`, by the same arithmetic as `confidence`."""
    hours = max(0, _whole_hours(base - level, rate))
    return hours + 1 if _after(base, rate, hours) >= level else hours


def _hours_to_zero(base: float, rate: float) -> int:
    hours = max(0, _whole_hours(base, rate))
    return hours if _after(base, rate, hours) == 0 else hours + 1


def _whole_hours(points: float, rate: float) -> int:
    if rate <= 0:
        raise ValueError(f"A rate of {rate} points per hour: it must be more than 0.")
    return math.floor(points / rate)


@dataclass(frozen=True, slots=True)
class Badge:
    """A label that is shown with a record in a list."""

    color: Literal["green", "yellow", "orange"]
    text: str


def badge(confidence: float, first_seen_at: datetime, at: datetime) -> Badge | None:
    """Return the badge of a record with this confidence at the moment `at`; None if it should not be shown."""
    if confidence >= _RECENT:
        return Badge("green", "Recently verified")
    if confidence >= _LISTED:
        return Badge("yellow", _listed(max(0, (at - first_seen_at).days)))
    if confidence >= DOUBTFUL:
        return Badge("orange", "May no longer be available")
    return None


def _listed(days: int) -> str:
    if days == 0:
        return "Listed today"
    return "Listed 1 day ago" if days == 1 else f"Listed {days} days ago"


class FreshRecord(Record):
    """A kind of record that ages. A subclass adds its own fields, and extends `quiet` and `indexes` with `|` and `+`.

    A step sets `confidence_base`, `confidence_updated_at` and `decay_rate` together whenever the thing was seen or
    verified; the ledger derives the two moments. All five are quiet: a thing that is seen again, unchanged, writes no
    change. A subclass with derived fields of its own merges them with `super().derive(before)`.
    """

    quiet: ClassVar[frozenset[str]] = frozenset(
        ("confidence_base", "confidence_updated_at", "decay_rate", "zero_at", "verify_at")
    )
    # The first answers a confidence filter, one range for each rate and base; the other finds what is to be verified.
    indexes: ClassVar[tuple[Index, ...]] = (
        Index(("decay_rate", "confidence_base", "zero_at", "id")),
        Index(("verify_at", "id"), where="verify_at IS NOT NULL"),
    )

    confidence_base: float | None = None
    confidence_updated_at: datetime | None = None
    """Time when the base was set."""
    decay_rate: float | None = None
    """Points per hour."""
    zero_at: datetime | None = None
    """Derived: when confidence reaches 0."""
    verify_at: datetime | Clear | None = None
    """Derived when base or rate change: when confidence falls below 40. Until then a step may set it: `CLEAR` once the
    verification is queued, an earlier moment to bring it forward."""

    def derive(self, before: Self | None) -> Mapping[str, Any]:
        facts = _facts(self)
        if facts is None:
            return {"zero_at": None, "verify_at": self.verify_at}
        moved = before is None or _facts(before) != facts
        return {"zero_at": zero_at(*facts), "verify_at": falls_below(*facts, DOUBTFUL) if moved else self.verify_at}

    def confidence(self, at: datetime) -> float:
        """Return the confidence at this moment; 0 if none was ever set."""
        facts = _facts(self)
        return 0.0 if facts is None else confidence(*facts, at)


def _facts(record: FreshRecord) -> tuple[float, datetime, float] | None:
    """Base, since and rate; None unless all three are known."""
    base, since, rate = record.confidence_base, record.confidence_updated_at, record.decay_rate
    return None if base is None or since is None or rate is None else (base, since, rate)
