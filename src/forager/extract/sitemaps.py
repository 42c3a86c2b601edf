"""Sitemaps: the addresses in one, also if it is compressed, broken or very large. Pure.

The XML is scanned for `<loc>`, not parsed: that is linear, has no entities to expand, and reads what a broken file
still holds. It is unpacked and scanned piece by piece: a few kilobytes can unpack to 50 MB, which is never held as a
whole, and no piece keeps a thread's lock for longer than other work can wait.
"""

import html
import re
import zlib
from collections.abc import Iterator

LARGEST = 50 * 1024 * 1024
"""Bytes of one sitemap, packed and after decompression, as the protocol has it."""
PIECE = 64 * 1024
LONGEST_URL = 4 * 1024
"""Bytes of an address; a longer one is not one."""
_BEGINNING = 4 * 1024
# Possessive, so that no character is read twice, whatever the file contains.
_LOC = re.compile(
    rb"<(?:\w{1,32}+:)?+loc>\s*+(?:<!\[CDATA\[)?+([^<\]]*+)(?:\]\]>)?+\s*+</(?:\w{1,32}+:)?+loc>",
)
_INDEX = re.compile(rb"<(?:\w{1,32}+:)?+sitemapindex[\s>]")
_LINE = re.compile(r"^sitemap:[ \t]*+(\S++)", re.IGNORECASE | re.MULTILINE)
_GZIP = b"\x1f\x8b"


def is_index(body: bytes) -> bool:
    """Return whether a sitemap lists other sitemaps."""
    return _INDEX.search(_beginning(body)) is not None


def locations(body: bytes, start: int = 0) -> Iterator[tuple[int, str]]:
    """Yield the addresses from byte `start` of the unpacked file on, each with the byte behind it, where the next part
    can begin."""
    scan = _in_xml if b"<" in _beginning(body) else _in_lines
    for end, url in scan(_pieces(body), start):
        text = url.strip()
        if 0 < len(text) <= LONGEST_URL:
            yield end, text.decode("utf-8", "replace")


def from_robots(body: bytes) -> list[str]:
    """Return the sitemaps that a robots.txt names."""
    return _LINE.findall(body.decode("utf-8", "replace"))[:100]


def _beginning(body: bytes) -> bytes:
    return next(_pieces(body), b"")[:_BEGINNING]


def _pieces(body: bytes) -> Iterator[bytes]:
    """Yield the text of a sitemap, decompressed if need be, up to `LARGEST`. Damage keeps what comes before it."""
    if not body.startswith(_GZIP):
        for at in range(0, min(len(body), LARGEST), PIECE):
            yield body[at : at + PIECE]
        return
    left, read = memoryview(body), 0
    while bytes(left[:2]) == _GZIP:
        member = zlib.decompressobj(zlib.MAX_WBITS | 16)
        while left and not member.eof:
            given, left = left[:PIECE], left[PIECE:]
            more = True
            while more:
                try:
                    piece = member.decompress(given, PIECE)
                except zlib.error:
                    return
                if piece:
                    yield piece
                read += len(piece)
                if read >= LARGEST:
                    return
                given = memoryview(member.unconsumed_tail)
                # After a full piece there may be more output although all input is consumed.
                more = not member.eof and (bool(given) or len(piece) == PIECE)
        if member.unused_data:
            left = memoryview(body)[len(body) - len(left) - len(member.unused_data) :]


def _in_xml(pieces: Iterator[bytes], start: int) -> Iterator[tuple[int, bytes]]:
    text, at = b"", 0
    for piece in pieces:
        text += piece
        done = max(0, start - at)
        for match in _LOC.finditer(text, done):
            done = match.end()
            yield at + done, html.unescape(match[1].decode("utf-8", "replace")).encode()
        # Maximum length of an address, which may continue in the next piece.
        keep = max(done, len(text) - 2 * LONGEST_URL)
        text, at = text[keep:], at + min(keep, len(text))


def _in_lines(pieces: Iterator[bytes], start: int) -> Iterator[tuple[int, bytes]]:
    """A sitemap may also be plain text with one address per line."""
    line, at = b"", 0
    for piece in pieces:
        *whole, rest = piece.split(b"\n")
        for each in whole:
            line += each
            at += len(each) + 1
            if at > start and line.lstrip().startswith((b"http://", b"https://")):
                yield at, line
            line = b""
        at += len(rest)
        line = (line + rest)[: 2 * LONGEST_URL]
    if at > start and line.lstrip().startswith((b"http://", b"https://")):
        yield at, line
