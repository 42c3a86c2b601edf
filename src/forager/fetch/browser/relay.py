"""The two ends of one connection of a browser: `Inlet` towards the browser, `Outlet` towards the site.

Once both are connected, bytes are relayed unchanged. Before that, and again for each plain request, the inlet parses
the request and has it checked. A connection serves only one origin, so that answers can be relayed without parsing:
surplus bytes of one site can never be taken for the answer of another.
"""

import asyncio
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from forager.core.errors import ForagerError, Refused

if TYPE_CHECKING:
    from forager.fetch.browser.gate import GateTarget, Passage


# Strict parsing of a browser's requests: anything that two parsers could read differently is malformed.
#
# The guard must see every request on a connection. A request hidden inside the body of another would escape it (request
# smuggling), so nothing here is lenient: no two lengths, no folded lines, no bare line feeds, no trailers.


MOST_HEAD = 64 * 1024
MOST_LINES = 256
MOST_CHUNK_LINE = 18  # sixteen hex digits would exceed any disk

_TOKEN = rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+"
_REQUEST_LINE = re.compile(rb"(" + _TOKEN + rb") ([\x21-\x7e]+) HTTP/1\.([01])")
_HEADER = re.compile(rb"(" + _TOKEN + rb"):[ \t]*([\x20-\x7e\x80-\xff\t]*?)[ \t]*")
_CHUNK = re.compile(rb"[0-9A-Fa-f]{1,15}")

# Hop-by-hop headers (RFC 9110, 7.6.1), including the proxy's credentials.
HOP_BY_HOP = frozenset((
    b"connection", b"keep-alive", b"proxy-connection", b"proxy-authorization", b"proxy-authenticate", b"te", b"trailer",
    b"upgrade", b"host",
))  # fmt: skip


class Malformed(ValueError):
    """A request that is not unambiguously one request."""


@dataclass(frozen=True, slots=True)
class Head:
    method: bytes
    target: str
    headers: tuple[tuple[bytes, bytes], ...]
    keeps: bool
    """True if the connection stays open after the answer."""

    def values(self, name: bytes) -> list[bytes]:
        return [value for key, value in self.headers if key.lower() == name]

    @property
    def upgrades(self) -> bool:
        return [value.lower() for value in self.values(b"upgrade")] == [b"websocket"]

    def rewritten(self, target: str, host: str, extra: tuple[tuple[bytes, bytes], ...] = ()) -> bytes:
        """Return the request head for the next hop, without the hop-by-hop headers."""
        named = {name.strip().lower() for value in self.values(b"connection") for name in value.split(b",")}
        dropped = HOP_BY_HOP | (named - {b"transfer-encoding", b"content-length"})
        connection: tuple[tuple[bytes, bytes], ...]
        if self.upgrades:
            connection = ((b"Connection", b"Upgrade"), (b"Upgrade", b"websocket"))
        else:
            connection = () if self.keeps else ((b"Connection", b"close"),)
        kept = [(name, value) for name, value in self.headers if name.lower() not in dropped]
        lines = [b"%s %s HTTP/1.1" % (self.method, target.encode()), b"Host: " + host.encode()]
        lines += [name + b": " + value for name, value in (*kept, *connection, *extra)]
        return b"\r\n".join([*lines, b"", b""])


def read_head(raw: bytes) -> Head:
    """Parse a head, given without its closing empty line. Raises `Malformed`."""
    first, *lines = raw.split(b"\r\n")
    line = _REQUEST_LINE.fullmatch(first)
    if not line or len(lines) > MOST_LINES:
        raise Malformed("its first line is not an HTTP/1 request, or it has too many lines")
    headers = []
    for text in lines:
        if not (header := _HEADER.fullmatch(text)):
            raise Malformed("one of its header lines is malformed")
        headers.append((header[1], header[2]))
    options = {
        word.strip().lower() for name, value in headers if name.lower() == b"connection" for word in value.split(b",")
    }
    keeps = b"close" not in options and (line[3] == b"1" or b"keep-alive" in options)
    return Head(line[1], line[2].decode(), tuple(headers), keeps)


class BodyEnd:
    """Finds the end of a request's body. It stores nothing: what it accepts is passed on unchanged."""

    def __init__(self, head: Head) -> None:
        lengths, codings = head.values(b"content-length"), head.values(b"transfer-encoding")
        if lengths and codings:
            raise Malformed("it has both a length and a transfer coding")
        if codings and [coding.lower() for coding in codings] != [b"chunked"]:
            raise Malformed("its transfer coding is not plainly chunked")
        if len(lengths) > 1 or (lengths and not re.fullmatch(rb"[0-9]{1,15}", lengths[0])):
            raise Malformed("its length is not plainly one number")
        self._chunked = bool(codings)
        self._left = int(lengths[0]) if lengths else 0
        self._line = bytearray()
        self._closing = False  # a chunk's data are through: its line break comes next
        self._last = False
        self.ended = not self._chunked and not self._left

    def feed(self, data: bytes | bytearray) -> int:
        """Return how many of these bytes belong to the body."""
        at = 0
        while at < len(data) and not self.ended:
            if self._left:
                step = min(self._left, len(data) - at)
                self._left -= step
                at += step
                self._closing = self._chunked and not self._left
                self.ended = not self._chunked and not self._left
            else:
                at = self._chunk_line(data, at)
        return at

    def _chunk_line(self, data: bytes | bytearray, at: int) -> int:
        """Read a line between the data: the size of a chunk, the empty line after it, or the empty line at the end."""
        end = data.find(b"\n", at)
        self._line += data[at : end + 1] if end >= 0 else data[at:]
        if len(self._line) > MOST_CHUNK_LINE:
            raise Malformed("the size of a chunk is malformed")
        if end < 0:
            return len(data)
        if not self._line.endswith(b"\r\n"):
            raise Malformed("a line of its chunks ends with a bare line feed")
        line, self._line = bytes(self._line[:-2]), bytearray()
        if self._closing or self._last:
            if line:
                raise Malformed("a chunk is longer than its declared size, or trailers follow")
            self._closing, self.ended = False, self._last
        elif not _CHUNK.fullmatch(line):
            raise Malformed("the size of a chunk is malformed")
        elif size := int(line, 16):
            self._left = size
        else:
            self._last = True
        return end + 1


STATUS = {
    400: "Bad Request", 403: "Forbidden", 407: "Proxy Authentication Required",
    431: "Request Header Fields Too Large", 502: "Bad Gateway", 503: "Service Unavailable",
}  # fmt: skip
TUNNEL_OPEN = b"HTTP/1.1 200 Connection established\r\n\r\n"
CHALLENGE = 'Proxy-Authenticate: Basic realm="Forager"\r\n'
PEEK = len(b"HTTP/1.1 101")


class Outlet(asyncio.Protocol):
    """The end towards the site, or towards the proxy before it."""

    def __init__(self, inlet: "Inlet") -> None:
        self.inlet = inlet
        self.transport: asyncio.Transport | None = None
        self.moved = 0
        self._first: bytearray | None = None

    def peek(self) -> None:
        """Inspect the status of the next answer before it is relayed."""
        self._first = bytearray()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        self.inlet.passage.received += len(data)
        self.moved += len(data)
        if self._first is not None:
            self._first += data
            if len(self._first) < PEEK:
                return
            data, self._first = bytes(self._first), None
            if not self.inlet.answered(data[9:12]):
                return
        if self.inlet.transport:
            self.inlet.transport.write(data)

    def eof_received(self) -> bool:
        return self.inlet.half_closed()

    def connection_lost(self, error: Exception | None) -> None:
        if self._first and self.inlet.transport:  # shorter than a status line, but still the site's answer
            self.inlet.transport.write(bytes(self._first))
        self.inlet.outlet_lost()

    def pause_writing(self) -> None:
        self.inlet.hold()

    def resume_writing(self) -> None:
        self.inlet.go_on()


class Inlet(asyncio.Protocol):
    """The end towards the browser."""

    def __init__(self, passage: "Passage") -> None:
        self.passage = passage
        self.transport: asyncio.Transport | None = None
        self.outlet: Outlet | None = None
        self.spliced = False
        self.asked = False
        """True when a complete head has arrived. Until then the client is unauthenticated and has little time."""
        self.moved = 0
        """Bytes received, to detect idle connections."""
        self._origin: GateTarget | None = None
        self._buffer = bytearray()
        self._body: BodyEnd | None = None
        self._busy = False  # a dial or an upgrade is under way: buffer what arrives meanwhile
        self._ending = False
        self._said_all = False
        self._heard_all = False

    # ── asyncio's side ──

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        if not self.passage.admit(self):
            self.answer(503, "too many connections of one visit")

    def data_received(self, data: bytes) -> None:
        self.passage.sent += len(data)
        self.moved += len(data)
        if self.spliced and self.outlet and self.outlet.transport:
            self.outlet.transport.write(data)
            return
        if self._ending:
            return
        self._buffer += data
        if self._busy:
            if len(self._buffer) > MOST_HEAD:
                self.hold()
            return
        self._read()

    def eof_received(self) -> bool:
        """The browser has closed its side. In a tunnel the site may still send; True keeps this end open."""
        self._said_all = True
        far = self.outlet.transport if self.outlet else None
        if not self.spliced or self._heard_all or not far or far.is_closing() or not far.can_write_eof():
            return False
        far.write_eof()
        return True

    def connection_lost(self, error: Exception | None) -> None:
        self.transport = None
        self.passage.forget(self)
        if self.outlet and self.outlet.transport:
            self.outlet.transport.close()

    def pause_writing(self) -> None:
        if self.outlet and self.outlet.transport and not self.outlet.transport.is_closing():
            self.outlet.transport.pause_reading()

    def resume_writing(self) -> None:
        if self.outlet and self.outlet.transport and not self.outlet.transport.is_closing():
            self.outlet.transport.resume_reading()

    # ── the other end's side ──

    def hold(self) -> None:
        if self.transport and not self.transport.is_closing():
            self.transport.pause_reading()

    def go_on(self) -> None:
        if self.transport and not self.transport.is_closing():
            self.transport.resume_reading()

    def half_closed(self) -> bool:
        """The site has closed its side."""
        self._heard_all = True
        near = self.transport
        if not self.spliced or self._said_all or not near or near.is_closing() or not near.can_write_eof():
            return False
        near.write_eof()
        return True

    def outlet_lost(self) -> None:
        if self.transport and not self._ending:
            self.transport.close()

    def answered(self, status: bytes) -> bool:
        """Handle the status of an answer before it is relayed. Returns False if it must not be."""
        if status == b"407":  # only our own proxy may send a 407, and the browser must not see it
            self.answer(502, self.passage.unwelcome(self._origin))
            return False
        if self._busy:  # an upgrade was requested
            self.spliced = status == b"101"
            self._busy = False
            if self.spliced and self.outlet and self.outlet.transport:
                self.outlet.transport.write(bytes(self._buffer))
                self._buffer.clear()
            else:
                asyncio.get_running_loop().call_soon(self._read)
            self.go_on()
        return True

    # ── the request ──

    def _read(self) -> None:
        """Process the buffer: the rest of a body, the next head, or nothing yet."""
        try:
            while self._buffer and not self._busy and not self._ending:
                if self._body:
                    self._pass_body()
                    continue
                end = self._buffer.find(b"\r\n\r\n", 0, MOST_HEAD)
                if end < 0:
                    if len(self._buffer) >= MOST_HEAD:
                        self.answer(431, f"the head of a request is longer than {MOST_HEAD:,} bytes")
                    return
                head = read_head(bytes(self._buffer[:end]))
                del self._buffer[: end + 4]
                self.asked = True
                self._begin(head)
        except Malformed as error:
            self.answer(400, f"a request was malformed: {error}")
        except Refused as error:
            self.answer(403, error.message)

    def _begin(self, head: Head) -> None:
        if not self.passage.knows(head):
            self.answer(407, "this proxy serves one browser and requires its password")
            return
        target = self.passage.target(head)
        body = None if target.tunnel else BodyEnd(head)
        if self._origin and target.origin != self._origin.origin:
            self._end()  # close silently: the browser repeats the request on a new connection
            return
        if self._origin and self.outlet:
            self._send(head, target, body)
            return
        self._origin, self._busy = target, True
        self.passage.run(self._open(head, target, body))

    async def _open(self, head: Head, target: "GateTarget", body: BodyEnd | None) -> None:
        try:
            outlet = Outlet(self)
            await self.passage.connect(target, outlet)
        except ForagerError as error:
            self.answer(self.passage.note(target, error), error.message)
            return
        if not self.transport or self.transport.is_closing():
            if outlet.transport:
                outlet.transport.abort()
            return
        self.outlet, self._busy = outlet, False
        self.go_on()
        if target.tunnel:
            self.spliced = True
            self.transport.write(TUNNEL_OPEN)
            if self._buffer and outlet.transport:
                outlet.transport.write(bytes(self._buffer))
                self._buffer.clear()
            return
        self._send(head, target, body)
        self._read()

    def _send(self, head: Head, target: "GateTarget", body: BodyEnd | None) -> None:
        if not self.outlet or not self.outlet.transport or self.outlet.transport.is_closing():
            self._end()
            return
        self.outlet.peek()
        self.outlet.transport.write(self.passage.rewritten(head, target))
        self._body = None if not body or body.ended else body
        self._busy = head.upgrades and self._body is None

    def _pass_body(self) -> None:
        if not self._body or not self.outlet or not self.outlet.transport:
            return
        count = self._body.feed(self._buffer)
        self.outlet.transport.write(bytes(self._buffer[:count]))
        del self._buffer[:count]
        if self._body.ended:
            self._body = None

    def answer(self, status: int, text: str) -> None:
        """Send an error answer, and close the connection."""
        body = f"Forager did not pass this on: {text}\n".encode()
        head = (
            f"HTTP/1.1 {status} {STATUS[status]}\r\nContent-Type: text/plain; charset=utf-8\r\n"
            f"Content-Length: {len(body)}\r\nCache-Control: no-store\r\nConnection: close\r\n"
            f"{CHALLENGE if status == 407 else ''}\r\n"
        )
        if self.transport:
            self.transport.write(head.encode() + body)
        self._end()

    def _end(self) -> None:
        self._ending = True
        self._buffer.clear()
        if self.transport:
            self.transport.close()

    def abort(self) -> None:
        for end in (self.transport, self.outlet.transport if self.outlet else None):
            if end:
                end.abort()
