"""At most `rate` starts in *any* window of `per` seconds. Pure: times go in, times come out.

A token bucket is not enough: one that holds a second's worth lets almost twice its rate into one second. Here a log of
the starts in the last window is the hard limit, and pacing with a small burst spreads them inside it. The window is
kept a little longer than asked, because a request leaves us and reaches the upstream at slightly different times.
"""

from collections import deque

MARGIN = 0.02


class Limiter:
    def __init__(self, rate: int | None, per: float, burst: int) -> None:
        self._full_rate = rate
        self._window = per * (1 + MARGIN)
        self._burst = max(1, burst)
        self._starts: deque[float] = deque()
        self._ideal = 0.0
        self.rate = rate

    def slow_to(self, share: float) -> None:
        """Use this share of the full rate; 1.0 is all of it."""
        if self._full_rate is not None:
            self.rate = max(1, int(self._full_rate * share))

    def hold_until(self, at: float) -> None:
        """Nothing starts before `at`."""
        self._ideal = max(self._ideal, at + (self._burst - 1) * self._interval)

    def take(self, now: float) -> float:
        """Reserve the next start; returns when it may happen."""
        if self.rate is None:
            return max(now, self._ideal)
        self._forget(now)
        at = self._next(now, self._ideal, 0)
        self._ideal = max(self._ideal, at) + self._interval
        self._starts.append(at)
        return at

    def available(self, now: float, horizon: float, most: int) -> int:
        """How many starts, up to `most`, could be taken that happen within the horizon."""
        if self.rate is None:
            return most if self._ideal <= now + horizon else 0
        self._forget(now)
        ideal, count = self._ideal, 0
        while count < most:
            at = self._next(now, ideal, count)
            if at > now + horizon:
                break
            ideal = max(ideal, at) + self._interval
            count += 1
        return count

    def next_start(self, now: float) -> float:
        return max(now, self._ideal) if self.rate is None else self._next(now, self._ideal, 0)

    @property
    def _interval(self) -> float:
        return self._window / self.rate if self.rate else 0.0

    def _next(self, now: float, ideal: float, ahead: int) -> float:
        """The earliest start number `ahead` from now: paced, and not the (rate + 1)th in any window."""
        at = max(now, ideal - (self._burst - 1) * self._interval)
        beyond = len(self._starts) + ahead - (self.rate or 0)
        if 0 <= beyond < len(self._starts):
            at = max(at, self._starts[beyond] + self._window)
        return at

    def _forget(self, now: float) -> None:
        starts = self._starts
        while starts and starts[0] + self._window < now:
            starts.popleft()
