"""Decides when a worker asks for suspects: tasks that were in flight when a worker died.

One of them may have killed the worker (an endless loop, a crash in native code), and would kill the next one, too, with
everything beside it. So suspects run in groups that halve with every further crash, and nothing else runs at the same
time: only then does a crash incriminate the group and not some other task. A group that ends clears its members; a task
that crashes its worker while alone, repeatedly, becomes a dead letter. Innocent tasks burn no attempt.
`ledger/*/rescue.py` forms the groups; see docs/decisions/0001.
"""

PAUSE = 1.0
"""Seconds until a worker asks again after it found no suspects that it may run."""


class SuspectLook:
    def __init__(self) -> None:
        self.at: float | None = None
        """Monotonic time of the next question; None while no suspects are known."""
        self._not_before = 0.0

    def is_due(self, now: float) -> bool:
        """Return whether suspects are waiting. While they are, nothing else is leased: they start when all in-flight
        tasks have ended."""
        return self.at is not None and now >= self.at

    def expect(self, now: float) -> None:
        """Note that the store has suspects."""
        if self.at is None:
            self.at = max(now, self._not_before)

    def found_none(self, now: float) -> None:
        """Note that there are none that we may run now; a later batch reports whether some are left."""
        self.at, self._not_before = None, now + PAUSE
