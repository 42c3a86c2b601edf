"""HTTP/1.1 as far as a JSON API needs it: one protocol object per connection, no task per request.

Written by hand because the sandbox shares its machine with what is measured against it. Independent of Serper.
Never trusts a length: heads and bodies are capped.
"""

import asyncio
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from functools import partial
from typing import NamedTuple, Self, cast

from forager.core.errors import Rejected

MAX_HEAD = 32 * 1024
MAX_BODY = 4 * 1024 * 1024
JSON = b"application/json; charset=utf-8"
HTML = b"text/html"


class WireRequest(NamedTuple):
    method: str
    path: str
    query: str
    headers: dict[bytes, bytes]
    body: bytes


Respond = Callable[[WireRequest, "Connection"], None]


class Connection(asyncio.Protocol):
    """Reads one request at a time and waits for its answer before the next, so that answers cannot overtake."""

    def __init__(self, respond: Respond, live: "set[Connection]") -> None:
        self._respond = respond
        self._live = live
        self._transport: asyncio.Transport | None = None
        self._buffer = b""
        self._answering = False
        self._reading = False
        self._keep_alive = True
        self._paused = False
        self._invited = False
        self._rest: Iterator[bytes] | None = None
        self._when_written: Callable[[], None] | None = None
        self.when_lost: Callable[[], None] | None = None
        """Called once if the client goes away before the answer is written."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # a TCP server makes no other
        self._live.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._live.discard(self)
        self._transport = self._rest = None
        lost, self.when_lost = self.when_lost, None
        if lost is not None:
            lost()

    def data_received(self, data: bytes) -> None:
        self._buffer = self._buffer + data if self._buffer else data
        self._read_on()

    def eof_received(self) -> bool:
        return False

    @property
    def is_open(self) -> bool:
        return self._transport is not None and not self._transport.is_closing()

    def send(self, status: int, body: bytes, kind: bytes = JSON, more: bytes = b"") -> None:
        """Write an answer whole, if the client is still there. `more` are further header lines, each with its end."""
        if self._transport is not None:
            self._transport.write(self._head(status, len(body), kind, more) + body)
            self._finish()

    def send_part(self, status: int, body: bytes, length: int) -> None:
        """Promise `length` bytes, write these, and end the connection."""
        if self._transport is not None:
            self.when_lost = None
            self._transport.write(self._head(status, length, JSON) + body)
            self._transport.close()

    def send_long(
        self, status: int, parts: Iterator[bytes], length: int, written: Callable[[], None], kind: bytes = JSON
    ) -> None:
        """Write an answer part by part, at the speed at which the client reads; `written` is called after the last."""
        if self._transport is not None:
            self._rest, self._when_written = parts, written
            self._transport.set_write_buffer_limits(high=256 * 1024)
            self._transport.write(self._head(status, length, kind))
            self.resume_writing()

    def cut(self) -> None:
        """End the connection without a further byte."""
        self.when_lost = None
        if self._transport is not None:
            self._transport.abort()

    def leave(self) -> None:
        """Report the end of the server to a waiting answer at once, not when the loop gets to it."""
        lost, self.when_lost = self.when_lost, None
        if lost is not None:
            lost()
        self.cut()

    def pause_writing(self) -> None:
        self._paused = True

    def resume_writing(self) -> None:
        self._paused = False
        while self._rest is not None and self._transport is not None and not self._paused:
            part = next(self._rest, None)
            if part is not None:
                self._transport.write(part)
                continue
            self._rest = None
            self.when_lost = None
            if self._when_written is not None:
                self._when_written()
            self._finish()

    def _finish(self) -> None:
        self.when_lost = None
        self._answering = False
        if not self._keep_alive and self._transport is not None:
            self._transport.close()
        elif self._buffer and not self._reading:
            self._read_on()

    def _head(self, status: int, length: int, kind: bytes, more: bytes = b"") -> bytes:
        head = b"HTTP/1.1 %d %s\r\nContent-Type: %s\r\nContent-Length: %d\r\n" % (
            status,
            _REASONS.get(status, b"Unknown"),
            kind,
            length,
        )
        return head + more + (b"\r\n" if self._keep_alive else b"Connection: close\r\n\r\n")

    def _read_on(self) -> None:
        self._reading = True
        try:
            while self._buffer and not self._answering and self._transport is not None:
                request = self._next()
                if request is None:
                    return
                self._answering = True
                self._respond(request, self)
        finally:
            self._reading = False

    def _next(self) -> WireRequest | None:
        """Return the next whole request of the buffer; None while it is not whole, or if it was refused."""
        end = self._buffer.find(b"\r\n\r\n")
        if end < 0 or end > MAX_HEAD:
            if len(self._buffer) > MAX_HEAD:
                self._refuse(431)
            return None
        first, *lines = self._buffer[:end].split(b"\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(b":") for line in lines)}
        start = first.split(b" ")
        length = headers.get(b"content-length", b"0")
        if len(start) != 3 or not start[2].startswith(b"HTTP/1.") or not length.isdigit():
            self._refuse(400)
            return None
        if b"transfer-encoding" in headers:
            self._refuse(411)
            return None
        if int(length) > MAX_BODY:
            self._refuse(413)
            return None
        whole = end + 4 + int(length)
        if len(self._buffer) < whole:
            self._invite(headers)
            return None
        self._invited = False
        body, self._buffer = self._buffer[end + 4 : whole], self._buffer[whole:]
        keep = headers.get(b"connection", b"" if start[2] == b"HTTP/1.1" else b"close").lower()
        self._keep_alive = keep != b"close"
        path, _, query = start[1].decode("latin-1").partition("?")
        return WireRequest(start[0].decode("latin-1"), path, query, headers, body)

    def _invite(self, headers: dict[bytes, bytes]) -> None:
        if headers.get(b"expect", b"").lower() == b"100-continue" and not self._invited and self._transport is not None:
            self._invited = True
            self._transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")

    def _refuse(self, status: int) -> None:
        self._keep_alive = False
        self._buffer = b""
        self.send(status, b'{"message":"%s","statusCode":%d}' % (_REASONS[status], status))


_REASONS = {
    200: b"OK",
    201: b"Created",
    204: b"No Content",
    301: b"Moved Permanently",
    302: b"Found",
    304: b"Not Modified",
    307: b"Temporary Redirect",
    308: b"Permanent Redirect",
    400: b"Bad Request",
    401: b"Unauthorized",
    402: b"Payment Required",
    403: b"Forbidden",
    404: b"Not Found",
    405: b"Method Not Allowed",
    408: b"Request Timeout",
    410: b"Gone",
    411: b"Length Required",
    413: b"Content Too Large",
    415: b"Unsupported Media Type",
    429: b"Too Many Requests",
    431: b"Request Header Fields Too Large",
    500: b"Internal Server Error",
    502: b"Bad Gateway",
    503: b"Service Unavailable",
}


# A port of this machine that answers: what small sandbox servers share. Binds the loopback address only.


LOOPBACK = "127.0.0.1"
BACKLOG = 4096


async def listen(make: Callable[[], Connection], port: int) -> asyncio.Server:
    """Return a server on this port, 0 for a free one."""
    try:
        return await asyncio.get_running_loop().create_server(make, LOOPBACK, port, backlog=BACKLOG)
    except OSError as error:
        why = os.strerror(error.errno) if error.errno else str(error)
        raise Rejected(
            f"The sandbox cannot listen on port {port}: {why}."
            " Choose another with --port (or the option of that upstream, such as --site-port or --receiver-port),"
            " or 0 for a free one."
        ) from error


class PortListener(ABC):
    """`async with` starts and stops it. Its port stays its own if it is stopped and started again."""

    def __init__(self, port: int = 0) -> None:
        self.port = port
        self._server: asyncio.Server | None = None
        self._connections: set[Connection] = set()

    async def start(self) -> None:
        if self._server is None:
            make = partial(Connection, self._receive, self._connections)
            self._server = await listen(make, self.port)
            self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        """Close the port and every connection."""
        if self._server is not None:
            self._server.close()
            self._server = None
        for connection in list(self._connections):
            connection.leave()
        await asyncio.sleep(0)  # the transports close in the loop's next turn

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    @property
    def endpoint(self) -> str:
        return f"{LOOPBACK}:{self.port}"

    @property
    def endpoints(self) -> tuple[str, ...]:
        return (self.endpoint,)

    def url(self, path: str = "/") -> str:
        return f"http://{self.endpoint}{path}"

    @abstractmethod
    def _receive(self, request: WireRequest, connection: Connection) -> None: ...
