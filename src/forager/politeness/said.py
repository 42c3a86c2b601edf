"""The rules in force together with their sources, so that operators see where each comes from, and which one decides
how fast a lane is. Pure."""

from dataclasses import dataclass
from typing import Any, Literal

from forager.core.pipeline import Lane

By = Literal["operator", "file", "pipeline", "default", "settings", "robots"]
SOURCES: dict[By, str] = {
    "operator": "operator rule for {}",
    "file": "policy file, {}",
    "pipeline": "pipeline default for {}",
    "default": "policy file, default",
    "settings": "settings",
    "robots": "robots.txt of {}",
}
"""A source for people, with its `where`."""


@dataclass(frozen=True, slots=True)
class Said:
    """A value in force, and its source."""

    value: Any
    by: By
    where: str
    """The domain, lane or setting that defines it."""

    @property
    def source(self) -> str:
        """The source for people."""
        return SOURCES[self.by].format(self.where)


@dataclass(frozen=True, slots=True)
class Pace:
    """How fast a lane is, and the rule that decides it: of several limits, the slowest holds."""

    seconds: float | None
    """Average seconds from one request to the next, without slow-downs; None if nothing limits it."""
    rules: tuple[str, ...]
    """The rules that decide."""
    message: str


def pace_of(lane: Lane, rules: dict[str, Said]) -> Pace:
    """Return how fast a lane is by its rules. `rules["crawl_delay_seconds"]` is the delay in force, whoever asks it."""
    by_rate = None if not lane.rate else lane.per / lane.rate
    floor, (low, high) = _floor(rules), lane.delay or (0.0, 0.0)
    by_gap = _mean_gap(floor, low, high)
    named: tuple[str, ...]
    rate = "no limit" if by_rate is None else f"{lane.rate:g} in {lane.per:g} s"
    tokens = rules["tokens_per_interval"]
    if by_rate is None and not by_gap:
        return Pace(None, (), "not limited")
    if not by_gap or (by_rate is not None and by_rate >= by_gap):
        named = ("tokens_per_interval", "interval_seconds")
        return Pace(by_rate, named, f"at most {rate} ({tokens.source})")
    if floor >= high:
        wins, named = (
            f"the crawl delay of {floor:g} s ({rules['crawl_delay_seconds'].source})",
            ("crawl_delay_seconds",),
        )
    else:
        named = ("min_delay_ms", "max_delay_ms")
        wins = f"the random pause of {max(low, floor):g} to {high:g} s ({rules['max_delay_ms'].source})"
    return Pace(
        by_gap,
        named,
        f"one request in {by_gap:.3g} s on average: {wins} is slower than the rate, {rate} ({tokens.source})",
    )


def _floor(rules: dict[str, Said]) -> float:
    delay = rules.get("crawl_delay_seconds")
    return float(delay.value or 0.0) if delay is not None else 0.0


def _mean_gap(floor: float, low: float, high: float) -> float:
    """Return the mean of the greater of `floor` and a random number between `low` and `high`."""
    if floor >= high:
        return floor
    if floor <= low:
        return (low + high) / 2
    return (floor * (floor - low) + (high * high - floor * floor) / 2) / (high - low)
