"""Sitemaps: the addresses in one, also if it is compressed, broken or very large. Pure.

The XML is scanned for `<loc>`, not parsed: that is linear, has no entities to expand, and reads what a broken file
still holds.
"""

import html
import re
import zlib
from collections.abc import Iterator

LARGEST = 64 * 1024 * 1024
"""Bytes of one sitemap after decompression; the protocol allows 50 MB."""
_LOC = re.compile(rb"<(?:\w+:)?loc>\s*(?:<!\[CDATA\[)?\s*([^<\]]+?)\s*(?:\]\]>)?\s*</(?:\w+:)?loc>")
_INDEX = re.compile(rb"<(?:\w+:)?sitemapindex[\s>]")
_LINE = re.compile(r"^sitemap:\s*(\S+)", re.IGNORECASE | re.MULTILINE)
_GZIP = b"\x1f\x8b"


def unpacked(body: bytes) -> bytes:
    """The text of a sitemap, decompressed if need be, cut at `LARGEST`. Damage keeps what comes before it."""
    if not body.startswith(_GZIP):
        return body[:LARGEST]
    text = bytearray()
    left = body
    while left.startswith(_GZIP) and len(text) < LARGEST:
        member = zlib.decompressobj(zlib.MAX_WBITS | 16)
        try:
            text += member.decompress(left, LARGEST - len(text))
        except zlib.error:
            break
        left = member.unused_data
    return bytes(text)


def is_index(text: bytes) -> bool:
    """Whether a sitemap lists other sitemaps."""
    return _INDEX.search(text[:4_096]) is not None


def locations(text: bytes, start: int = 0) -> Iterator[tuple[int, str]]:
    """Addresses from byte `start` on, each with the byte behind it, where the next part can begin."""
    if b"<" not in text[:4_096]:
        yield from _lines(text, start)
        return
    for match in _LOC.finditer(text, start):
        yield match.end(), html.unescape(match[1].decode("utf-8", "replace"))


def from_robots(text: str) -> list[str]:
    """The sitemaps that a robots.txt names."""
    return _LINE.findall(text)[:100]


def _lines(text: bytes, start: int) -> Iterator[tuple[int, str]]:
    """A sitemap may also be plain text with one address per line."""
    place = start
    for line in text[start:].split(b"\n"):
        place += len(line) + 1
        url = line.strip().decode("utf-8", "replace")
        if url.startswith(("http://", "https://")):
            yield min(place, len(text)), url
