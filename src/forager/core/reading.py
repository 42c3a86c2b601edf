"""Reads pages outside of this process, where they cannot disturb other tasks.

Every page of every pipeline is parsed by a *reader*: a process with limits of CPU time and memory (`forager.reading`).
A page that exceeds them, or that ends its reader, fails alone. The event loop parses nothing.

A reading function is a module-level function whose first argument is the page. Its return annotation is the declaration
of its result: the answer of a reader crosses as JSON and is validated against that type, never unpickled, because a
parser that a hostile page has taken over must not run code in the process that has the secrets.
"""

import asyncio
from collections.abc import Callable
from functools import lru_cache
from typing import Any, NoReturn, Protocol, TypeVar, get_type_hints, runtime_checkable

from pydantic import TypeAdapter

from forager.core.http import Fetch

T = TypeVar("T")

LIMIT = 5.0
"""CPU seconds of one page: time that a busy machine gives to other processes does not count."""
QUICK = 1.0
"""CPU seconds of the first attempt at a page. Ordinary pages take a hundredth of it."""


class _Care:
    """True if the current page must be made harmless before it is parsed. A process reads one page at a time."""

    is_needed = True


care = _Care()
"""False only in a reader at its first attempt at a page. A hostile page may then exceed its time or end the process; it
is read again with care. Making every page harmless first would cost more than all other reading."""


class ReadError(Exception):
    """A reading function raised an error. The message has the error's class and text; the error itself stays in the
    reader."""


class Offload(Protocol):
    """Runs a reading function in another process."""

    async def __call__(self, work: Callable[..., T], page: bytes, /, *args: Any, limit: float = LIMIT) -> T:
        """Return what `work(page, *args)` returns.

        The function and its further arguments must be picklable, the result must fit the function's return annotation
        after a journey as JSON. Raises `ReadError` if the function raises, `ParseFailed` if the page needs more than
        `limit` CPU seconds or more memory than it may have, or if it ends its process.
        """
        ...


@runtime_checkable
class CanOffload(Protocol):
    """Implemented by the `fetch` that the engine passes to a step; a test's own `fetch` need not implement it."""

    @property
    def offload(self) -> Offload: ...


def offload_of(fetch: Fetch) -> Offload:
    """Return the readers of a step's `fetch`; threads if it has none."""
    return fetch.offload if isinstance(fetch, CanOffload) else InThread()


async def parse(fetch: Fetch, work: Callable[..., T], page: bytes, /, *args: Any, limit: float = LIMIT) -> T:
    """Run a reading function over a page, in a reader if `fetch` has some, else in a thread. See `Offload`."""
    return await offload_of(fetch)(work, page, *args, limit=limit)


class InThread:
    """Implements `Offload` with threads, where processes are not available. A thread cannot be killed, so there is no
    limit."""

    async def __call__(self, work: Callable[..., T], page: bytes, /, *args: Any, limit: float = LIMIT) -> T:
        try:
            return await asyncio.to_thread(work, page, *args)
        except Exception as error:
            raise ReadError(f"{type(error).__name__}: {error}") from error


@lru_cache(maxsize=256)
def result_of(work: Callable[..., Any]) -> TypeAdapter[Any]:
    """Return what writes and checks the results of a reading function, by its return annotation."""
    declared = get_type_hints(work).get("return", Any)
    return TypeAdapter(Any if declared is NoReturn else declared)
