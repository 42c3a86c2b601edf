"""Time as the store tells it: its wall clock, our monotonic one.

What a lane writes down, and when a waiting task is due, are points in time of the store; a worker whose own wall clock
is wrong must not act on it. Only differences are taken from our side, by the monotonic clock.
"""

from collections.abc import Callable
from datetime import datetime, timedelta

from forager.core.clock import Clock, Timer

DRIFT = 0.0001
"""Two clocks may drift apart by so many seconds in each second."""


class StoreClock:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._ahead = timedelta()
        self._followed_at: float | None = None
        self.slack = 0.0
        """Our time may be so many seconds behind the store's: as long as its answer took."""

    def follow(self, store_now: datetime, asked_at: float) -> None:
        """From now on, tell the time as the store did when it was asked at `asked_at`, by our monotonic clock.

        An answer that took longer than earlier ones is worth less than they are, until they are old.
        """
        now = self._clock.monotonic()
        slack = now - asked_at
        if self._followed_at is None or slack <= self.slack + (now - self._followed_at) * DRIFT:
            self._ahead, self.slack, self._followed_at = store_now - self._clock.now(), slack, now

    def now(self) -> datetime:
        return self._clock.now() + self._ahead

    def monotonic(self) -> float:
        return self._clock.monotonic()

    async def sleep(self, seconds: float) -> None:
        await self._clock.sleep(seconds)

    def call_later(self, seconds: float, act: Callable[[], object]) -> Timer:
        return self._clock.call_later(seconds, act)


def slack_of(clock: Clock) -> float:
    """By how many seconds a clock may be behind the store's; 0 if it is that clock itself."""
    return clock.slack if isinstance(clock, StoreClock) else 0.0
