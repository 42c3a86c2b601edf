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


NUMBERS = (signal.SIGTERM, signal.SIGINT)


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


def early_stop() -> signal.Signals | None:
    """Return the signal that came while the process was still importing (`forager/__main__.py`), if one did."""
    return next((asked for number in NUMBERS if (asked := kept_by(signal.getsignal(number))) is not None), None)


@contextmanager
def stop_on_signals() -> Iterator[StopRequest]:
    """Turn SIGTERM and SIGINT into a stop request while the block runs. One that came before is a request as well."""
    loop = asyncio.get_running_loop()
    request = StopRequest()
    before = [signal.getsignal(number) for number in NUMBERS]
    for number in NUMBERS:
        loop.add_signal_handler(number, request.ask, number)
    for handler in before:  # only now: none can come between
        if (early := kept_by(handler)) is not None:
            # Not at once: the loop may report the same signal when it runs again. The two must count as one request.
            loop.call_soon(request.ask, early)
    try:
        yield request
    finally:
        for number, handler in zip(NUMBERS, before, strict=True):
            loop.remove_signal_handler(number)
            if handler is not None:  # a second signal must not kill the process on its last steps
                signal.signal(number, handler)


def kept_by(handler: object) -> signal.Signals | None:
    """Return the signal that this handler got, if it is one that keeps signals until the process can stop in order."""
    first = getattr(handler, "first", None)
    return None if first is None else signal.Signals(first)
