"""The end of the change log. It is polled once for all readers that wait: four times a second, while there is one."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

import structlog

from forager.core.change import Change
from forager.core.database import Database
from forager.core.errors import ForagerError
from forager.core.ledger import Ledger
from forager.kit.queries import last_change

log = structlog.get_logger("forager.api")

LOOK_EVERY = 0.25
PAGES_AT_ONCE = 2
"""Pages that are read at the same time for all readers, so that other requests are served between them."""


@dataclass(frozen=True, slots=True)
class ChangePage:
    changes: Sequence[Change]
    upto: int
    """Everything up to this number is in the page or not wanted: the next page begins after it."""
    last: int
    """The newest change in the log."""


class ChangeFeed:
    """Pages of the log, and a wait for the next change."""

    def __init__(self, ledger: Ledger, database: Database) -> None:
        self.readers = 0
        """Readers that wait or stream now."""
        self._ledger = ledger
        self._database = database
        self._last = 0
        self._moved = asyncio.Event()
        self._turns = asyncio.Semaphore(PAGES_AT_ONCE)
        self._looking: asyncio.Task[None] | None = None

    async def page(self, after: int, limit: int, kinds: frozenset[str] | None) -> ChangePage:
        """Return at most `limit` changes of these kinds (None: of all) after a number."""
        async with self._turns:
            last = await last_change(self._database)
            changes = await self._ledger.changes(after, limit, kinds=kinds, until=last) if after < last else ()
        full = len(changes) == limit
        return ChangePage(changes, changes[-1].id if full else max(after, last), last)

    @asynccontextmanager
    async def reading(self) -> AsyncIterator[None]:
        """Watch the end of the log while the block runs."""
        self.readers += 1
        if self._looking is None:
            self._looking = asyncio.create_task(self._look())
        try:
            yield
        finally:
            self.readers -= 1
            if self.readers == 0 and self._looking is not None:
                self._looking.cancel()
                self._looking = None

    async def moved(self, since: int, timeout: float) -> bool:
        """Wait, inside `reading`, until the log is longer than `since`. Returns False if it is not after `timeout`
        seconds."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout):
                while self._last <= since:
                    await self._moved.wait()
                return True
        return False

    async def _look(self) -> None:
        failing = False
        while True:
            try:
                last = await last_change(self._database)
            except ForagerError as error:
                if not failing:
                    log.warning("change_log_unreadable", error=error.message)
                failing = True
            else:
                failing = False
                if last != self._last:
                    self._last = last
                    moved, self._moved = self._moved, asyncio.Event()
                    moved.set()
            await asyncio.sleep(LOOK_EVERY)
