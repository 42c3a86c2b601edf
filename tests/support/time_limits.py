"""Limits in seconds that a requirement states, on machines that other programs share."""

from collections.abc import Awaitable, Callable

TRIES = 6


async def assert_soon(attempt: Callable[[], Awaitable[float]], limit: float) -> None:
    """Await `attempt` until one takes less than `limit` seconds, and fail if none of several does.

    `attempt` returns the seconds that it measured. A program that always waits for a timer is late every time; one that
    another process delayed is not, and usually the first attempt is enough.
    """
    took = []
    for _ in range(TRIES):
        took.append(await attempt())
        if took[-1] < limit:
            return
    raise AssertionError(f"none of {TRIES} attempts took less than {limit} s: {took}")
