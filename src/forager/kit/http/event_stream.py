"""Server-sent events. A stream holds one frame at a time: the next is made when the server has accepted the one before.
The server disconnects a client that reads nothing, and every stream ends when the server closes.

`EventStream` is the response; it sends the frames of an async generator. The generator is closed however the stream
ends, so it may hold resources.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from forager.kit.http.envelope import encoded

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
    """A line that keeps the connection alive and that readers ignore."""
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
