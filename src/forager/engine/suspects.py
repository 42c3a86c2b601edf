"""When a worker asks for the suspects of a crash: what was in flight then runs in small groups, with nothing beside it,
until the task that kills its worker is alone."""

PAUSE = 1.0
"""After it found none that it may run, a worker asks again after so many seconds."""


class SuspectLook:
    def __init__(self) -> None:
        self.at: float | None = None
        """Monotonic time of the next look; None while no suspects are known."""
        self._not_before = 0.0

    def is_due(self, now: float) -> bool:
        """While it is, nothing else is leased: suspects run when all that is in flight has ended."""
        return self.at is not None and now >= self.at

    def expect(self, now: float) -> None:
        """The store has some."""
        if self.at is None:
            self.at = max(now, self._not_before)

    def found_none(self, now: float) -> None:
        """None that we may run now; a later turn tells whether some are left."""
        self.at, self._not_before = None, now + PAUSE
