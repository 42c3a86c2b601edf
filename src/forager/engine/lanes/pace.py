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
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from forager.core.clock import Clock
from forager.engine.work.heartbeat import slack_of

# Passes a lane's pace from one owner to the next, so that the lane continues at its exact rate without a pause.
#
# The pace is stored only when a lane is given back with nothing in flight, together with the number of that ownership
# (its epoch). After a crash, or if another session owned the lane in between, the epochs do not match, and the next
# owner waits for one whole window instead: what was sent in it is unknown. Moments are stored in the store's time,
# shifted later by the possible error of our estimate of that time, so that an error never lets a request through too
# early.


FARTHEST = 365 * 86_400.0
"""Limit for planned starts: a later one, of a lane with a very low rate, is stored as this."""
MOST_SENT = 1_000
"""Maximum length of the log. A longer one is not passed on: waiting for one window costs less than storing it."""


@dataclass(frozen=True, slots=True)
class Pace:
    """The state of a limiter, in moments of a monotonic clock."""

    window: float
    """Seconds for which a request counts."""
    sent: tuple[float, ...]
    """Time when each request was sent that still counts."""
    planned: float
    """Time when the next request is planned, by the rate alone."""
    gap_ends: float
    """Time when the gap after the last request ends."""
    last: float
    """Time when the last request was sent."""


def write_pace(pace: Pace, epoch: int, clock: Clock) -> Mapping[str, Any]:
    """Return the pace as JSON for the next owner; empty if it would be too long."""
    if len(pace.sent) > MOST_SENT:
        return {}
    ahead = clock.now().timestamp() - clock.monotonic() + slack_of(clock)
    farthest = clock.monotonic() + FARTHEST

    def moment(at: float) -> int | None:
        return math.ceil((min(at, farthest) + ahead) * 1000) if at > 0 else None

    known = {
        "epoch": epoch,
        "window": pace.window,
        "sent": [moment(at) for at in pace.sent],
        "planned": moment(pace.planned),
        "gap_ends": moment(pace.gap_ends),
        "last": moment(pace.last),
    }
    return {"pace": {name: value for name, value in known.items() if value is not None}}


def read_pace(state: Mapping[str, Any], epoch: int, clock: Clock) -> Pace | None:
    """Return the pace that the previous owner stored; None unless it was stored by the ownership directly before
    `epoch`."""
    known = state.get("pace")
    if not isinstance(known, Mapping) or known.get("epoch") != epoch - 1:
        return None
    ahead = clock.now().timestamp() - clock.monotonic()
    sent = known.get("sent")
    window = known.get("window")
    if not isinstance(sent, list) or not all(isinstance(at, int) for at in sent) or not isinstance(window, int | float):
        return None

    def moment(name: str) -> float:
        at = known.get(name)
        return at / 1000 - ahead if isinstance(at, int) else -math.inf

    return Pace(window, tuple(at / 1000 - ahead for at in sent), moment("planned"), moment("gap_ends"), moment("last"))


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
        """Time when the last request was sent."""
        self._leaving = 0
        self._ideal = 0.0
        self._after_gap = 0.0
        """Time when the next start may be planned, as far as the gap is concerned …"""
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
        """Cancel the start that was planned for `at`, so that another one can have its slot."""
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
