"""Time as a port, so that a fake clock can run a year of schedules in a second."""

import asyncio
import re
import time
from collections.abc import Callable
from datetime import UTC, datetime
from types import TracebackType
from typing import Protocol, Self


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
        """Call `act` on the running loop after `seconds`. Every wait that is not a plain sleep is built on
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


# Parses durations such as `90s`, `30m`, `6h`, `1d` and `2w`, for API and command line; in the API also `90`.


UNITS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}


def in_seconds(value: object) -> object:
    """Return a text as seconds, for fields that accept a number or a text; any other value unchanged."""
    return read_seconds(value) if isinstance(value, str) else value


def read_seconds(text: str) -> float:
    """Return a duration in seconds; a plain number is seconds. Raises `ValueError` for anything else, or 0.

    For the API. Values of the command line need a unit: `seconds_with_unit`.
    """
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([smhdw]?)", text.strip().lower())
    if match is None or float(match[1]) == 0:
        raise ValueError(f"invalid length of time {text!r}; write 90s, 30m, 6h or 1d")
    return float(match[1]) * UNITS[match[2] or "s"]


def seconds_with_unit(text: str) -> float:
    """Return a duration of the command line in seconds. Raises `ValueError` also for a plain number: `--every 6` may be
    meant as hours, and would create a job every six seconds."""
    seconds = read_seconds(text)
    if text.strip()[-1].lower() not in UNITS:
        raise ValueError(f"{text!r} has no unit; write 90s, 30m, 6h or 1d")
    return seconds


# Time limits: by the injected clock for a step, by the loop's clock for a connection. Waiting for a lane does not
# count.


class TimeLimit:
    """`async with TimeLimit(clock, seconds):` raises `TimeoutError` when the block takes longer by that clock.

    Between `stop` and `go_on` its time does not count. Pairs may overlap: it continues after the last of them.
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
    """Wait for an event for at most `seconds`. Returns whether it was set."""
    if not event.is_set():
        try:
            async with TimeLimit(clock, seconds):
                await event.wait()
        except TimeoutError:
            return False
    return True


# Fail points: places where a test can stop the program. The default does nothing.


class Faults(Protocol):
    def at(self, point: str) -> None:
        """Called at a commit boundary; a test's version may kill the process here."""
        ...


class NoFaults:
    def at(self, point: str) -> None:
        return
