"""Clocks for tests: they stand still until a test advances them, so that a year passes in a second."""

import asyncio
import heapq
import itertools
from collections.abc import Callable
from datetime import UTC, datetime, timedelta


class HandTimer:
    """A call that is due at a moment of a clock of ours."""

    def __init__(self, at: float, act: Callable[[], object]) -> None:
        self.at = at
        self.act = act
        self.cancelled = False

    def cancel(self) -> None:
        self.cancelled = True


class TimedClock:
    """Time and timers; subclasses define what a sleep does."""

    def __init__(self, start: datetime = datetime(2026, 1, 1, tzinfo=UTC), monotonic: float = 1_000.0) -> None:
        self._start = start
        self._began = self._monotonic = monotonic
        self._timers: list[tuple[float, int, HandTimer]] = []
        self._order = itertools.count()

    def now(self) -> datetime:
        return self._start + timedelta(seconds=self._monotonic - self._began)

    def monotonic(self) -> float:
        return self._monotonic

    def call_later(self, seconds: float, act: Callable[[], object]) -> HandTimer:
        timer = HandTimer(self._monotonic + max(0.0, seconds), act)
        heapq.heappush(self._timers, (timer.at, next(self._order), timer))
        return timer

    def next_timer(self) -> float | None:
        """Return when the next timer is due, if one is set."""
        while self._timers and self._timers[0][2].cancelled:
            heapq.heappop(self._timers)
        return self._timers[0][0] if self._timers else None

    def fire_next(self, until: float) -> bool:
        """Move to the next timer that is due by then, and call it. False: none is, and the time is `until` now."""
        at = self.next_timer()
        if at is None or at > until:
            self._monotonic = max(self._monotonic, until)
            return False
        self._monotonic = max(self._monotonic, at)
        heapq.heappop(self._timers)[2].act()
        return True


class FakeClock(TimedClock):
    """A clock whose `sleep` moves time by itself, so that code under test never really waits."""

    async def sleep(self, seconds: float) -> None:
        self.advance(max(0.0, seconds))
        await asyncio.sleep(0)

    def advance(self, seconds: float) -> None:
        until = self._monotonic + seconds
        while self.fire_next(until):
            pass
