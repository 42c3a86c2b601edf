"""Time limits: by the injected clock for a step, by the loop's clock for a connection. Waiting for a lane does not
count."""

import asyncio
from types import TracebackType
from typing import Self

from forager.core.clock import Clock, Timer


class TimeLimit:
    """`async with TimeLimit(clock, seconds):` raises `TimeoutError` when the block takes longer by that clock.

    Between `stop` and `go_on` its time does not count. Pairs may overlap: it goes on after the last of them.
    """

    __slots__ = ("_clock", "_ends_at", "_left", "_limit", "_stops", "_timer")

    def __init__(self, clock: Clock, seconds: float) -> None:
        self._clock = clock
        self._left = seconds
        self._ends_at = 0.0
        self._limit = asyncio.Timeout(None)
        self._stops = 0
        self._timer: Timer | None = None

    async def __aenter__(self) -> Self:
        await self._limit.__aenter__()
        self._run()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self._halt()
        await self._limit.__aexit__(kind, error, where)

    def stop(self) -> None:
        self._stops += 1
        if self._timer is not None:
            self._halt()
            self._left = self._ends_at - self._clock.monotonic()

    def go_on(self) -> None:
        self._stops -= 1
        if self._stops == 0 and not self._limit.expired():
            self._run()

    def _run(self) -> None:
        self._ends_at = self._clock.monotonic() + self._left
        self._timer = self._clock.call_later(max(0.0, self._left), self._expire)

    def _halt(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _expire(self) -> None:
        self._limit.reschedule(asyncio.get_running_loop().time())


class standing_still:  # noqa: N801  (reads as a word in a with statement, as contextlib's own do)
    """Stops the loop's time-out while the block runs. A class and not a generator, because every request uses it."""

    __slots__ = ("_left", "_limit")

    def __init__(self, limit: asyncio.Timeout | None) -> None:
        self._limit = limit
        self._left: float | None = None

    def __enter__(self) -> None:
        if self._limit is not None and (ends := self._limit.when()) is not None:
            self._left = ends - asyncio.get_running_loop().time()
            self._limit.reschedule(None)

    def __exit__(self, *_: object) -> None:
        if self._limit is not None and self._left is not None and not self._limit.expired():
            self._limit.reschedule(asyncio.get_running_loop().time() + self._left)


async def arrives(event: asyncio.Event, clock: Clock, seconds: float) -> bool:
    """Wait for an event for at most so many seconds. Returns whether it was set."""
    if not event.is_set():
        try:
            async with TimeLimit(clock, seconds):
                await event.wait()
        except TimeoutError:
            return False
    return True
