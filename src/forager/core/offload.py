"""Runs heavy parsing off the event loop, where it cannot disturb other tasks.

A small page is parsed at once, because handing it over would take longer; a bigger one in a thread; a big one in its
own process, with limits on time and memory. A page that exceeds them, or that kills its process, fails only its own
task.
"""

import asyncio
from collections.abc import Callable
from typing import Any, Protocol, TypeVar, runtime_checkable

from forager.core.http import Fetch

T = TypeVar("T")

SMALL_PAGE = 8 * 1024
BIG_PAGE = 256 * 1024
LIMIT = 5.0
"""CPU seconds: time that a busy machine gives to other processes does not count."""


class Offload(Protocol):
    """Runs a function in another process."""

    async def __call__(self, work: Callable[..., T], /, *args: Any, limit: float = LIMIT) -> T:
        """Return what the function returns, or raise what it raises.

        Function, arguments and result must be picklable. Raises `ParseFailed` if it needs more than `limit` CPU
        seconds or more memory than it may have, or if its process dies.
        """
        ...


@runtime_checkable
class CanOffload(Protocol):
    """Implemented by the `fetch` that the engine passes to a step; a test's own `fetch` need not implement it."""

    @property
    def offload(self) -> Offload: ...


async def parse(
    fetch: Fetch, size: int, work: Callable[..., T], /, *args: Any, small: int = SMALL_PAGE, limit: float = LIMIT
) -> T:
    """Run a pure function over a page of `size` bytes: here, in a thread or in a process, by its size. See `Offload`
    for the requirements.

    `small`: up to so many bytes the function runs here, and blocks the event loop meanwhile.
    """
    if size <= small:
        return work(*args)
    if size > BIG_PAGE and isinstance(fetch, CanOffload):
        return await fetch.offload(work, *args, limit=limit)
    return await asyncio.to_thread(work, *args)


class InThread:
    """Implements `Offload` with threads, where processes are not available. A thread cannot be killed, so there is no
    limit."""

    async def __call__(self, work: Callable[..., T], /, *args: Any, limit: float = LIMIT) -> T:
        return await asyncio.to_thread(work, *args)
