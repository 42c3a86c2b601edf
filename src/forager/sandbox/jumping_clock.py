"""Simulated time for a whole application in one process: days pass in a moment, for a demonstration.

Time stands still while anything is under way, and then jumps to the next moment for which anything waits. It needs
asyncio's own event loop, and everything that it must wait for besides the loop is named with `wait_for`.
"""

import asyncio
import contextlib
import heapq
import itertools
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from forager.core.http import Fetch, Request, Response

_LEAST = 0.00002


class JumpTimer:
    """A call that is due at a moment of simulated time."""

    def __init__(self, at: float, act: Callable[[], object]) -> None:
        self.at = at
        self.act = act
        self.cancelled = False

    def cancel(self) -> None:
        self.cancelled = True


class JumpingClock:
    """A `Clock` that moves only inside `run_for`."""

    def __init__(self, start: datetime) -> None:
        self._start = start
        self._passed = 0.0
        self._timers: list[tuple[float, int, JumpTimer]] = []
        self._order = itertools.count()
        self._threads = 0
        self._busy: list[Callable[[], object]] = [lambda: self._threads]

    def now(self) -> datetime:
        return self._start + timedelta(seconds=self._passed)

    def monotonic(self) -> float:
        return 1_000.0 + self._passed

    async def sleep(self, seconds: float) -> None:
        over = asyncio.Event()
        timer = self.call_later(seconds, over.set)
        try:
            await over.wait()
        finally:
            timer.cancel()

    def call_later(self, seconds: float, act: Callable[[], object]) -> JumpTimer:
        timer = JumpTimer(self._passed + max(0.0, seconds), act)
        heapq.heappush(self._timers, (timer.at, next(self._order), timer))
        return timer

    def wait_for(self, busy: Callable[[], object]) -> None:
        """Time also stands still while this is true."""
        self._busy.append(busy)

    async def run_for(self, seconds: float) -> None:
        """Let this number of simulated seconds pass."""
        until = self._passed + seconds
        with self._counting_threads():
            await self._quiet()
            while self._fire_next(until):
                await self._quiet()

    def _fire_next(self, until: float) -> bool:
        while self._timers and self._timers[0][2].cancelled:
            heapq.heappop(self._timers)
        if not self._timers or self._timers[0][0] > until:
            self._passed = max(self._passed, until)
            return False
        at, _, timer = heapq.heappop(self._timers)
        self._passed = max(self._passed, at)
        timer.act()
        return True

    async def _quiet(self) -> None:
        """Return when nothing can happen without time passing."""
        ready: Any = asyncio.get_running_loop().__dict__["_ready"]  # what the loop does next; it has no public name
        while True:
            await asyncio.sleep(0)
            if ready:
                continue
            if not any(busy() for busy in self._busy):
                return
            await asyncio.sleep(_LEAST)  # lets the loop wait for a socket or a thread

    @contextlib.contextmanager
    def _counting_threads(self) -> Iterator[None]:
        loop = asyncio.get_running_loop()
        run = loop.run_in_executor

        def counted(*given: Any) -> Any:
            future = run(*given)
            self._threads += 1
            future.add_done_callback(self._answered)
            return future

        loop.run_in_executor = counted  # type: ignore[method-assign,assignment]
        try:
            yield
        finally:
            del loop.run_in_executor

    def _answered(self, _: object) -> None:
        self._threads -= 1


class StandingStill:
    """Wraps what sends requests (`open_app(around=…)`): simulated time stands still while one is under way.

    Before a redirect is followed its target's lane may have to wait, and for that time must pass.
    """

    def __init__(self, wait_for: Callable[[Callable[[], object]], None]) -> None:
        self._under_way = 0
        wait_for(lambda: self._under_way)

    def __call__(self, fetch: Fetch) -> Fetch:
        async def counted(request: Request) -> Response:
            if request.on_hop is not None:
                request = replace(request, on_hop=self._aside(request.on_hop))
            self._under_way += 1
            try:
                return await fetch(request)
            finally:
                self._under_way -= 1

        return counted

    def _aside(self, on_hop: Callable[[str], Awaitable[None]]) -> Callable[[str], Awaitable[None]]:
        async def waiting(url: str) -> None:
            self._under_way -= 1
            try:
                await on_hop(url)
            finally:
                self._under_way += 1

        return waiting


# The time of a simulated world: a clock that is given, real time without one, and moved on request.


class WorldTime:
    """Time as the simulated upstream sees it. A test gives its own clock's `now`; `advance` adds to it."""

    def __init__(self, now: Callable[[], datetime] | None = None) -> None:
        self._now = now or (lambda: datetime.now(UTC))
        self._ahead = timedelta()

    def now(self) -> datetime:
        return self._now() + self._ahead

    def seconds(self) -> float:
        """Seconds since 1970."""
        return self.now().timestamp()

    def advance(self, seconds: float) -> None:
        """Move the world's time by that much, relative to its clock."""
        self._ahead += timedelta(seconds=seconds)
