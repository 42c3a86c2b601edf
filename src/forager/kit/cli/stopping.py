"""Stop requests for a running process. The first one finishes in-flight tasks; a second one returns them to the queue
at once."""

import asyncio
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager

ECHO = 1.0
"""Signals within this time are one request: a terminal sends Ctrl-C to parent and child, and the parent passes it
on."""


class StopRequest:
    def __init__(self) -> None:
        self._asked = asyncio.Event()
        self._hurried = asyncio.Event()
        self._first_at = 0.0
        self.by: signal.Signals | None = None

    def ask(self, number: signal.Signals) -> None:
        now = time.monotonic()
        if not self._asked.is_set():
            self.by, self._first_at = number, now
            self._asked.set()
        elif now - self._first_at > ECHO:
            self._hurried.set()

    @property
    def is_asked(self) -> bool:
        return self._asked.is_set()

    async def wait(self) -> None:
        await self._asked.wait()

    async def wait_for_hurry(self) -> None:
        await self._hurried.wait()


@contextmanager
def stop_on_signals() -> Iterator[StopRequest]:
    """Turn SIGTERM and SIGINT into a stop request while the block runs."""
    loop = asyncio.get_running_loop()
    request = StopRequest()
    numbers = (signal.SIGTERM, signal.SIGINT)
    for number in numbers:
        loop.add_signal_handler(number, request.ask, number)
    try:
        yield request
    finally:
        for number in numbers:
            loop.remove_signal_handler(number)
