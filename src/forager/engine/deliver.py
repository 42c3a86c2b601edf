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
BACK_OFF = (1.0, 2.0, 5.0, 15.0, 60.0)


async def deliver_forever(ledger: Ledger, sink: Sink, clock: Clock, every: float = LOOK_EVERY) -> None:
    failures = 0
    while True:
        try:
            await deliver_new(ledger, sink)
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


async def deliver_new(ledger: Ledger, sink: Sink) -> None:
    """Hand over everything that is new now. Changes of other kinds are passed over where they lie."""
    last = await ledger.last_change()
    cursor = await ledger.cursor(sink.name)
    while cursor < last:
        batch = await ledger.changes(cursor, BATCH, kind=sink.kind, until=last)
        if batch:
            await sink.write(batch)
        cursor = batch[-1].id if len(batch) == BATCH else last
        await ledger.advance(sink.name, cursor)
