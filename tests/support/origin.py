"""A raw HTTP origin on loopback: it sends exactly the bytes of a test, and records every byte that it receives."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.support.ports import bound_socket

PEM = Path(__file__).parent / "tls" / "localhost.pem"


@dataclass(frozen=True)
class Seen:
    """One request as it arrived."""

    raw: bytes
    method: str
    target: str
    headers: dict[str, str]
    body: bytes


Answer = bytes | AsyncIterator[bytes]


@dataclass
class Origin:
    """`async with Origin(answer) as origin:`; an answer that is empty drops the connection."""

    answer: Callable[[Seen], Answer]
    tls: bool = False
    connections: int = 0
    seen: list[Seen] = field(default_factory=list)

    async def __aenter__(self) -> Self:
        context = None
        if self.tls:
            context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
            context.load_cert_chain(PEM)
        self._server = await asyncio.start_server(self._serve, sock=bound_socket(), ssl=context)
        self._open: set[asyncio.StreamWriter] = set()
        self.port: int = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None
    ) -> None:
        self._server.close()
        for writer in list(self._open):
            writer.transport.abort()

    @property
    def endpoint(self) -> str:
        return f"127.0.0.1:{self.port}"

    def url(self, path: str = "/", host: str = "127.0.0.1") -> str:
        return f"{'https' if self.tls else 'http'}://{host}:{self.port}{path}"

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self._open.add(writer)
        # Cancelled when a test ends while an endless answer is still being given.
        with suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError, ssl.SSLError):
            while True:
                seen = await _read(reader)
                self.seen.append(seen)
                answer = self.answer(seen)
                if isinstance(answer, bytes):
                    if not answer:
                        break
                    writer.write(answer)
                    await writer.drain()
                    continue
                async for part in answer:
                    writer.write(part)
                    await writer.drain()
                    await asyncio.sleep(0)  # an endless answer must not be what stalls the loop
                break
        self._open.discard(writer)
        writer.close()


def reply(status: int = 200, body: bytes = b"", **headers: str) -> bytes:
    """A whole answer with a length; header names are written with underscores for dashes."""
    lines = [f"HTTP/1.1 {status} Said", f"Content-Length: {len(body)}"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, "", ""]).encode() + body


def trusting() -> ssl.SSLContext:
    """Return the TLS context of a client that trusts an `Origin(tls=True)`."""
    return ssl.create_default_context(cafile=PEM)


async def _read(reader: asyncio.StreamReader) -> Seen:
    head = await reader.readuntil(b"\r\n\r\n")
    first, *lines = head.decode("latin-1").split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines if line)}
    body = await reader.readexactly(int(headers.get("content-length", 0)))
    method, target, _ = first.split(" ", 2)
    return Seen(head + body, method, target, headers, body)
