"""A clock that moves only when a test moves it and wakes what slept until then; browsers that only pretend."""

import asyncio
from collections.abc import Callable

from forager.core.errors import BrowserCrashed, ForagerError
from tests.support.clock import TimedClock

ROUNDS = 12
"""Turns of the loop after which everything that can happen without time passing has happened."""


class SteppedClock(TimedClock):
    """Unlike `FakeClock`, a sleep here really waits: for `advance`."""

    async def sleep(self, seconds: float) -> None:
        over = asyncio.Event()
        timer = self.call_later(seconds, over.set)
        try:
            await over.wait()
        finally:
            timer.cancel()

    async def advance(self, seconds: float) -> None:
        """Let time pass, stopping at each moment for which something waits."""
        until = self.monotonic() + seconds
        await settle()
        while self.fire_next(until):
            await settle()


async def settle() -> None:
    for _ in range(ROUNDS):
        await asyncio.sleep(0)


class PretendBrowser:
    """The part of a browser that the pool needs."""

    def __init__(self, number: int, gone: "Callable[[PretendBrowser], None]") -> None:
        self.number = number
        self.megabytes = 100
        self.closed = False
        self.lent = 0
        self._gone = gone

    @property
    def is_gone(self) -> bool:
        return self.closed

    def memory(self) -> int:
        return self.megabytes << 20

    async def close(self) -> None:
        await asyncio.sleep(0)
        if not self.closed:
            self.crash()

    def crash(self) -> None:
        self.closed = True
        self._gone(self)


class PretendLauncher:
    """Starts them at once, or as long as `clock` takes; `refuses` is raised instead while it is set."""

    def __init__(self, clock: SteppedClock | None = None, takes: float = 0.0) -> None:
        self.started: list[PretendBrowser] = []
        self.most = 0
        self.refuses: ForagerError | None = None
        self.is_closed = False
        self._clock = clock
        self._takes = takes

    @property
    def living(self) -> list[PretendBrowser]:
        return [browser for browser in self.started if not browser.closed]

    def can_launch(self) -> bool:
        return self.refuses is None

    async def launch(self, gone: Callable[[PretendBrowser], None]) -> PretendBrowser:
        if self._clock and self._takes:
            await self._clock.sleep(self._takes)
        await asyncio.sleep(0)
        if self.refuses:
            raise self.refuses
        browser = PretendBrowser(len(self.started), gone)
        self.started.append(browser)
        self.most = max(self.most, len(self.living))
        return browser

    async def close(self) -> None:
        self.is_closed = True


BROKEN = BrowserCrashed("it did not start")
