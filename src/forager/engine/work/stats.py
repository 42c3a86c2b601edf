"""Counters of one worker since its start. For health and metrics only; no decision depends on them."""

from bisect import bisect_left
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from forager.core.ledger import Settlement
from forager.core.states import Reason, TaskState

_OWN = frozenset(Reason)


MOST_LANES = 100
"""Lanes that are counted by name. A crawler meets any number of sites, and a monitor must not: the rest is `other`."""
OTHER = "other"
RECENT, RECENT_SECONDS = 256, 30.0
BOUNDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)
"""Upper bounds in seconds of the classes in which durations are counted."""


@dataclass(slots=True)
class LaneCounts:
    """Requests of one lane, or of all that have no counts of their own."""

    requests: int = 0
    rate_limited: int = 0
    """Answers with status 429."""
    bytes: int = 0
    """Size of all answers."""
    answered_at: deque[float] = field(default_factory=partial(deque, maxlen=RECENT))
    """Monotonic times of the newest answers."""

    def per_second(self, now: float) -> float:
        """Return the requests per second of the last half minute, or of the newest answers if these are more."""
        times = [at for at in self.answered_at if now - at <= RECENT_SECONDS]
        if not times:
            return 0.0
        return len(times) / (RECENT_SECONDS if len(times) < RECENT else max(now - times[0], 0.001))


class LaneTally:
    """The counts of every lane, by name; from the hundredth name on they are counted together."""

    def __init__(self) -> None:
        self.by_name: dict[str, LaneCounts] = {}

    def of(self, lane: str) -> LaneCounts:
        name = lane if lane in self.by_name or len(self.by_name) < MOST_LANES else OTHER
        return self.by_name.setdefault(name, LaneCounts())


class Durations:
    """A histogram of durations in seconds."""

    def __init__(self) -> None:
        self.total = 0.0
        self._counts = [0] * (len(BOUNDS) + 1)

    def add(self, seconds: float) -> None:
        """Count one duration."""
        self.total += seconds
        self._counts[bisect_left(BOUNDS, seconds)] += 1

    def cumulative(self) -> Iterator[tuple[str, int]]:
        """Yield each upper bound, the last one being `+Inf`, with the number of durations that do not exceed it."""
        so_far = 0
        for bound, count in zip((*map(str, BOUNDS), "+Inf"), self._counts, strict=True):
            so_far += count
            yield bound, so_far


@dataclass(slots=True)
class WorkStats:
    """Counters of this process, for health and metrics."""

    reasons: frozenset[str] = frozenset()
    """Reasons that the pipelines declare."""
    started: int = 0
    by_kind: Counter[tuple[str, TaskState]] = field(default_factory=Counter)
    """Attempts that ended, by the kind of their task and its state after."""
    spent: Counter[str] = field(default_factory=Counter)
    """Their cost, by kind."""
    retried: Counter[str] = field(default_factory=Counter)
    """Failed attempts whose task is retried later, by kind."""
    lanes: LaneTally = field(default_factory=LaneTally)
    failures: Counter[tuple[str, str]] = field(default_factory=Counter)
    """Failed attempts by reason and error type, including those that are retried."""
    fenced: int = 0
    lost: int = 0
    """Sessions that expired before their heartbeat arrived."""
    transactions: int = 0
    settling: Durations = field(default_factory=Durations)
    """Durations of these transactions, as the worker sees them."""
    took: deque[float] = field(default_factory=lambda: deque(maxlen=100))
    """Durations of the last attempts, in seconds."""
    trouble: str | None = None
    """Why the store accepts no work; None while it does."""
    shifts_sent: Counter[str] = field(default_factory=Counter)
    """Shifts that this process has sent to Celery workers, by queue."""
    consumer_lag: Callable[[], Mapping[str, int]] = dict
    """Returns the messages that wait in this process's partitions of Kafka topics, by queue."""

    def settled(self, settlements: Sequence[Settlement]) -> None:
        """Count attempts that have been settled."""
        self.by_kind.update([(s.lease.kind, s.state) for s in settlements])
        for settlement in settlements:
            if settlement.cost:
                self.spent[settlement.lease.kind] += settlement.cost
            if settlement.state is TaskState.WAITING and settlement.burned:
                self.retried[settlement.lease.kind] += 1
        self.failures.update([(self._label(s.reason), s.error_type) for s in settlements if s.error_type is not None])

    @property
    def ended(self) -> Counter[str]:
        """Attempts that ended, by the task's state after."""
        ended: Counter[str] = Counter()
        for (_, state), count in self.by_kind.items():
            ended[state.name.lower()] += count
        return ended

    def _label(self, reason: str | None) -> str:
        """Return a bounded label: undeclared reasons could be any number."""
        if reason is None:
            return ""
        return reason if reason in _OWN or reason in self.reasons else "other"
