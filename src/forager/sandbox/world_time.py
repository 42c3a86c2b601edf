"""The time of a simulated world: a clock that is given, real time without one, and moved on request."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta


class WorldTime:
    """Time as the simulated upstream sees it. A test gives its own clock's `now`; `advance` adds to it."""

    def __init__(self, now: Callable[[], datetime] | None = None) -> None:
        self._now = now or (lambda: datetime.now(UTC))
        self._ahead = timedelta()

    def now(self) -> datetime:
        return self._now() + self._ahead

    def seconds(self) -> float:
        """Seconds since 1970."""
        return self.now().timestamp()

    def advance(self, seconds: float) -> None:
        """Move the world's time by that much, relative to its clock."""
        self._ahead += timedelta(seconds=seconds)
