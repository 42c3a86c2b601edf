"""The store's time: its wall clock, advanced by our monotonic clock.

States of lanes and due times of tasks are in the store's time, so that a worker whose own wall clock is wrong does not
act on it. Only differences come from our side, measured by the monotonic clock.
"""

from collections.abc import Callable
from datetime import datetime, timedelta

from forager.core.clock import Clock, Timer

DRIFT = 0.0001
"""Maximum drift between two clocks, in seconds per second."""


class StoreClock:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._ahead = timedelta()
        self._followed_at: float | None = None
        self.slack = 0.0
        """Our time may be so many seconds behind the store's: the duration of the call that returned it."""

    def follow(self, store_now: datetime, asked_at: float) -> None:
        """Synchronise with the store, which was asked at `asked_at` by our monotonic clock.

        An answer that took longer than an earlier one is less precise, so it is used only once the earlier one is old.
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
    """Return by how many seconds a clock may be behind the store's; 0 if it is the store's clock itself."""
    return clock.slack if isinstance(clock, StoreClock) else 0.0
