"""Time as a port, so that a fake clock can run a year of schedules in a second."""

import asyncio
import time
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    def now(self) -> datetime:
        """Wall-clock time, aware, UTC: for people, schedules and records."""
        ...

    def monotonic(self) -> float:
        """For time-outs, rates and leases: never jumps."""
        ...

    async def sleep(self, seconds: float) -> None: ...


class SystemClock:
    """The wall clock is read once: afterwards time moves with the monotonic clock, so that a jump moves nothing."""

    def __init__(self) -> None:
        self._wall = time.time()
        self._anchor = time.monotonic()

    def now(self) -> datetime:
        return datetime.fromtimestamp(self._wall + (time.monotonic() - self._anchor), UTC)

    def monotonic(self) -> float:
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
