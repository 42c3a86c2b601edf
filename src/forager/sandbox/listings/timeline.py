"""When a home is listed: a pure function of its draws and the time, so that a year of history needs no memory.

Most homes come and go: each cycle of theirs is a time on the market and then a time off it. The others stay.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from forager.sandbox.draw import chance

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
    """Whether it comes and goes; otherwise it is always there."""
    shortest: float = 6 * DAY
    longest: float = 40 * DAY
    kept: float = 1.0
    """Share of each span that is kept: a second portal drops a home before the first does."""

    @property
    def period(self) -> float:
        """Length of a cycle."""
        return self.shortest + (self.longest - self.shortest) * chance(self.seed, self.key, "period")

    def span(self, moment: float) -> Span:
        """The time on the market of the cycle that this moment lies in; it may have ended already."""
        if not self.moves:
            return Span(-FOREVER, FOREVER)
        return self._span(self._number(moment))

    def listed(self, moment: float) -> bool:
        return self.span(moment).holds(moment)

    def version(self, moment: float) -> int:
        """Counts the cycles: what comes back may have changed."""
        return self._number(moment) if self.moves else 0

    def spans(self, start: float, end: float) -> Iterator[Span]:
        """Every time on the market that overlaps [start, end)."""
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
