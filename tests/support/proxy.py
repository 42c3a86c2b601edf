"""Small real proxies on loopback: HTTP, HTTPS and SOCKS5, with or without a password. They record their requests.

Every name leads to loopback, so that a test can use names without a resolver of its own behind the proxy.
"""

import asyncio
import base64
import ipaddress
import ssl
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from types import TracebackType
from urllib.parse import urlsplit

from forager.core.proxies import ProxyEndpoint, ProxyProtocol
from forager.core.secret import Secret
from tests.support.origin import PEM
from tests.support.ports import bound_socket


@dataclass
class LittleProxy:
    """`async with LittleProxy("socks5", user="u", password="p") as proxy:`"""

    protocol: ProxyProtocol = "http"
    user: str | None = None
    password: str = ""
    refusal: bytes = b""
    """Sent instead of an answer, for a proxy that is out of order."""
    connections: int = 0
    asked: list[str] = field(default_factory=list)
    """`host:port` of each tunnel, or the whole URL of each forwarded request."""
    heads: list[bytes] = field(default_factory=list)
    """Every head that an HTTP proxy was sent, with its credentials."""
    passed: bytearray = field(default_factory=bytearray)
    """Bytes that went through tunnels towards the sites."""

    async def __aenter__(self) -> "LittleProxy":
        context = None
        if self.protocol == "https":
            context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
            context.load_cert_chain(PEM)
        self._open: set[asyncio.StreamWriter] = set()
        self._server = await asyncio.start_server(self._serve, sock=bound_socket(), ssl=context)
        self.port: int = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None
    ) -> None:
        self._server.close()
        for writer in list(self._open):
            writer.transport.abort()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def endpoint(
        self, *, user: str | None = None, password: str | None = None, host: str = "127.0.0.1"
    ) -> ProxyEndpoint:
        """Return its URL, with its own credentials unless a test gives others."""
        user = self.user if user is None else user
        password = self.password if password is None else password
        known = (Secret(user), Secret(password)) if user is not None else (None, None)
        return ProxyEndpoint(self.protocol, host, self.port, *known)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self._open.add(writer)
        with suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError, ssl.SSLError):
            await (self._socks if self.protocol == "socks5" else self._http)(reader, writer)
        self._open.discard(writer)
        writer.close()

    async def _http(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        self.heads.append(head)
        method, target, _ = head.decode("latin-1").split(" ", 2)
        self.asked.append(target)
        if self.refusal:
            writer.write(self.refusal)
            await writer.drain()
            return
        if self.user is not None and self._credentials() not in head:
            writer.write(b"HTTP/1.1 407 No\r\nProxy-Authenticate: Basic\r\nContent-Length: 0\r\n\r\n")
            await writer.drain()
            return
        if method == "CONNECT":
            port = int(target.rpartition(":")[2])
            try:
                await self._splice(reader, writer, port, b"HTTP/1.1 200 Yes\r\n\r\n")
            except ConnectionRefusedError:
                writer.write(b"HTTP/1.1 502 Nobody there\r\nContent-Length: 0\r\n\r\n")
                await writer.drain()
            return
        url = urlsplit(target)
        lines = [line for line in head.split(b"\r\n")[1:-2] if not line.lower().startswith(b"proxy-")]
        path = f"{url.path}?{url.query}" if url.query else url.path
        first = f"{method} {path} HTTP/1.1".encode()
        far_reader, far_writer = await asyncio.open_connection("127.0.0.1", url.port or 80)
        self._open.add(far_writer)
        far_writer.write(b"\r\n".join([first, *lines, b"", b""]))
        pump = asyncio.create_task(_pump(reader, far_writer, lambda _: None))
        answer = await far_reader.readuntil(b"\r\n\r\n")
        writer.write(answer[:-2] + b"Connection: close\r\n\r\n")  # one request, and that is it
        said = dict(line.lower().split(b": ", 1) for line in answer.split(b"\r\n")[1:-2])
        length = int(said.get(b"content-length", 0))
        writer.write(await far_reader.readexactly(length))
        await writer.drain()
        pump.cancel()
        far_writer.close()

    def _credentials(self) -> bytes:
        pair = base64.b64encode(f"{self.user}:{self.password}".encode())
        return b"\r\nProxy-Authorization: Basic " + pair + b"\r\n"

    async def _socks(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        _, count = await reader.readexactly(2)
        offered = await reader.readexactly(count)
        if self.user is None:
            writer.write(b"\x05\x00")
        elif 2 not in offered:
            writer.write(b"\x05\xff")
            return
        else:
            writer.write(b"\x05\x02")
            user = await reader.readexactly((await reader.readexactly(2))[1])
            password = await reader.readexactly((await reader.readexactly(1))[0])
            right = (user.decode(), password.decode()) == (self.user, self.password)
            writer.write(b"\x01\x00" if right else b"\x01\x01")
            if not right:
                return
        kind = (await reader.readexactly(4))[3]
        host = str(ipaddress.ip_address(await reader.readexactly(4 if kind == 1 else 16))) if kind != 3 else "a name"
        port = int.from_bytes(await reader.readexactly(2), "big")
        self.asked.append(f"{host}:{port}")
        if self.refusal:
            writer.write(self.refusal)
            await writer.drain()
            return
        await self._splice(reader, writer, port, b"\x05\x00\x00\x01\x7f\x00\x00\x01\x00\x00")

    async def _splice(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, port: int, yes: bytes) -> None:
        far_reader, far_writer = await asyncio.open_connection("127.0.0.1", port)
        self._open.add(far_writer)
        writer.write(yes)
        note: Callable[[bytes], None] = self.passed.extend
        async with asyncio.TaskGroup() as both:
            both.create_task(_pump(reader, far_writer, note))
            both.create_task(_pump(far_reader, writer, lambda _: None))
        self._open.discard(far_writer)
        far_writer.close()


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, note: Callable[[bytes], None]) -> None:
    with suppress(ConnectionError, asyncio.IncompleteReadError, ssl.SSLError):
        while data := await reader.read(65536):
            note(data)
            writer.write(data)
            await writer.drain()
        if writer.can_write_eof():
            writer.write_eof()
        else:
            writer.close()
