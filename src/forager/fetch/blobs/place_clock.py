"""The clock of a place: what the times of its files are compared with.

The wall clock of this machine may be wrong by a day; the pages of other machines must not be removed for it.
"""

import threading

from forager.core.clock import Clock
from forager.core.place import Place

PROBE = ".now"
"""A file that is written to read the clock. Its name is hidden from lists."""
READ_EVERY = 3_600.0
"""Seconds for which the monotonic clock continues a reading."""


class PlaceClock:
    """Reads the clock of a place by writing a file. Everything here blocks; any thread may call it."""

    def __init__(self, place: Place, clock: Clock) -> None:
        self._place = place
        self._clock = clock
        self._lock = threading.Lock()
        self._reading: tuple[int, float] | None = None
        """The last time that was read, and when that was by the monotonic clock."""

    def now(self) -> int:
        """Return the time at the place, in Unix milliseconds. It is read once an hour: between two readings, the
        monotonic clock of this process continues it."""
        with self._lock:
            if self._reading is None or self._clock.monotonic() - self._reading[1] >= READ_EVERY:
                self._reading = self.read(), self._clock.monotonic()
            read, at = self._reading
        return read + round((self._clock.monotonic() - at) * 1000)

    def read(self) -> int:
        """Read the time at the place, in Unix milliseconds. It is never later than the real one."""
        self._place.put(PROBE, b".")
        written = self._place.find(PROBE)
        if written is None:
            raise OSError(f"{PROBE} was written, and is not there")
        return written.modified_ms
