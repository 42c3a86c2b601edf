"""At most `rate` starts in *any* window of `per` seconds. Pure: times go in, times come out.

A token bucket is not enough: one that holds a second's worth lets almost twice its rate into one second. Here starts
are planned by even pacing with a small burst, and a log of the requests that really left is the hard limit: a start
that was planned but is late, because the process was busy, is checked again at its moment, and a request counts from
its start until a window after it has left us, however long its connection took. The window is kept a little longer than
asked, because the upstream sees what left us with delays of its own.
"""

import math
from collections import deque
from collections.abc import Callable

from forager.engine.handover import Pace

MARGIN = 0.02
LOOK_AGAIN = 0.1


class Limiter:
    """`gap` gives the seconds that must lie between one start and the next; it is asked anew for each."""

    def __init__(self, rate: float | None, per: float, burst: int, gap: Callable[[], float] | None = None) -> None:
        self._full_rate = rate
        self._per = per
        self._burst = max(1, burst)
        self._gap = gap
        self._left: deque[float] = deque()
        self._last = -math.inf
        """When the last request left."""
        self._leaving = 0
        self._ideal = 0.0
        self._after_gap = 0.0
        """When the next start may be planned …"""
        self._gap_ends = 0.0
        """… and when it may happen: a gap begins when a request has really left."""
        self._held_until = 0.0
        self.rate: int | None = None
        self.window = per * (1 + MARGIN)
        self.slow_to(1.0)

    def adopt(self, rate: float | None, per: float, burst: int, gap: Callable[[], float] | None) -> None:
        """Other limits from now on; what has left already still counts."""
        self._full_rate, self._per, self._burst, self._gap = rate, per, max(1, burst), gap
        self.rate, self.window = None, per * (1 + MARGIN)
        self._ideal = self._after_gap = 0.0
        self.slow_to(1.0)

    def slow_to(self, share: float) -> None:
        """Use this share of the full rate; 1.0 is all of it. Less than one start is one in a longer window."""
        if self._full_rate is not None:
            exact = self._full_rate * share
            self.rate = max(1, math.floor(exact))
            self.window = self._per * (1 + MARGIN) / min(1.0, exact)

    def hold_until(self, at: float) -> None:
        """Nothing starts before `at`, not even what was planned already."""
        self._held_until = max(self._held_until, at)
        self._ideal = max(self._ideal, at + (self._burst - 1) * self._interval)

    def plan(self, now: float) -> float:
        """Reserve the next start; returns when to come back with `start`."""
        at = self.next_start(now)
        self._ideal = max(self._ideal, at) + self._interval
        if self._gap is not None:
            self._after_gap = at + self._gap()
        return at

    def unplan(self, at: float) -> None:
        """What was planned for `at` will not happen: somebody else can have the place."""
        self._ideal -= self._interval
        if self._gap is not None:
            self._after_gap = min(self._after_gap, at)

    def start(self, now: float) -> float:
        """Start now, if that is not one too many in this window: returns `now`, or the time at which to ask again.

        Whoever may start says `left` when the request has left, or `gave_up`.
        """
        if now < self._held_until:
            return self._held_until
        if self._gap is not None and (wait := self._until_gap(now)):
            return now + wait
        if self.rate is None:
            self._leaving += 1
            return now
        left = self._left
        while left and left[0] + self.window <= now:
            left.popleft()
        too_many = len(left) + self._leaving - self.rate
        if too_many >= 0:
            return left[too_many] + self.window if too_many < len(left) else now + self._interval
        self._leaving += 1
        return now

    def left(self, now: float) -> None:
        self._leaving -= 1
        self._last = now
        if self.rate is not None:
            self._left.append(now)
        if self._gap is not None:
            self._gap_ends = now + self._gap()

    def gave_up(self) -> None:
        """What had been started never left."""
        self._leaving -= 1

    def pace(self, now: float) -> Pace:
        """How far it has come, for the next owner of the lane. Ask when nothing is leaving."""
        sent = tuple(at for at in self._left if at + self.window > now)
        window = self.window if self.rate is not None else 0.0  # without a rate nothing is logged
        return Pace(window, sent, self._ideal, max(self._gap_ends, self._after_gap), self._last)

    def go_on(self, pace: Pace) -> None:
        """From where the last owner was."""
        self._left.extend(pace.sent)
        self._last = pace.last
        self._ideal = max(self._ideal, pace.planned)
        self._gap_ends = self._after_gap = pace.gap_ends

    def available(self, now: float, horizon: float, most: int) -> int:
        """How many starts, up to `most`, could be planned that happen within the horizon."""
        if self._gap is not None:
            return min(most, 1) if self.next_start(now) <= now + horizon else 0
        if self.rate is None:
            return most if self._ideal <= now + horizon else 0
        ahead = now + horizon - self._ideal + (self._burst - 1) * self._interval
        return max(0, min(most, math.floor(ahead / self._interval) + 1, self._burst + int(horizon / self._interval)))

    def next_start(self, now: float) -> float:
        """When the next planned start could be."""
        return max(now, self._ideal - (self._burst - 1) * self._interval, self._after_gap)

    def _until_gap(self, now: float) -> float:
        """While a request is still leaving it is not known when the gap after it begins: look again soon."""
        return LOOK_AGAIN if self._leaving else max(0.0, self._gap_ends - now)

    @property
    def _interval(self) -> float:
        return self.window / self.rate if self.rate else 0.0
