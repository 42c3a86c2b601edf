"""Slow calls in threads that a stopping process does not wait for.

`asyncio.to_thread` is for calls that must end: the event loop waits for all of them before it closes. A name server
that does not answer, or a table that is being read, must not hold up a SIGTERM.
"""

import asyncio
import contextlib
import threading
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")


async def in_daemon_thread(work: Callable[[], T], name: str) -> T:
    """Run a function in its own thread, and return its result or raise its error.

    A caller that is cancelled leaves the thread behind, and its result is dropped. Raises `RuntimeError` if no thread
    can be started.
    """
    loop = asyncio.get_running_loop()
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
