"""Stored pages for operators: how many there are, and the removal of those that nothing refers to."""

import structlog

from forager.core.blobs import Blobs, BlobStat, Collected, References
from forager.core.clock import Clock
from forager.core.errors import Conflict, StoreError

log = structlog.get_logger("forager.engine")

EVERY = 6 * 3_600.0
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
        """Remove the pages that nothing refers to; see `core.blobs.Blobs.collect`."""
        return await self.blobs.collect(self._references, dry_run=dry_run)

    async def run(self) -> None:
        """Collect periodically until cancelled. If the store is unavailable, the next run tries again."""
        while True:
            await self._clock.sleep(EVERY)
            try:
                done = await self.collect()
            except (Conflict, StoreError) as error:
                log.warning("stored pages were not collected; the next attempt comes later", error=error.message)
            else:
                if done.pages or done.segments:
                    log.info("removed stored pages that nothing refers to", pages=done.pages, freed=done.freed)
