"""Sinks: where changes are delivered. A sink is a port of one verb; the engine keeps its place in the log.

A sink that cannot be reached raises `Transient` (or an `OSError`, or a `TimeoutError`): the engine waits and hands the
same batch over again. A sink that is reachable and refuses what it was given raises `Permanent` (or a `ValueError`, a
`TypeError`, a `LookupError`): the engine finds the change that is refused, sets it aside, and goes on with the rest.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol
from uuid import UUID

from forager.core.change import Change


@dataclass(frozen=True, slots=True)
class Batching:
    """How a sink wants changes to be handed over. A sink that declares `batching: Batching` gets its own."""

    most: int = 500
    """Changes in one batch, at most."""
    age: float = 0.02
    """Seconds for which new changes may wait for one another while the log moves: fewer, larger batches."""


class Sink(Protocol):
    @property
    def name(self) -> str:
        """Its place in the log is kept under this name: a sink with a new name starts from the first change."""
        ...

    @property
    def kinds(self) -> frozenset[str] | None:
        """The kinds of changes that it wants; None means all."""
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
    """Where a sink stands in the log, and who delivers it."""

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
    """Whether an operator has asked for changes that were set aside to be delivered again."""


@dataclass(frozen=True, slots=True)
class SinkStatus:
    """How a sink is doing, for people and monitors."""

    name: str
    cursor: int
    behind: int
    """Changes in the log that it has not passed, of whatever kind."""
    lag: float
    """Seconds since the oldest of these was committed; 0 if there are none."""
    delivered: int
    """Changes that it has taken since its beginning, those that were delivered again included."""
    rate: float
    """Changes that it took per second, over about the last minute."""
    owner: str | None
    """The session that delivers it; None while none does."""
    paused: bool
    failures: int
    """Failed tries since the last that succeeded; 0 while it works."""
    error: str | None
    """The last error, also when it has been overcome since."""
    error_at: datetime | None
    retry_at: datetime | None
    """When it is tried again, while it fails."""
    moved_at: datetime | None
    set_aside: int
    """Changes that it refused and that wait for an operator's decision."""


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
    """Whether it will be delivered again at the next look."""


class Cursors(Protocol):
    """What the engine keeps about sinks. Each verb is one transaction."""

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
        """Move a sink to a place in the log. Returns False, and moves nothing, if it is not at `expected`, or if
        `session` does not hold its lane: another process has moved it, or an operator has asked for a replay."""
        ...

    async def failed(self, sink: str, error: str, *, failures: int, retry_in: float) -> None:
        """Note that a try to deliver failed, and when the next is due."""
        ...

    async def set_aside(self, sink: str, change: int, *, tries: int, error: str) -> None:
        """Note that a sink refused a change. Noting it again adds to its tries."""
        ...

    async def to_retry(self, sink: str, limit: int) -> Sequence[int]:
        """The changes that were set aside and are to be delivered again."""
        ...

    async def taken(self, sink: str, change: int) -> None:
        """A change that was set aside has been delivered after all: forget it."""
        ...
