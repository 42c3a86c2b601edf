"""Heavy parsing, away from the event loop: a page is read where it can do no harm to other tasks.

A small page is read at once, because that takes less than handing it over; a bigger one in a thread; a big one in a
process of its own, with a limit of time and memory. A page that is too slow there, or that kills its process, fails its
own task and nothing else.
"""

import asyncio
from collections.abc import Callable
from typing import Any, Protocol, TypeVar, runtime_checkable

from forager.core.http import Fetch

T = TypeVar("T")

SMALL_PAGE = 8 * 1024
BIG_PAGE = 256 * 1024
LIMIT = 5.0
"""CPU seconds: what a busy machine gives to others in between does not count."""


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
    """What the engine gives to a step as `fetch` can do this as well; a test's own `fetch` need not."""

    @property
    def offload(self) -> Offload: ...


async def parse(
    fetch: Fetch, size: int, work: Callable[..., T], /, *args: Any, small: int = SMALL_PAGE, limit: float = LIMIT
) -> T:
    """Run a pure function over a page of `size` bytes where it belongs; see `Offload` for what a big page needs.

    `small`: up to so many bytes the function runs right here, and holds up the event loop meanwhile.
    """
    if size <= small:
        return work(*args)
    if size > BIG_PAGE and isinstance(fetch, CanOffload):
        return await fetch.offload(work, *args, limit=limit)
    return await asyncio.to_thread(work, *args)


class InThread:
    """Implements `Offload` without another process: where none is to be had. A thread cannot be ended: no limit."""

    async def __call__(self, work: Callable[..., T], /, *args: Any, limit: float = LIMIT) -> T:
        return await asyncio.to_thread(work, *args)
