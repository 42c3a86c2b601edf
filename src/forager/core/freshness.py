"""Freshness: how far a stored record can still be trusted, as a function of time.

Confidence starts at a base (100 when the thing was seen) and falls by `rate` points per hour down to 0. No job rewrites
rows to age them. What is stored is the moment at which confidence reaches 0 (`zero_at`): it moves only when the base
or the rate does, and an index over it answers "confidence of at least c now". All functions are pure; moments are
timezone-aware.
"""

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
_MICROSECONDS_PER_HOUR: Final = 3_600_000_000


def confidence(base: float, since: datetime, rate: float, at: datetime) -> float:
    """Return the confidence at the moment `at`, from 0 to `base`.

    `base` was set at `since` and falls by `rate` points per hour. A moment before `since` has the full base, so that
    two clocks that differ a little never show more than was set.
    """
    passed = max(0, (at - since) // timedelta(microseconds=1))
    return max(0.0, base - rate * passed / _MICROSECONDS_PER_HOUR)


def crossing(base: float, since: datetime, rate: float, level: float) -> datetime:
    """Return the moment at which confidence has fallen to `level`; `since` itself if it never was above it.

    Raises ValueError if the rate is not positive: such a record would never age.
    """
    return since + _time_to_fall(max(0.0, base - level), rate)


def zero_at(base: float, since: datetime, rate: float) -> datetime:
    """Return the moment at which confidence reaches 0: what is stored and indexed."""
    return crossing(base, since, rate, 0)


def earliest_zero(level: float, rate: float, at: datetime) -> datetime:
    """Return the bound of a confidence filter: at `at`, records of this rate have a confidence of at least `level`
    if, and only if, their `zero_at` is not before the returned moment. `level` must be above 0: everything has 0.
    """
    return at + _time_to_fall(level, rate)


def _time_to_fall(points: float, rate: float) -> timedelta:
    if rate <= 0:
        raise ValueError(f"A rate of {rate} points per hour: it must be more than 0.")
    return timedelta(microseconds=round(points * _MICROSECONDS_PER_HOUR / rate))


@dataclass(frozen=True, slots=True)
class Badge:
    """A label that is shown with a record in a list."""

    color: Literal["green", "yellow", "orange"]
    text: str


def badge(confidence: float, first_seen_at: datetime, at: datetime) -> Badge | None:
    """Return the badge of a record with this confidence at the moment `at`; None if it should not be shown at all."""
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
    # (decay_rate, zero_at) answers a confidence filter, one range per rate; the other finds what is due to be verified.
    indexes: ClassVar[tuple[Index, ...]] = (
        Index(("decay_rate", "zero_at", "id")),
        Index(("verify_at", "id"), where="verify_at IS NOT NULL"),
    )

    confidence_base: float | None = None
    confidence_updated_at: datetime | None = None
    """When the base was set."""
    decay_rate: float | None = None
    """Points per hour."""
    zero_at: datetime | None = None
    """Derived: when confidence reaches 0."""
    verify_at: datetime | Clear | None = None
    """Derived when base or rate change: when confidence falls to 40. Until then a step may set it: `CLEAR` once the
    verification is queued, an earlier moment to bring it forward."""

    def derive(self, before: Self | None) -> Mapping[str, Any]:
        facts = _facts(self)
        if facts is None:
            return {"zero_at": None, "verify_at": self.verify_at}
        moved = before is None or _facts(before) != facts
        return {"zero_at": zero_at(*facts), "verify_at": crossing(*facts, DOUBTFUL) if moved else self.verify_at}

    def confidence(self, at: datetime) -> float:
        """Return the confidence at this moment; 0 if none was ever set."""
        facts = _facts(self)
        return 0.0 if facts is None else confidence(*facts, at)


def _facts(record: FreshRecord) -> tuple[float, datetime, float] | None:
    """Base, since and rate; None unless all three are known."""
    base, since, rate = record.confidence_base, record.confidence_updated_at, record.decay_rate
    return None if base is None or since is None or rate is None else (base, since, rate)
