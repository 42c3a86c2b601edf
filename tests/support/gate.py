"""A client that speaks to the gate byte by byte, and a gate to speak to."""

import asyncio
import base64
import re
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from forager.core.proxies import ProxyEndpoint
from forager.fetch.browser.gate import IDLE, MOST_CONNECTIONS, USERNAME, Gate, Passage
from forager.fetch.guard import EgressGuard, Resolver
from forager.fetch.http.connect import Dialer, open_socket
from tests.support.origin import trusting

_FIRST_LINE = re.compile(rb" HTTP/1\.[01]\r\n")


async def everything_is_here(host: str, port: int) -> Sequence[str]:
    return ["127.0.0.1"]


@asynccontextmanager
async def passage(
    *allow: str,
    upstream: ProxyEndpoint | None = None,
    resolver: Resolver = everything_is_here,
    dialer: Dialer = open_socket,
    most: int = MOST_CONNECTIONS,
    idle: float = IDLE,
) -> AsyncIterator[Passage]:
    """One visit's passage through a gate of its own."""
    gate = Gate(EgressGuard(allow, resolver=resolver), dialer=dialer, tls=trusting(), most=most, idle=idle)
    async with gate.open(upstream) as opened:
        yield opened


class WatchedGate(Gate):
    """Counts its passages, so that a test can compute how often the guard refused."""

    def __init__(self, guard: EgressGuard, *, dialer: Dialer = open_socket) -> None:
        super().__init__(guard, dialer=dialer)
        self.passages: list[Passage] = []

    @asynccontextmanager
    async def open(self, upstream: ProxyEndpoint | None = None) -> AsyncIterator[Passage]:
        async with super().open(upstream) as passage:
            self.passages.append(passage)
            yield passage


def signature(passage: Passage, user: str = USERNAME, password: str | None = None) -> str:
    """The header by which the gate recognises the browser of a visit."""
    pair = f"{user}:{passage.password.reveal() if password is None else password}"
    return f"Proxy-Authorization: Basic {base64.b64encode(pair.encode()).decode()}"


class Client:
    """A connection to the gate."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, signed: str) -> None:
        self.reader, self.writer = reader, writer
        self._signed = f"{signed}\r\n".encode()

    @classmethod
    async def to(cls, passage: Passage) -> "Client":
        return cls(*await asyncio.open_connection("127.0.0.1", passage.port), signature(passage))

    def say(self, *parts: str | bytes) -> None:
        """Connect as the browser of the visit does: the gate's password is in every head that is sent as a whole."""
        self.say_unsigned(*(_FIRST_LINE.sub(lambda found: found[0] + self._signed, _bytes(part)) for part in parts))

    def say_unsigned(self, *parts: str | bytes) -> None:
        self.writer.writelines(_bytes(part) for part in parts)

    async def answer(self) -> tuple[int, bytes]:
        head = await self.reader.readuntil(b"\r\n\r\n")
        lines = head.decode("latin-1").lower().split("\r\n")
        length = next((int(line.split(":")[1]) for line in lines if line.startswith("content-length:")), 0)
        return int(head.split(b" ")[1]), await self.reader.readexactly(length)

    async def rest(self) -> bytes:
        """All until it is closed."""
        try:
            return await self.reader.read()
        except ConnectionError:
            return b""


async def said(passage: Passage, *parts: str | bytes) -> int:
    """The status of the answer to this, 0 for none."""
    client = await Client.to(passage)
    client.say(*parts)
    answer = await client.rest()
    client.writer.close()
    return int(answer.split(b" ")[1]) if answer else 0


def get(url: str, *headers: str) -> str:
    return "\r\n".join([f"GET {url} HTTP/1.1", "Host: anything", *headers, "", ""])


def _bytes(part: str | bytes) -> bytes:
    return part.encode() if isinstance(part, str) else part
