"""Measures how long a site took, without the time spent waiting for a lane, which is not the site's."""

from collections.abc import Iterator
from contextlib import contextmanager

from forager.core.clock import Clock


class Stopwatch:
    """Runs from its creation."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._began = clock.monotonic()
        self._stood = 0.0
        self._waits = 0
        self._stopped_at = 0.0

    @contextmanager
    def stopped(self) -> Iterator[None]:
        """Stop the time while the block runs. Overlapping blocks (a page navigates while its last step still waits)
        count once."""
        if not self._waits:
            self._stopped_at = self._clock.monotonic()
        self._waits += 1
        try:
            yield
        finally:
            self._waits -= 1
            if not self._waits:
                self._stood += self._clock.monotonic() - self._stopped_at

    @property
    def ms(self) -> int:
        return round((self._clock.monotonic() - self._began - self._stood) * 1000)
