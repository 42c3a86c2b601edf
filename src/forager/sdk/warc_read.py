"""Reads WARC files whose records are gzip members of their own, such as those that `sdk.warc` writes. Pure but for the
file that it is given.

A file that a process was still writing when it was killed ends within a member: everything before it is read.
"""

import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import BinaryIO

from forager.sdk.warc import index_line

_GZIP = 31
_PIECE = 1 << 16
MOST_BYTES = 256 << 20
"""Largest record that is read. Forager's own are smaller."""


@dataclass(frozen=True, slots=True)
class WarcRecord:
    kind: str
    url: str
    at: datetime
    headers: Mapping[str, str]
    """All WARC headers, with names in lower case."""
    block: bytes
    offset: int
    length: int
    """With `offset`, the position of its member in the file."""

    def http(self) -> tuple[int, dict[str, str], bytes]:
        """Return status, headers and body of a response record."""
        head, _, body = self.block.partition(b"\r\n\r\n")
        first, *lines = head.decode("utf-8", "replace").split("\r\n")
        pairs = (line.partition(":") for line in lines)
        return int(first.split(" ")[1]), {name.strip(): value.strip() for name, _, value in pairs}, body


def read_records(file: BinaryIO) -> Iterator[WarcRecord]:
    """Yield the records of a file, up to its end or to an incomplete member. Raises `ValueError` for a file that is no
    WARC file, and for a record above `MOST_BYTES`."""
    offset, held = 0, b""
    while held or (held := file.read(_PIECE)):
        unpack = zlib.decompressobj(_GZIP)
        parts, size, used = [], 0, 0
        while not unpack.eof:
            if not held and not (held := file.read(_PIECE)):
                return  # incomplete: its writer was killed
            try:
                part = unpack.decompress(held, MOST_BYTES + 1 - size)
            except zlib.error as error:
                if offset:
                    return
                raise ValueError(f"this is no WARC file with a gzip member per record: {error}") from error
            parts.append(part)
            size += len(part)
            if size > MOST_BYTES:
                raise ValueError(f"the record at {offset} has more than {MOST_BYTES:,} bytes")
            left = unpack.unused_data if unpack.eof else unpack.unconsumed_tail
            used += len(held) - len(left)
            held = left
        yield _record(b"".join(parts), offset, used)
        offset += used


def read_at(file: BinaryIO, offset: int) -> WarcRecord:
    """Return the record whose member begins at this offset. Raises `ValueError` if there is none."""
    file.seek(offset)
    return next(read_records(file))


def cdxj_lines(file: BinaryIO, name: str) -> Iterator[str]:
    """Yield the index lines of a file's responses."""
    for each in read_records(file):
        if each.kind == "response":
            status, headers, _ = each.http()
            known = {
                "mime": headers.get("Content-Type", ""),
                "status": str(status),
                "digest": each.headers.get("warc-payload-digest", ""),
                "method": each.headers.get("forager-method", "GET"),
            }
            yield index_line(each.url, each.at, known, name, each.offset, each.length)


def _record(content: bytes, offset: int, length: int) -> WarcRecord:
    head, found, rest = content.partition(b"\r\n\r\n")
    first, *lines = head.decode("utf-8", "replace").split("\r\n")
    if not found or not first.startswith("WARC/1."):
        raise ValueError(f"there is no WARC record at {offset}")
    headers = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    size = int(headers["content-length"])
    return WarcRecord(
        headers["warc-type"],
        headers.get("warc-target-uri", ""),
        datetime.fromisoformat(headers["warc-date"]),
        headers,
        rest[:size],
        offset,
        length,
    )
