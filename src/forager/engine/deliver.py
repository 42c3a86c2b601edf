"""Changes to sinks: each sink reads the log from its own cursor, at its own pace; a broken one holds up nobody else.

The cursor moves after the sink has taken a batch, never before: what was under way at a crash is written again.
"""

import structlog

from forager.core.clock import Clock
from forager.core.errors import ForagerError, StoreError
from forager.core.ledger import Ledger
from forager.core.sink import Sink

log = structlog.get_logger("forager.engine")

BATCH = 200
LOOK_EVERY = 0.5
KEEP_WITHIN = 5.0
"""A cursor that has only passed over what its sink does not want is written down within so many seconds."""
BACK_OFF = (1.0, 2.0, 5.0, 15.0, 60.0)


async def deliver_forever(ledger: Ledger, sink: Sink, clock: Clock, every: float = LOOK_EVERY) -> None:
    failures = 0
    delivery = Delivery(ledger, sink, clock)
    while True:
        try:
            await delivery.hand_over()
        except StoreError as error:
            log.warning("changes could not be read for a sink", sink=sink.name, error=error.message)
            failures += 1
        except ForagerError as error:
            log.warning("a sink takes no changes now; it is tried again", sink=sink.name, error=error.message)
            failures += 1
        except Exception:
            log.exception("a sink broke; it is tried again", sink=sink.name)
            failures += 1
        else:
            failures = 0
        await clock.sleep(every if not failures else BACK_OFF[min(failures, len(BACK_OFF)) - 1])


async def deliver_new(ledger: Ledger, sink: Sink, clock: Clock) -> None:
    """Hand over everything that is new now, and write down how far that is."""
    delivery = Delivery(ledger, sink, clock)
    await delivery.hand_over()
    await delivery.keep()


class Delivery:
    """How far a sink has come. What the ledger says counts, whoever has moved it: a process beside us, somebody who
    wants a replay, a database that was restored. We are only ever ahead of it by what the sink had no use for."""

    def __init__(self, ledger: Ledger, sink: Sink, clock: Clock) -> None:
        self._ledger = ledger
        self._sink = sink
        self._clock = clock
        self._cursor = self._kept = 0
        self._not_kept_since: float | None = None

    async def hand_over(self) -> None:
        """Everything that is new now. Changes of other kinds are passed over where they lie.

        A cursor that nothing was done for is written down when the log rests, or it has been long enough: a commit for
        it would stand in the way of those who write the log.
        """
        last = await self._ledger.last_change()
        kept = await self._ledger.cursor(self._sink.name)
        if kept != self._kept or last < self._cursor:
            self._cursor = self._kept = kept
            self._not_kept_since = None
        if last == self._cursor:
            await self.keep()
        while self._cursor < last:
            batch = await self._ledger.changes(self._cursor, BATCH, kinds=self._sink.kinds, until=last)
            taken = await self._sink.write(batch) if batch else False
            self._cursor = batch[-1].id if len(batch) == BATCH else last
            now = self._clock.monotonic()
            self._not_kept_since = now if self._not_kept_since is None else self._not_kept_since
            if taken or now - self._not_kept_since >= KEEP_WITHIN:
                await self.keep()

    async def keep(self) -> None:
        """Write down how far it is, unless that is known. Where somebody else has moved it meanwhile, we follow: the
        slower of two that deliver takes nobody back."""
        if self._not_kept_since is not None:
            if not await self._ledger.advance(self._sink.name, self._cursor, expected=self._kept):
                self._cursor = await self._ledger.cursor(self._sink.name)
            self._kept, self._not_kept_since = self._cursor, None
