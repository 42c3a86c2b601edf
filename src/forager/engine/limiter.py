"""Limits starts to `rate` in *any* window of `per` seconds. Pure: times are arguments and results.

A token bucket is not enough: one that holds a second's worth of tokens lets almost twice its rate into one second. So
there are two mechanisms. Pacing plans the starts evenly, with a small burst, so that tasks can be leased shortly before
their moment. The log of requests that were really sent is the hard limit: `start` checks it again at the planned
moment, because a busy process may be late, and several late starts would otherwise fall into one window.

A request counts from its start until a window after it was sent, however long its connection took: counting from the
plan would let a slow connection and its successors reach the upstream together. The window is 2 % longer than
configured, because requests reach the upstream with varying delays.
"""

import math
from collections import deque
from collections.abc import Callable

from forager.engine.handover import Pace

MARGIN = 0.02
LOOK_AGAIN = 0.1


class Limiter:
    """The limiter of one lane. `gap` returns the minimum seconds between two starts; it is called for each start."""

    def __init__(self, rate: float | None, per: float, burst: int, gap: Callable[[], float] | None = None) -> None:
        self._full_rate = rate
        self._per = per
        self._burst = max(1, burst)
        self._gap = gap
        self._left: deque[float] = deque()
        self._last = -math.inf
        """When the last request was sent."""
        self._leaving = 0
        self._ideal = 0.0
        self._after_gap = 0.0
        """When the next start may be planned, as far as the gap is concerned …"""
        self._gap_ends = 0.0
        """… and when it may happen: a gap begins when a request has really been sent."""
        self._held_until = 0.0
        self.rate: int | None = None
        self.window = per * (1 + MARGIN)
        self.slow_to(1.0)

    def adopt(self, rate: float | None, per: float, burst: int, gap: Callable[[], float] | None) -> None:
        """Apply other limits; requests that were sent before still count."""
        self._full_rate, self._per, self._burst, self._gap = rate, per, max(1, burst), gap
        self.rate, self.window = None, per * (1 + MARGIN)
        self._ideal = self._after_gap = 0.0
        self.slow_to(1.0)

    def slow_to(self, share: float) -> None:
        """Use this share of the full rate (1.0 = all). If that is less than one start per window, the window becomes
        longer."""
        if self._full_rate is not None:
            exact = self._full_rate * share
            self.rate = max(1, math.floor(exact))
            self.window = self._per * (1 + MARGIN) / min(1.0, exact)

    def hold_until(self, at: float) -> None:
        """Let nothing start before `at`, including starts that are planned already."""
        self._held_until = max(self._held_until, at)
        self._ideal = max(self._ideal, at + (self._burst - 1) * self._interval)

    def plan(self, now: float) -> float:
        """Reserve the next start. Returns the moment at which to call `start`."""
        at = self.next_start(now)
        self._ideal = max(self._ideal, at) + self._interval
        if self._gap is not None:
            self._after_gap = at + self._gap()
        return at

    def unplan(self, at: float) -> None:
        """Cancel the start that was planned for `at`, so that another one can have its place."""
        self._ideal -= self._interval
        if self._gap is not None:
            self._after_gap = min(self._after_gap, at)

    def start(self, now: float) -> float:
        """Start now if the window has room. Returns `now`, or the time at which to try again.

        After a start, the caller calls `left` when the request has been sent, or `gave_up`.
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
        """Record that a started request was never sent."""
        self._leaving -= 1

    def pace(self, now: float) -> Pace:
        """Return the state for the next owner of the lane. Call it only when no request is being sent."""
        sent = tuple(at for at in self._left if at + self.window > now)
        window = self.window if self.rate is not None else 0.0  # without a rate nothing is logged
        return Pace(window, sent, self._ideal, max(self._gap_ends, self._after_gap), self._last)

    def go_on(self, pace: Pace) -> None:
        """Continue from the state of the last owner."""
        self._left.extend(pace.sent)
        self._last = pace.last
        self._ideal = max(self._ideal, pace.planned)
        self._gap_ends = self._after_gap = pace.gap_ends

    def available(self, now: float, horizon: float, most: int) -> int:
        """Return how many starts, up to `most`, could be planned within the horizon."""
        if self._gap is not None:
            return min(most, 1) if max(self.next_start(now), self._gap_ends) <= now + horizon else 0
        if self.rate is None:
            return most if self._ideal <= now + horizon else 0
        ahead = now + horizon - self._ideal + (self._burst - 1) * self._interval
        return max(0, min(most, math.floor(ahead / self._interval) + 1, self._burst + int(horizon / self._interval)))

    def next_start(self, now: float) -> float:
        """Return the earliest moment for which a start could be planned."""
        return max(now, self._ideal - (self._burst - 1) * self._interval, self._after_gap)

    def _until_gap(self, now: float) -> float:
        """Return the seconds until the gap ends. While a request is still being sent, its gap has not begun: try again
        soon."""
        return LOOK_AGAIN if self._leaving else max(0.0, self._gap_ends - now)

    @property
    def _interval(self) -> float:
        return self.window / self.rate if self.rate else 0.0
