"""Counts requests per second: the limit of a key, the exact maximum for an auditor. Pure: times are given.

A window is half-open, (t − 1 s, t]: two starts exactly one second apart do not share one.
"""

from collections import deque

SECOND = 1.0


class SlidingWindow:
    """The starts of the last second (or `seconds`), to the microsecond: no window has more than the limit."""

    __slots__ = ("_seconds", "_starts")

    def __init__(self, seconds: float = SECOND) -> None:
        self._seconds = seconds
        self._starts: deque[float] = deque()

    def admit(self, now: float, limit: int | None) -> bool:
        """Count a start at `now` unless it would be more than `limit`; a refused one takes no room."""
        starts = self._starts
        horizon = now - self._seconds
        while starts and starts[0] <= horizon:
            starts.popleft()
        if limit is not None and len(starts) >= limit:
            return False
        starts.append(now)
        return True

    def __len__(self) -> int:
        return len(self._starts)


class StartCounter:
    """Most starts in any one-second window, and the same over windows in which this process was awake throughout.

    A process that is not scheduled for a while then reads everything that waited in its sockets at once: a burst that
    no client sent. `pulse` is called by a timer: a late call is a stall, and windows that touch it do not count as
    undisturbed.
    """

    def __init__(self, now: float, period: float = 0.01, flag_after: float = 0.01) -> None:
        self.period = period
        self.flag_after = flag_after
        self.most = 0
        self.most_undisturbed = 0
        self.longest_stall = 0.0
        self.stalls = 0
        self._window = SlidingWindow()
        self._since_pulse = 0
        self._last_pulse = now
        self._disturbed_until = float("-inf")

    def start(self, now: float) -> None:
        self._window.admit(now, None)
        count = len(self._window)
        if count > self.most:
            self.most = count
        if count > self._since_pulse and now - SECOND >= self._disturbed_until:
            self._since_pulse = count

    def pulse(self, now: float) -> None:
        """Close the interval since the last pulse: what was counted in it stands if the timer was on time."""
        late = now - self._last_pulse - self.period
        if late > self.longest_stall:
            self.longest_stall = late
        if late >= self.flag_after:
            self.stalls += 1
            self._disturbed_until = now
        elif self._since_pulse > self.most_undisturbed:
            self.most_undisturbed = self._since_pulse
        self._since_pulse = 0
        self._last_pulse = now
