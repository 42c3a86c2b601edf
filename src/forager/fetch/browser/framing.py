"""Strict parsing of a browser's requests: anything that two parsers could read differently is malformed.

The guard must see every request on a connection. A request hidden inside the body of another would escape it (request
smuggling), so nothing here is lenient: no two lengths, no folded lines, no bare line feeds, no trailers.
"""

import re
from dataclasses import dataclass

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
    """Whether the connection stays open after the answer."""

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


class Body:
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
                raise Malformed("a chunk is longer than it said, or trailers follow")
            self._closing, self.ended = False, self._last
        elif not _CHUNK.fullmatch(line):
            raise Malformed("the size of a chunk is malformed")
        elif size := int(line, 16):
            self._left = size
        else:
            self._last = True
        return end + 1
