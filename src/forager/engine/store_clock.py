"""Time as the store tells it: its wall clock, our monotonic one.

What a lane writes down, and when a waiting task is due, are points in time of the store; a worker whose own wall clock
is wrong must not act on it. Only differences are taken from our side, by the monotonic clock.
"""

from collections.abc import Callable
from datetime import datetime, timedelta

from forager.core.clock import Clock, Timer


class StoreClock:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._ahead = timedelta()

    def follow(self, store_now: datetime) -> None:
        """From now on, tell the time as the store does."""
        self._ahead = store_now - self._clock.now()

    def now(self) -> datetime:
        return self._clock.now() + self._ahead

    def monotonic(self) -> float:
        return self._clock.monotonic()

    async def sleep(self, seconds: float) -> None:
        await self._clock.sleep(seconds)

    def call_later(self, seconds: float, act: Callable[[], object]) -> Timer:
        return self._clock.call_later(seconds, act)
