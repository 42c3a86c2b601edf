"""Time as a port, so that a fake clock can run a year of schedules in a second."""

import asyncio
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Protocol


class Timer(Protocol):
    def cancel(self) -> None:
        """Cancel the call. Cancelling twice, or after the call, does nothing."""
        ...


class Clock(Protocol):
    def now(self) -> datetime:
        """Return the wall-clock time (aware, UTC), for display, schedules and records."""
        ...

    def monotonic(self) -> float:
        """Return a time that never jumps, for time-outs, rates and leases."""
        ...

    async def sleep(self, seconds: float) -> None: ...

    def call_later(self, seconds: float, act: Callable[[], object]) -> Timer:
        """Call `act` on the running loop after so many seconds. Every wait that is not a plain sleep is built on
        this."""
        ...


class SystemClock:
    """The system's time. The wall clock is read once and then advanced by a steady clock, so that a jump of the wall
    clock has no effect.

    The steady clock also counts while the machine sleeps: a laptop that slept for a night must notice that it is
    morning.
    """

    def __init__(self) -> None:
        self._wall = time.time()
        self._anchor = _since_boot()

    def now(self) -> datetime:
        return datetime.fromtimestamp(self._wall + (_since_boot() - self._anchor), UTC)

    def monotonic(self) -> float:
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    def call_later(self, seconds: float, act: Callable[[], object]) -> Timer:
        return asyncio.get_running_loop().call_later(seconds, act)


def _since_boot() -> float:
    """Return the time since boot, including sleep where the system supports that."""
    boot: int | None = getattr(time, "CLOCK_BOOTTIME", None)
    return time.monotonic() if boot is None else time.clock_gettime(boot)
