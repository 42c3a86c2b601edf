"""Retention in the background: removes old data page by page, with long pauses between the pages.

One process at a time does this: the one that holds the lane `loop:prune`. A page takes a few milliseconds, followed by
a pause of twenty times that, so that retention takes at most a twentieth of the store's time.
"""

from collections.abc import Callable, Collection
from dataclasses import fields

import structlog

from forager.core.clock import Clock
from forager.core.errors import StoreError
from forager.core.lane_names import LOOP_LANES
from forager.core.ledger import Away, GivenLane, Ledger, Session
from forager.core.retention import Keep, Pruned

log = structlog.get_logger("forager.engine")

LANE = f"{LOOP_LANES}prune"
FIRST = 60.0
EVERY = 3_600.0
REST = 20.0
"""After a page, pause for so many times its duration …"""
LEAST_REST = 0.02
"""… and at least for so many seconds."""


async def prune_forever(
    ledger: Ledger, keep: Keep, sinks: Collection[str], clock: Clock, session: Callable[[], Session | None]
) -> None:
    """Prune once an hour. `session` returns this process's session while it is alive, and None otherwise."""
    await clock.sleep(FIRST)
    while True:
        try:
            pruned = await prune_once(ledger, keep, sinks, clock, session)
        except StoreError as error:
            log.warning("old data could not be removed", error=error.message)
        else:
            if pruned.total:
                gone = {each.name: count for each in fields(pruned) if (count := getattr(pruned, each.name))}
                log.info("removed old data", **gone)
        await clock.sleep(EVERY)


async def prune_once(
    ledger: Ledger, keep: Keep, sinks: Collection[str], clock: Clock, session: Callable[[], Session | None]
) -> Pruned:
    """Remove everything that is old now, unless another process is doing it. Returns what was removed."""
    sum_, mine = Pruned(), session()
    lane = None if mine is None else await ledger.take_lane(mine, LANE)
    if mine is None or lane is None or isinstance(lane, Away):
        return sum_
    try:
        while session() is mine:
            began = clock.monotonic()
            page = await ledger.prune(keep, sinks)
            sum_ += page
            if not page.more:
                break
            await clock.sleep(max(LEAST_REST, REST * (clock.monotonic() - began)))
    finally:
        await ledger.give_lanes(mine, {lane.id: GivenLane()})
    return sum_
