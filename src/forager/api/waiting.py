"""Waiting for a task to end: woken by this process's own engine the moment that the end is in the store.

Where another process works on the task (PostgreSQL), nobody wakes us, and a look now and then finds it.
"""

import asyncio
from collections.abc import Callable, Sequence
from uuid import UUID

from forager.app import App
from forager.core.ids import task_numbers
from forager.core.ledger import Settlement
from forager.ledger.reports import TaskDetail

LOOK_EVERY = 1.0


class Endings:
    def __init__(self, app: App, closing: asyncio.Event) -> None:
        self.closing = closing
        self._app = app
        self._waiting: dict[int, set[asyncio.Event]] = {}
        app.worker.when_settled(self._settled)

    async def wait(self, task: UUID, timeout: float, is_over: Callable[[TaskDetail], bool]) -> TaskDetail | None:
        """The task as it stands when it is over; None after `timeout` seconds, or when the server shuts down."""
        numbers = task_numbers(task)
        number = numbers[1] if numbers else 0
        settled = asyncio.Event()
        self._waiting.setdefault(number, set()).add(settled)
        closing = asyncio.create_task(self.closing.wait())
        try:
            async with asyncio.timeout(timeout):
                while not self.closing.is_set():
                    settled.clear()
                    seen = await self._app.reports.task(task)
                    if is_over(seen):
                        return seen
                    await _first(settled, closing)
        except TimeoutError:
            return None
        finally:
            closing.cancel()
            self._waiting[number].discard(settled)
            if not self._waiting[number]:
                del self._waiting[number]
        return None

    def _settled(self, settlements: Sequence[Settlement]) -> None:
        for settlement in settlements if self._waiting else ():
            for settled in self._waiting.get(settlement.lease.task_id, ()):
                settled.set()


async def _first(settled: asyncio.Event, closing: "asyncio.Task[bool]") -> None:
    waiting = asyncio.create_task(settled.wait())
    try:
        await asyncio.wait((waiting, closing), timeout=LOOK_EVERY, return_when=asyncio.FIRST_COMPLETED)
    finally:
        waiting.cancel()
