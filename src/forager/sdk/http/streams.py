"""Server-sent events. A stream holds one frame at a time: the next is made when the server has accepted the one before.
The server disconnects a client that reads nothing, and every stream ends when the server closes.

`EventStream` is the response; it sends the frames of an async generator. The generator is closed however the stream
ends, so it may hold resources.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Iterator, Sequence
from contextlib import aclosing, contextmanager
from typing import Any, TypeVar
from uuid import UUID

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from forager.core.ids import task_numbers
from forager.core.ledger import Ledger, Settlement
from forager.sdk.http.envelope import encoded

HEARTBEAT = 10.0
"""Seconds of silence after which a stream sends a comment, so that proxies keep the connection."""
RECONNECT_MS = 2_000
MOST_NUMBER = 2**63 - 1

Frames = AsyncGenerator[bytes, None]


def frame(event: str, data: Any, number: int | None = None) -> bytes:
    """Encode one event. A browser sends the number of the last one as `Last-Event-ID` when it reconnects."""
    identity = b"" if number is None else b"id: %d\n" % number
    return b"%sevent: %s\ndata: %s\n\n" % (identity, event.encode(), encoded(data))


def comment(text: str) -> bytes:
    """Return a line that keeps the connection alive; readers ignore it."""
    return b": %s\n\n" % text.encode()


def is_foreign(request: Request) -> bool:
    """Return whether the request comes from a page of another site. Programs send no Origin."""
    origin = request.headers.get("origin")
    if origin is None:
        return request.headers.get("sec-fetch-site") in ("cross-site", "same-site")
    return origin.partition("://")[2].lower() != request.headers.get("host", "").lower()


class EventStream(Response):
    """Sends the frames of `frames(scope)`; ends with them, when the reader leaves, or when `closing` is set."""

    def __init__(self, frames: Callable[[Scope], Frames], closing: asyncio.Event) -> None:
        super().__init__(headers={"X-Accel-Buffering": "no"}, media_type="text/event-stream")
        del self.headers["content-length"]
        self._frames = frames
        self._closing = closing

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        pumping = asyncio.create_task(self._pump(scope, send))
        others = [asyncio.create_task(_left(receive)), asyncio.create_task(self._closing.wait())]
        try:
            await asyncio.wait({pumping, *others}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (pumping, *others):
                task.cancel()
            (ended, *_) = await asyncio.gather(pumping, *others, return_exceptions=True)
        if isinstance(ended, Exception):
            raise ended
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _pump(self, scope: Scope, send: Send) -> None:
        async with aclosing(self._frames(scope)) as frames:
            async for part in frames:
                await send({"type": "http.response.body", "body": part, "more_body": True})


async def _left(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


# Waits for a task to end. A waiter wakes as soon as the end is committed, whichever process's engine committed it.
#
# This process's engine reports what it has settled; the store reports the jobs that another process has ended
# (PostgreSQL). Between reports the task is read only once a second, because a report of the store can be lost with its
# connection.


T = TypeVar("T")

LOOK_EVERY = 1.0
WhenSettled = Callable[[Callable[[Sequence[Settlement]], None]], None]


class TaskWaiter:
    """One per API. `when_settled` registers a callback with this process's engine; `closing` is set at shutdown."""

    def __init__(self, ledger: Ledger, when_settled: WhenSettled, closing: asyncio.Event) -> None:
        self.closing = closing
        self.told = 0
        """Number of reports until now. While it has not changed, a task that was read before has not ended since."""
        self._waiting: dict[int, dict[asyncio.Event, int]] = {}
        """Waiters by job: the event of each, and the task that it waits for."""
        self._closer: asyncio.Task[None] | None = None
        when_settled(self._settled)
        ledger.when_jobs_end(self._jobs_ended)

    async def wait(
        self,
        task: UUID,
        before: int | None,
        timeout: float,
        *,
        read: Callable[[bool], Awaitable[T]],
        is_over: Callable[[T], bool],
    ) -> T | None:
        """Read the task whenever it may have ended, and return it once `is_over` is true for it.

        Returns None after `timeout` seconds, or when the server shuts down. `before` is the value of `told` before the
        task was created; None if the task may have ended already. `read(fresh)` reads the task in whatever form the
        pipeline shows it; `fresh` is True if it was written a moment ago.
        """
        if self._closer is None:
            self._closer = asyncio.create_task(self._wake_all_at_the_end())
        try:
            with self._listening(task) as ended:
                async with asyncio.timeout(timeout):
                    unmoved = before == self.told and not self.closing.is_set()
                    fresh = await _woken(ended) if unmoved else False
                    while not self.closing.is_set():
                        seen = await read(fresh)
                        if is_over(seen):
                            return seen
                        fresh = await _woken(ended)
                    return None
        except TimeoutError:
            return None

    @contextmanager
    def _listening(self, task: UUID) -> Iterator[asyncio.Event]:
        job, number = task_numbers(task) or (0, 0)
        ended = asyncio.Event()
        self._waiting.setdefault(job, {})[ended] = number
        try:
            yield ended
        finally:
            del self._waiting[job][ended]
            if not self._waiting[job]:
                del self._waiting[job]

    async def _wake_all_at_the_end(self) -> None:
        await self.closing.wait()
        for waiting in self._waiting.values():
            for ended in waiting:
                ended.set()

    def _settled(self, settlements: Sequence[Settlement]) -> None:
        self.told += 1
        for settlement in settlements if self._waiting else ():
            for ended, task in self._waiting.get(settlement.lease.job_id, {}).items():
                if task == settlement.lease.task_id:
                    ended.set()

    def _jobs_ended(self, jobs: Collection[int]) -> None:
        """Wake the waiters of these jobs; all of them if `jobs` is empty, because reports may have been lost."""
        self.told += 1
        for job in (jobs or self._waiting) if self._waiting else ():
            for ended in self._waiting.get(job, ()):
                ended.set()


async def _woken(ended: asyncio.Event) -> bool:
    """Wait for a report or the shutdown. Returns False if neither came for `LOOK_EVERY` seconds."""
    try:
        async with asyncio.timeout(LOOK_EVERY):
            await ended.wait()
    except TimeoutError:
        return False
    ended.clear()
    return True
