"""The two ends of one connection of a browser: `Inlet` towards the browser, `Outlet` towards the site.

Once both are connected, bytes are relayed unchanged. Before that, and again for each plain request, the inlet parses
the request and has it checked. A connection serves only one origin, so that answers can be relayed without parsing:
surplus bytes of one site can never be taken for the answer of another.
"""

import asyncio
from typing import TYPE_CHECKING, cast

from forager.core.errors import ForagerError, Refused
from forager.fetch.browser.framing import MOST_HEAD, Body, Head, Malformed, read_head

if TYPE_CHECKING:
    from forager.fetch.browser.gate import Passage, Target

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
        """Whether a complete head has arrived. Until then the client is unauthenticated and has little time."""
        self.moved = 0
        """Bytes so far, to detect idle connections."""
        self._origin: Target | None = None
        self._buffer = bytearray()
        self._body: Body | None = None
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
        if self._busy:  # an upgrade was asked for
            self.spliced = status == b"101"
            self._busy = False
            if self.spliced and self.outlet and self.outlet.transport:
                self.outlet.transport.write(bytes(self._buffer))
                self._buffer.clear()
            else:
                asyncio.get_running_loop().call_soon(self._read)
            self.go_on()
        return True

    # ── what is asked for ──

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
            self.answer(407, "this way is a browser's own, and wants its password")
            return
        target = self.passage.target(head)
        body = None if target.tunnel else Body(head)
        if self._origin and target.origin != self._origin.origin:
            self._end()  # close silently: the browser repeats the request on a new connection
            return
        if self._origin and self.outlet:
            self._send(head, target, body)
            return
        self._origin, self._busy = target, True
        self.passage.run(self._open(head, target, body))

    async def _open(self, head: Head, target: "Target", body: Body | None) -> None:
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

    def _send(self, head: Head, target: "Target", body: Body | None) -> None:
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
