"""Whether a sink takes no changes for now although it works, and what operators see of that."""

from collections.abc import Awaitable, Callable

import structlog

from forager.core.clock import Clock
from forager.core.sink import Cursors, Full, Sink

log = structlog.get_logger("forager.engine")


class Fullness:
    """The answers of one sink's `full`. A sink without that method is never full."""

    def __init__(self, sink: Sink, cursors: Cursors, clock: Clock) -> None:
        self._sink = sink
        self._ask: Callable[[], Awaitable[Full | None]] | None = getattr(sink, "full", None)
        self._cursors = cursors
        self._clock = clock
        self._since: float | None = None
        """When the sink began to be full for a reason, in monotonic seconds; None if it is not."""
        self._stored_at: int | None = None
        """The sink's stored position when the reason was stored last."""
        self.is_full = False
        """The last answer."""

    async def ask(self, cursor: int) -> bool:
        """Ask whether the sink, whose stored position is `cursor`, takes nothing for now.

        A reason is logged once for the whole time in which the sink is full. It is stored as the sink's last error with
        the time of the next try, again after each such try, because moving the position clears that time. The sink does
        not count as failing.
        """
        found = None if self._ask is None else await self._ask()
        self.is_full = found is not None
        if found is not None and found.reason is not None:
            await self._note(found.reason, found.retry_in, cursor)
        elif found is not None:  # it takes changes again, or still; None alone may be the next try of one that is full
            self._since = self._stored_at = None
        return self.is_full

    def end(self) -> None:
        """Note that nothing waits for the sink: if it is full later, the reason is a new one."""
        self.is_full = False
        self._since = self._stored_at = None

    async def _note(self, reason: str, retry_in: float | None, cursor: int) -> None:
        now = self._clock.monotonic()
        if self._since is None:
            self._since = now
            log.warning("changes for a sink stay in the log", sink=self._sink.name, reason=reason)
        if self._stored_at != cursor:
            await self._cursors.failed(
                self._sink.name, reason, failures=0, retry_in=retry_in, seconds_ago=now - self._since
            )
            self._stored_at = cursor
