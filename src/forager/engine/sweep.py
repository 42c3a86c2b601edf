"""The sweep: rescues what dead sessions held. It is a loop and not a task, so that nothing it repairs can stop it."""

import structlog

from forager.core.clock import Clock
from forager.core.errors import StoreError
from forager.core.ledger import Ledger

log = structlog.get_logger("forager.engine")


def sweep_interval(lease: float) -> float:
    """Return the interval at which everything is rescued within one lease plus five seconds."""
    return min(4.0, max(0.25, lease / 6))


async def sweep_forever(ledger: Ledger, clock: Clock, every: float) -> None:
    while True:
        try:
            swept = await ledger.sweep()
        except StoreError as error:
            log.warning("the sweep could not run", error=error.message)
        except Exception:
            log.exception("the sweep broke; it is tried again")
        else:
            if swept.rescued or swept.sessions_ended:
                log.warning("rescued what a dead session held", tasks=swept.rescued, sessions=swept.sessions_ended)
            if swept.more:
                continue
        await clock.sleep(every)
