"""Sinks: where changes are delivered. The port has one verb; the engine stores each sink's position in the log.

A sink that cannot be reached raises `Transient` (or an `OSError`, or a `TimeoutError`): the engine waits and hands the
same batch over again. A sink that is reachable and refuses what it was given raises `Permanent` (or a `ValueError`, a
`TypeError`, a `LookupError`): the engine finds the change that is refused, sets it aside, and continues with the rest.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Protocol
from uuid import UUID

from forager.core.change import Change

STALLED_AFTER = 300.0
"""Health is red when a sink fails and has not moved for this number of seconds."""
FULL_TOO_LONG = 86_400.0
"""Health is also red when a sink has been full for this number of seconds: nothing behind its position can be
pruned."""


@dataclass(frozen=True, slots=True)
class Batching:
    """The form in which changes are handed to a sink. A sink that declares `batching: Batching` gets its own."""

    most: int = 500
    """Changes in one batch, at most."""
    age: float = 0.02
    """Seconds for which new changes may wait for one another while the log moves: fewer, larger batches."""


@dataclass(frozen=True, slots=True)
class Full:
    """The answer of a sink that works and takes no changes for now."""

    reason: str | None = None
    """Why, for operators. None if it is a matter of moments, which is neither logged nor stored."""
    retry_in: float | None = None
    """Seconds until the sink takes a batch, at the latest; None if it cannot be estimated."""


@dataclass(frozen=True, slots=True)
class SinkRow:
    """Configuration of one sink: its name, its type, and the changes that it gets.

    It holds no address and no credentials. These are settings, so that a caller of the API can send data to no host
    that the operator has not set up; only the type `webhook` takes a URL, which the egress guard checks.
    """

    name: str
    type: str
    """The name of a `SinkFeature`."""
    kinds: frozenset[str] | None = None
    """The kinds of changes that it gets; None means all."""
    pipelines: frozenset[str] | None = None
    """It gets only changes that jobs of these pipelines caused; None means all changes."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """Options of its type, as JSON values."""
    where: str | None = None
    """A condition (`forager.sdk.expressions`) on the records of its kinds: it gets only changes that meet it."""
    created_at: datetime | None = None
    """None if it is in no row: the settings configure it."""


class Sink(Protocol):
    """Receives the changes of the log, batch by batch, and delivers them to another system.

    It may also declare `batching: Batching`, `pipelines: frozenset[str] | None` as in `SinkRow`, and
    `async def open(self) -> None`, which connects to the sink's system.

    `open` is called once, when this process first holds the sink's lane and nothing waits for the sink, so that its
    first change does not wait for a connection. If it raises, the first `write` connects, as without it. It is
    cancelled if the process stops meanwhile.

    `async def full(self) -> Full | None` is called before a batch with changes for this sink is handed over, possibly
    several times. While it returns a `Full`, the changes stay in the log and it is called again shortly. This does not
    count as a failure of the sink.
    """

    @property
    def name(self) -> str:
        """Return the name under which its position is stored: a sink with a new name starts from the first change."""
        ...

    @property
    def kinds(self) -> frozenset[str] | None:
        """Return the kinds of changes that it takes; None means all."""
        ...

    async def write(self, batch: Sequence[Change]) -> bool | None:
        """Deliver the whole batch, in its order, or raise.

        The same change may come again (after a crash, a lost answer, a replay): it must take effect once, by its id.
        Return False if nothing in the batch concerned this sink; its place is then stored a little later, because
        reading the batch again would do nothing either.
        """
        ...


@dataclass(frozen=True, slots=True)
class SinkPosition:
    """A sink's position in the log, and its owner."""

    cursor: int
    """The last change that it has passed; 0 before the first."""
    last: int
    """The newest change in the log."""
    lane: int | None
    """The number of its lane, once there is one."""
    owner: int | None
    """The session that holds the lane."""
    paused: bool
    retries: bool
    """True if an operator has requested another delivery of changes that were set aside."""


@dataclass(frozen=True, slots=True)
class Outbox:
    """The messages of a sink that hands changes on as messages, each of which a receiver must accept."""

    accepted: int = 0
    """Messages that receivers have accepted."""
    waiting: int = 0
    """Messages that they have not: they wait for their first try or for the next."""
    failures: int = 0
    """Failed tries since a receiver last accepted a message; 0 while none fails."""
    failing_since: datetime | None = None
    """Time when the first of these failed."""
    error: str | None = None
    """The last error, even if a later try succeeded."""
    error_at: datetime | None = None
    retry_at: datetime | None = None
    """Time when the next message is due."""


@dataclass(frozen=True, slots=True)
class SinkStatus:
    """The status of a sink, for people and monitors."""

    name: str
    cursor: int
    behind: int
    """Changes in the log that it has not passed, of any kind."""
    lag: float
    """Seconds since the oldest of these was committed; 0 without any."""
    delivered: int
    """Changes delivered since its beginning, including repeated deliveries; of webhooks, those that were accepted."""
    rate: float
    """Changes delivered per second, averaged over about a minute."""
    owner: str | None
    """The session that delivers it; None while none does."""
    paused: bool
    failures: int
    """Failed tries since the last that succeeded; 0 while it works."""
    error: str | None
    """The last error, even if a later try succeeded."""
    error_at: datetime | None
    retry_at: datetime | None
    """Time when the next try is due, while it fails or is full."""
    moved_at: datetime | None
    set_aside: int
    """Refused changes that wait for an operator's decision."""
    stalled: bool = False
    """True if changes or messages wait for it, and it fails and has delivered nothing for `STALLED_AFTER` seconds or
    has been full for `FULL_TOO_LONG`."""
    failing_since: datetime | None = None
    """Time of the first failed try since the last that succeeded; None while it works."""
    waiting: int = 0
    """Messages that its receivers have not accepted yet (`Outbox`)."""

    def with_outbox(self, outbox: Outbox, now: datetime) -> "SinkStatus":
        """Return the status with what became of its messages: a change is delivered when its message is accepted."""
        status = replace(self, delivered=outbox.accepted, waiting=outbox.waiting)
        if outbox.error_at is not None and (self.error_at is None or self.error_at < outbox.error_at):
            status = replace(status, error=outbox.error, error_at=outbox.error_at)
        if outbox.failing_since is None:
            return status
        since = min(outbox.failing_since, self.failing_since or outbox.failing_since)
        failing_for = (now - outbox.failing_since).total_seconds()
        return replace(
            status,
            error=outbox.error or status.error,
            error_at=outbox.error_at or status.error_at,
            failures=max(self.failures, outbox.failures),
            failing_since=since,
            retry_at=outbox.retry_at or self.retry_at,
            rate=0.0,
            stalled=self.stalled or (not self.paused and failing_for > STALLED_AFTER),
        )


@dataclass(frozen=True, slots=True)
class SetAside:
    """A change that a sink refused."""

    sink: str
    change: int
    kind: str
    key: str
    op: str
    job: UUID | None
    tries: int
    error: str
    at: datetime
    retry: bool
    """True if it will be delivered again shortly."""


class Cursors(Protocol):
    """The storage of sinks' positions. Each verb is one transaction."""

    async def position(self, sink: str) -> SinkPosition: ...

    async def advance(
        self,
        sink: str,
        cursor: int,
        *,
        expected: int | None = None,
        session: int | None = None,
        delivered: int = 0,
        rate: float = 0.0,
    ) -> bool:
        """Move a sink's position. Returns False, and changes nothing, if it is not at `expected` or `session` does not
        hold its lane: another process has moved it, or an operator has requested a replay."""
        ...

    async def failed(
        self, sink: str, error: str, *, failures: int, retry_in: float | None, seconds_ago: float = 0.0
    ) -> None:
        """Record that a delivery failed `seconds_ago`, and when the next try is due. With no `failures`, the sink is
        full since then: it works, and changes wait for it."""
        ...

    async def set_aside(self, sink: str, change: int, *, tries: int, error: str) -> None:
        """Record that a sink refused a change. Recording it again adds to its tries."""
        ...

    async def to_retry(self, sink: str, limit: int) -> Sequence[int]:
        """Return the refused changes that are to be delivered again."""
        ...

    async def taken(self, sink: str, change: int) -> None:
        """Remove a refused change that has now been delivered."""
        ...
