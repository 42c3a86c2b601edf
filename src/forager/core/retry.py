"""How often and how late a failed call is made again. A value: the engine decides by it (`engine/retry.py`)."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Retry:
    """How often and how late a transient failure is retried. Delays double to `cap`; jitter adds ≤ 10 % after it."""

    times: int = 3
    first: float = 5.0
    cap: float = 900.0
    delays: tuple[float, ...] | None = None
    """A table instead of the three above: one delay for each retry, and no more retries than it has."""

    @property
    def limit(self) -> int:
        """How many retries there are."""
        return self.times if self.delays is None else len(self.delays)

    def delay(self, number: int) -> float:
        """Seconds before retry `number` (from 1); beyond a table's end, its last delay."""
        if self.delays:
            return self.delays[min(number, len(self.delays)) - 1]
        return min(self.cap, self.first * 2.0 ** min(number - 1, 64))
