"""An event loop in a thread of its own: plain code can use coroutines, even where another loop runs, as in a
notebook. `PlainGroup` makes plain methods of a class of coroutines, so that both have one text and one signature."""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from functools import wraps
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar

T = TypeVar("T")
G = TypeVar("G")
P = ParamSpec("P")


class LoopThread:
    """Runs coroutines one after another or at the same time, from any thread. Started by the first call."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine and return its result. Ctrl-C cancels the coroutine; its thread lets it clean up."""
        running = asyncio.run_coroutine_threadsafe(work, self._started())
        try:
            return running.result()
        except BaseException:
            running.cancel()
            raise

    def iterate(self, items: AsyncIterator[T]) -> Iterator[T]:
        """Yield the items of an asynchronous iterator as they come."""
        try:
            while True:
                try:
                    item = self.run(_next(items))
                except StopAsyncIteration:
                    return
                yield item
        finally:
            close = getattr(items, "aclose", None)
            if close is not None:
                self.run(close())

    def close(self) -> None:
        """End the loop. A later call starts another one."""
        with self._lock:
            loop, thread, self._loop, self._thread = self._loop, self._thread, None, None
        if loop is not None and thread is not None:
            loop.call_soon_threadsafe(loop.stop)
            thread.join()

    def _started(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(target=_serve, args=(self._loop,), name="forager-client", daemon=True)
                self._thread.start()
            return self._loop


def _serve(loop: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(loop)
    try:
        loop.run_forever()
        for task in (left := asyncio.all_tasks(loop)):
            task.cancel()
        loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.run_until_complete(loop.shutdown_default_executor())
    finally:
        loop.close()


async def _next(items: AsyncIterator[T]) -> T:
    return await anext(items)


class PlainGroup(Generic[G]):
    """Methods of an asynchronous group, for plain code. A subclass lists them: `get = plain(AsyncJobs.get)`."""

    def __init__(self, thread: LoopThread, group: G) -> None:
        self._thread, self._group = thread, group


def plain(method: Callable[Concatenate[G, P], Coroutine[Any, Any, T]]) -> Callable[Concatenate[PlainGroup[G], P], T]:
    """Return the method of a `PlainGroup` that runs this coroutine and returns its result."""

    @wraps(method)
    def call(self: PlainGroup[G], /, *args: P.args, **options: P.kwargs) -> T:
        return self._thread.run(method(self._group, *args, **options))

    return call


def plain_iterator(
    method: Callable[Concatenate[G, P], AsyncIterator[T]],
) -> Callable[Concatenate[PlainGroup[G], P], Iterator[T]]:
    """Return the method of a `PlainGroup` that yields the items of this asynchronous iterator."""

    @wraps(method)
    def call(self: PlainGroup[G], /, *args: P.args, **options: P.kwargs) -> Iterator[T]:
        return self._thread.iterate(method(self._group, *args, **options))

    return call
