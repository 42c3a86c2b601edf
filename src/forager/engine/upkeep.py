"""The sweep: rescues what dead sessions held. It is a loop and not a task, so that nothing it repairs can stop it."""

from collections.abc import Callable, Collection
from dataclasses import fields

import structlog

from forager.core.clock import Clock
from forager.core.errors import Conflict, StoreError
from forager.core.ids import LOOP_LANES
from forager.core.ledger import Away, GivenLane, Ledger, LedgerUpkeep, Session
from forager.core.storage import Blobs, BlobStat, Collected, References
from forager.core.upkeep import Keep, Pruned

log = structlog.get_logger("forager.engine")


def sweep_interval(lease: float) -> float:
    """Return the interval at which everything is rescued within one lease plus five seconds."""
    return min(4.0, max(0.25, lease / 6))


async def sweep_forever(ledger: LedgerUpkeep, clock: Clock, every: float) -> None:
    while True:
        try:
            swept = await ledger.sweep()
        except StoreError as error:
            log.warning("sweep_delayed", error=error.message)
        except Exception:
            log.exception("sweep_failed")
        else:
            if swept.rescued or swept.sessions_ended:
                log.warning("dead_session_rescued", tasks=swept.rescued, sessions=swept.sessions_ended)
            if swept.more:
                continue
        await clock.sleep(every)


# Retention in the background: removes old data page by page, with long pauses between the pages.
#
# One process at a time does this: the one that holds the lane `loop:prune`. A page takes a few milliseconds, followed
# by a pause of twenty times that, so that retention takes at most a twentieth of the store's time.


LANE = f"{LOOP_LANES}prune"
FIRST = 60.0
EVERY = 3_600.0
REST = 20.0
"""After a page, pause for this multiple of its duration …"""
LEAST_REST = 0.02
"""… and at least for this number of seconds."""


async def prune_forever(
    ledger: Ledger, keep: Keep, sinks: Collection[str], clock: Clock, session: Callable[[], Session | None]
) -> None:
    """Prune once an hour. `session` returns this process's session while it is alive, and None otherwise."""
    await clock.sleep(FIRST)
    while True:
        try:
            pruned = await prune_once(ledger, keep, sinks, clock, session)
        except StoreError as error:
            log.warning("prune_failed", error=error.message)
        else:
            if pruned.total:
                gone = {each.name: count for each in fields(pruned) if (count := getattr(pruned, each.name))}
                log.info("old_data_removed", **gone)
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


# Stored pages for operators: how many there are, and the removal of those that nothing refers to.


PAGES_EVERY = 6 * 3_600.0
"""Seconds between two collections."""


class StoredPages:
    """The blob store together with the references to its pages."""

    def __init__(self, blobs: Blobs, references: References, clock: Clock) -> None:
        self.blobs = blobs
        self._references = references
        self._clock = clock

    async def stat(self) -> BlobStat:
        return await self.blobs.stat()

    async def collect(self, *, dry_run: bool = False) -> Collected:
        """Remove the pages that nothing refers to; see `core.storage.Blobs.collect`."""
        return await self.blobs.collect(self._references, dry_run=dry_run)

    async def run(self) -> None:
        """Collect periodically until cancelled. If the store is unavailable, the next run tries again."""
        while True:
            await self._clock.sleep(PAGES_EVERY)
            try:
                done = await self.collect()
            except (Conflict, StoreError) as error:
                log.warning("page_cleanup_failed", error=error.message)
            else:
                if done.pages or done.segments:
                    log.info("unreferenced_pages_removed", pages=done.pages, freed=done.freed)
