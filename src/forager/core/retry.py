"""Retry policies, as values. `engine/retry.py` applies them."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Retry:
    """How often and after which delays a transient failure is retried. Delays double up to `cap`; then jitter adds up
    to 10 %."""

    times: int = 3
    first: float = 5.0
    cap: float = 900.0
    delays: tuple[float, ...] | None = None
    """A table instead of the three values above: one delay per retry, and as many retries as it has entries."""

    @property
    def limit(self) -> int:
        """How many retries there are."""
        return self.times if self.delays is None else len(self.delays)

    def delay(self, number: int) -> float:
        """Return the seconds before retry `number` (from 1); beyond a table's end, its last delay."""
        if self.delays:
            return self.delays[min(number, len(self.delays)) - 1]
        return min(self.cap, self.first * 2.0 ** min(number - 1, 64))
