"""One event loop and one `App` per worker process, kept between its tasks: opening them takes longer than most shifts'
first lease.

Celery forks its worker processes, so nothing of this may exist before the fork, except `STOP`: memory that parent and
children share, through which a warm shutdown reaches a running shift at once.
"""

import asyncio
import mmap
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from typing import TypeVar

import uvloop

from forager.app import App, open_app
from forager.config import load_settings

T = TypeVar("T")


class SharedFlag:
    """A flag that a process sets and its forked children read. It has no lock, which a killed child could keep."""

    def __init__(self) -> None:
        self._memory = mmap.mmap(-1, 1)

    def set(self) -> None:
        self._memory[0] = 1

    def is_set(self) -> bool:
        return self._memory[0] == 1


STOP = SharedFlag()
"""Set while the worker shuts down: shifts end, and none begins."""


class Child:
    """The event loop of a worker process, and the application on it."""

    def __init__(self) -> None:
        self._runner = asyncio.Runner(loop_factory=uvloop.new_event_loop)
        self._stack = AsyncExitStack()
        self._app: App | None = None

    def run(self, work: Callable[[App], Awaitable[T]]) -> T:
        """Run `work` to its end. The application is opened at the first call."""
        return self._runner.run(self._run(work))

    def close(self) -> None:
        """Close application and loop."""
        with self._runner as runner:
            runner.run(self._stack.aclose())

    async def _run(self, work: Callable[[App], Awaitable[T]]) -> T:
        if self._app is None:
            self._app = await self._stack.enter_async_context(open_app(load_settings({}), must_fit=True))
        return await work(self._app)


_child: Child | None = None


def current() -> Child:
    """Return this process's child, which is made at the first call."""
    global _child
    _child = _child or Child()
    return _child


def close() -> None:
    """Close this process's child, if it has one."""
    global _child
    if _child is not None:
        _child.close()
        _child = None
