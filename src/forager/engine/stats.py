"""What one worker has done since it began: for health and metrics, never for a decision."""

from collections import Counter, deque
from dataclasses import dataclass, field


@dataclass(slots=True)
class WorkStats:
    """What this process has done; for health and metrics."""

    started: int = 0
    ended: Counter[str] = field(default_factory=Counter)
    fenced: int = 0
    turns: int = 0
    took: deque[float] = field(default_factory=lambda: deque(maxlen=100))
    """Seconds of the last attempts."""
    trouble: str | None = None
    """Why the store does not answer, while it does not."""
