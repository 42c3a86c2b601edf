"""Rings when the next lane without an owner wakes up, so that waiting for work needs no polling.

It may ring for a lane that was taken meanwhile, but never misses one that has woken up.
"""

from collections.abc import Callable

from forager.core.clock import Clock, Timer


class Alarm:
    """Used only on the event loop. After it has rung it must be set again, from the table: other lanes may be next."""

    def __init__(self, clock: Clock, ring: Callable[[], object]) -> None:
        self._clock = clock
        self._ring = ring
        self._timer: Timer | None = None
        self.at: int | None = None
        """The moment it is set for, in Unix milliseconds; None: no lane sleeps."""
        self.has_rung = True

    def set_for(self, at: int | None, now: int) -> None:
        self.cancel()
        self.at, self.has_rung = at, False
        if at is not None:
            self._timer = self._clock.call_later(max(0, at - now) / 1000, self._rings)

    def cancel(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _rings(self) -> None:
        self.has_rung, self._timer = True, None
        self._ring()
