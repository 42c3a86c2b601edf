"""Counters of one worker since its start. For health and metrics only; no decision depends on them."""

from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from forager.core.ledger import Settlement
from forager.core.reasons import Reason

_OWN = frozenset(Reason)


@dataclass(slots=True)
class WorkStats:
    """Counters of this process, for health and metrics."""

    reasons: frozenset[str] = frozenset()
    """Reasons that the pipelines declare."""
    started: int = 0
    ended: Counter[str] = field(default_factory=Counter)
    failures: Counter[tuple[str, str]] = field(default_factory=Counter)
    """Failed attempts by reason and error type, including those that are retried."""
    fenced: int = 0
    transactions: int = 0
    took: deque[float] = field(default_factory=lambda: deque(maxlen=100))
    """Durations of the last attempts, in seconds."""
    trouble: str | None = None
    """Why the store accepts no work; None while it does."""

    def settled(self, settlements: Sequence[Settlement]) -> None:
        """Count attempts that have been settled."""
        self.ended.update([s.state.name.lower() for s in settlements])
        self.failures.update([(self._label(s.reason), s.error_type) for s in settlements if s.error_type is not None])

    def _label(self, reason: str | None) -> str:
        """Return a bounded label: undeclared reasons could be any number."""
        if reason is None:
            return ""
        return reason if reason in _OWN or reason in self.reasons else "other"
