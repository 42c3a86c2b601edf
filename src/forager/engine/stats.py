"""What one worker has done since it began: for health and metrics, never for a decision."""

from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from forager.core.ledger import Settlement
from forager.core.reasons import Reason

_OWN = frozenset(Reason)


@dataclass(slots=True)
class WorkStats:
    """What this process has done; for health and metrics."""

    reasons: frozenset[str] = frozenset()
    """Those that the pipelines declare."""
    started: int = 0
    ended: Counter[str] = field(default_factory=Counter)
    failures: Counter[tuple[str, str]] = field(default_factory=Counter)
    """Attempts that failed, by reason and error type: those that are tried again, too."""
    fenced: int = 0
    transactions: int = 0
    took: deque[float] = field(default_factory=lambda: deque(maxlen=100))
    """Seconds of the last attempts."""
    trouble: str | None = None
    """Why the store does not answer, while it does not."""

    def settled(self, settlements: Sequence[Settlement]) -> None:
        """Count attempts that have ended and are in the store."""
        self.ended.update([s.state.name.lower() for s in settlements])
        self.failures.update([(self._label(s.reason), s.error_type) for s in settlements if s.error_type is not None])

    def _label(self, reason: str | None) -> str:
        """A reason that no pipeline declares is no label: there could be any number of them."""
        if reason is None:
            return ""
        return reason if reason in _OWN or reason in self.reasons else "other"
