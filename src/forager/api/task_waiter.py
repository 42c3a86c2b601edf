"""Waiting for a task to end: woken the moment that the end is in the store, whoever's engine brought it there.

This process's own engine tells what it has settled; of what another process has ended (PostgreSQL) the store tells.
Nothing is looked for in the meantime, but for a look now and then: a word of the store may be lost with its connection.
"""

import asyncio
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from uuid import UUID

from forager.app import App
from forager.core.ids import task_numbers
from forager.core.ledger import Settlement
from forager.ledger.reports import ScrapeTaskReport

LOOK_EVERY = 1.0


class Endings:
    def __init__(self, app: App, closing: asyncio.Event) -> None:
        self.closing = closing
        self.told = 0
        """How often something was said to have ended. As long as it has not moved, what was seen before is still so."""
        self._app = app
        self._waiting: dict[int, dict[asyncio.Event, int]] = {}
        """By job: who waits for something of it, and for which task."""
        self._closer: asyncio.Task[None] | None = None
        app.worker.when_settled(self._settled)
        app.ledger.when_jobs_end(self._jobs_ended)

    async def wait(
        self, task: UUID, before: int | None, timeout: float, is_over: Callable[[ScrapeTaskReport], bool]
    ) -> ScrapeTaskReport | None:
        """The task as it stands when it is over; None after `timeout` seconds, or when the server shuts down.

        `before` is what `told` was before the task was made; None: nobody knows how it stands.
        """
        if self._closer is None:
            self._closer = asyncio.create_task(self._wake_all_at_the_end())
        try:
            with self._listening(task) as ended:
                async with asyncio.timeout(timeout):
                    unmoved = before == self.told and not self.closing.is_set()
                    fresh = await _woken(ended) if unmoved else False
                    while not self.closing.is_set():
                        seen = await self._app.reports.scrape_task(task, fresh=fresh)
                        if is_over(seen):
                            return seen
                        fresh = await _woken(ended)
                    return None
        except TimeoutError:
            return None

    @contextmanager
    def _listening(self, task: UUID) -> Iterator[asyncio.Event]:
        job, number = task_numbers(task) or (0, 0)
        ended = asyncio.Event()
        self._waiting.setdefault(job, {})[ended] = number
        try:
            yield ended
        finally:
            del self._waiting[job][ended]
            if not self._waiting[job]:
                del self._waiting[job]

    async def _wake_all_at_the_end(self) -> None:
        await self.closing.wait()
        for waiting in self._waiting.values():
            for ended in waiting:
                ended.set()

    def _settled(self, settlements: Sequence[Settlement]) -> None:
        self.told += 1
        for settlement in settlements if self._waiting else ():
            for ended, task in self._waiting.get(settlement.lease.job_id, {}).items():
                if task == settlement.lease.task_id:
                    ended.set()

    def _jobs_ended(self, jobs: Collection[int]) -> None:
        """`jobs` is empty when it is not known which."""
        self.told += 1
        for job in (jobs or self._waiting) if self._waiting else ():
            for ended in self._waiting.get(job, ()):
                ended.set()


async def _woken(ended: asyncio.Event) -> bool:
    """By what has ended, or by the end of the server; False: after a while, by nothing."""
    try:
        async with asyncio.timeout(LOOK_EVERY):
            await ended.wait()
    except TimeoutError:
        return False
    ended.clear()
    return True
