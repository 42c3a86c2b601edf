"""How long a site took. What was waited for a lane meanwhile is ours: it must never be counted against the site."""

from collections.abc import Iterator
from contextlib import contextmanager

from forager.core.clock import Clock


class Stopwatch:
    """Runs from the moment it is made."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._began = clock.monotonic()
        self._stood = 0.0

    @contextmanager
    def stopped(self) -> Iterator[None]:
        at = self._clock.monotonic()
        try:
            yield
        finally:
            self._stood += self._clock.monotonic() - at

    @property
    def ms(self) -> int:
        return round((self._clock.monotonic() - self._began - self._stood) * 1000)
