"""Slow calls in threads that a stopping process does not wait for.

`asyncio.to_thread` is for calls that must end: the event loop waits for all of them before it closes. A name server
that does not answer, or a table that is being read, must not hold up a SIGTERM.
"""

import asyncio
import contextlib
import threading
from collections.abc import Awaitable, Callable
from typing import Any, Protocol, TypeVar, runtime_checkable

T = TypeVar("T")


@runtime_checkable
class RunsInline(Protocol):
    """An event loop that decides itself how a function runs that would otherwise have a thread of its own."""

    def run_inline(self, work: Callable[[], T]) -> Awaitable[T]: ...


async def in_daemon_thread(work: Callable[[], T], name: str) -> T:
    """Run a function in its own thread, and return its result or raise its error.

    A caller that is cancelled leaves the thread behind, and its result is dropped. Raises `RuntimeError` if no thread
    can be started. A loop that has no threads, as that of a simulation, runs it in its own way (`RunsInline`).
    """
    loop = asyncio.get_running_loop()
    if isinstance(loop, RunsInline):
        return await loop.run_inline(work)
    answer: asyncio.Future[T] = loop.create_future()

    def give(take: Callable[[Any], None], what: Any) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(lambda: None if answer.done() else take(what))

    def run() -> None:
        try:
            result = work()
        except Exception as error:  # noqa: BLE001 - passed on to the caller
            give(answer.set_exception, error)
        else:
            give(answer.set_result, result)

    threading.Thread(target=run, name=name, daemon=True).start()
    return await answer
