"""Segment files: append-only files of stored pages.

Each process appends to its own segment, which it keeps locked, so that several processes may share a folder. A frame is
written by one call, so a killed process leaves at most one incomplete frame, at the end of its segment. Nothing is
changed in place, and a full segment is never opened for writing again.
"""

import contextlib
import fcntl
import hashlib
import os
import struct
import zlib
from collections import OrderedDict
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import orjson
import zstandard

from forager.core.http import Response
from forager.core.storage import DIGEST_BYTES, SCHEME

# The format of one stored page in a segment: a header with digest and lengths, the metadata, the compressed body.
#
# A frame can be verified by itself: the checksum shows whether it was written completely, the digest whether it is the
# requested page. Pure; a damaged frame is None, never an error.


MAGIC = b"FGB1"
LEVEL = 1
"""zstd level: 44 µs for 20 KB. Level 3 saves another 3 % for a quarter more time."""
KEPT_HEADERS = {
    name.lower(): name for name in ("Content-Type", "Content-Language", "ETag", "Last-Modified", "Link", "X-Robots-Tag")
}
"""Response headers that are stored. No cookies: a stored page may be read by other jobs than the one that it was sent
to."""
_HEADER = struct.Struct(f"<4sI{DIGEST_BYTES}sIII")
HEADER_BYTES = _HEADER.size


class Header(NamedTuple):
    """The fixed part of a frame."""

    crc: int
    """Checksum of everything after it."""
    digest: bytes
    about: int
    """Bytes of the metadata."""
    packed: int
    size: int
    """Bytes of the uncompressed body."""

    @property
    def length(self) -> int:
        """Bytes of the whole frame."""
        return HEADER_BYTES + self.about + self.packed


def digest_of(response: Response) -> bytes:
    """Return the digest of an answer's content, without its time: an unchanged page is stored once."""
    kind = _header(response, "content-type")
    told = f"{response.status} {response.rendered:d} {kind}\n{response.url}\n"
    made = hashlib.sha256(told.encode("utf-8", "surrogatepass"))
    made.update(response.body)
    return made.digest()[:DIGEST_BYTES]


def blob_url(digest: bytes) -> str:
    return SCHEME + digest.hex()


class Packer:
    """Makes frames. It reuses one compressor, so it belongs to one thread."""

    def __init__(self) -> None:
        self._compressor = zstandard.ZstdCompressor(level=LEVEL, write_checksum=False)
        self._decompressor = zstandard.ZstdDecompressor()

    def pack(self, digest: bytes, response: Response) -> bytes:
        about = orjson.dumps(
            {
                "url": response.url,
                "status": response.status,
                "headers": {
                    KEPT_HEADERS[small]: str(value)
                    for name, value in response.headers.items()
                    if (small := name.lower()) in KEPT_HEADERS
                },
                "at": round(response.at.timestamp() * 1000),
                "looks": response.looks,
                "rendered": response.rendered,
            }
        )
        packed = self._compressor.compress(response.body)
        rest = struct.pack(f"<{DIGEST_BYTES}sIII", digest, len(about), len(packed), len(response.body))
        crc = zlib.crc32(packed, zlib.crc32(about, zlib.crc32(rest)))
        return b"".join((MAGIC, struct.pack("<I", crc), rest, about, packed))

    def unpack(self, digest: bytes, frame: bytes) -> Response | None:
        """Return the answer in a frame; None unless it is complete and has this digest."""
        header = read_header(frame)
        if header is None or header.digest != digest or not is_whole(header, frame):
            return None
        about = frame[HEADER_BYTES : HEADER_BYTES + header.about]
        packed = frame[HEADER_BYTES + header.about :]
        try:
            told = orjson.loads(about)
            body = self._decompressor.decompress(packed, max_output_size=header.size)
            response = _response(digest, told, body)
        except (ValueError, KeyError, TypeError, zstandard.ZstdError):
            return None
        return response if digest_of(response) == digest else None


def read_header(data: bytes) -> Header | None:
    """Return the header at the beginning of these bytes, or None."""
    if len(data) < HEADER_BYTES:
        return None
    magic, crc, digest, about, packed, size = _HEADER.unpack_from(data)
    return Header(crc, digest, about, packed, size) if magic == MAGIC else None


def is_whole(header: Header, frame: bytes) -> bool:
    return len(frame) == header.length and zlib.crc32(memoryview(frame)[len(MAGIC) + 4 :]) == header.crc


def _response(digest: bytes, told: dict[str, Any], body: bytes) -> Response:
    return Response(
        url=told["url"],
        status=told["status"],
        headers=told["headers"],
        body=body,
        at=datetime.fromtimestamp(told["at"] / 1000, UTC),
        elapsed_ms=0,
        looks=told["looks"],
        rendered=told["rendered"],
        blob=blob_url(digest),
    )


def _header(response: Response, name: str) -> str:
    return next((value for each, value in response.headers.items() if each.lower() == name), "")


SEGMENT_BYTES = 64 * 1024 * 1024
OPEN_FILES = 16
_SUFFIX = ".seg"
_LAST = "last-segment"
_CHUNK = 1024 * 1024


class FrameAt(NamedTuple):
    """The position of a frame."""

    segment: int
    offset: int
    length: int


def private(path: str, flags: int) -> int:
    """Open a file, which is for its owner alone if this creates it. An `opener` of `open`."""
    return os.open(path, flags, 0o600)


class Segments:
    """The segment files of a folder."""

    def __init__(self, folder: Path, *, segment_bytes: int = SEGMENT_BYTES) -> None:
        self.folder = folder
        self._full = segment_bytes
        self._files: OrderedDict[int, int] = OrderedDict()
        self.own: int | None = None
        """The segment that this process appends to."""
        self._own_file = -1
        self.end = 0

    def close(self) -> None:
        if self.own is not None:
            self.seal()
        for number in list(self._files):
            self.forget(number)

    # ── writing ──

    @property
    def is_full(self) -> bool:
        return self.own is not None and self.end >= self._full

    def begin(self) -> int:
        """Create a new segment for this process. A number is never reused, because another process may still read a
        removed file by it."""
        with self.lock():
            number = max(*self.numbers(), self._last_number(), 0) + 1
            with open(self.folder / _LAST, "w", opener=private) as last:
                last.write(str(number))
            self._own_file = os.open(self.path(number), os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
            fcntl.flock(self._own_file, fcntl.LOCK_EX)
        self.own, self.end = number, 0
        return number

    def append(self, frame: bytes) -> FrameAt:
        """Write one frame. If the disk is full, the incomplete frame is truncated."""
        assert self.own is not None  # noqa: S101 - the store begins a segment first
        at = self.end
        try:
            written = 0
            while written < len(frame):
                written += os.pwrite(self._own_file, memoryview(frame)[written:] if written else frame, at + written)
        except OSError:
            with contextlib.suppress(OSError):
                os.ftruncate(self._own_file, at)
            raise
        self.end = at + len(frame)
        return FrameAt(self.own, at, len(frame))

    def seal(self) -> int:
        """Seal our own segment and return its number. It is synced to disk now, once for thousands of pages."""
        assert self.own is not None  # noqa: S101 - there is one to be ended
        os.fdatasync(self._own_file)
        os.close(self._own_file)
        number, self.own, self._own_file = self.own, None, -1
        return number

    # ── reading ──

    def read(self, at: FrameAt) -> bytes | None:
        """Return the bytes of a frame; None if the segment was removed."""
        file = self._file(at.segment)
        return None if file is None else os.pread(file, at.length, at.offset)

    def frames(self, number: int, start: int = 0, *, verify: bool = True) -> Iterator[tuple[FrameAt, Header]]:
        """Yield the frames of a segment. Incomplete frames are skipped.

        With `verify=False` only headers are read: enough to find a frame, which is checked when it is read.
        """
        file = self._file(number)
        if file is None:
            return
        end, at = os.fstat(file).st_size, start
        while at + HEADER_BYTES <= end:
            header = read_header(os.pread(file, HEADER_BYTES, at))
            fits = header is not None and at + header.length <= end
            if header is None or not fits or (verify and not is_whole(header, os.pread(file, header.length, at))):
                at = self._next_magic(file, at + 1, end)
                continue
            yield FrameAt(number, at, header.length), header
            at += header.length

    def size(self, number: int) -> int:
        try:
            return self.path(number).stat().st_size
        except FileNotFoundError:
            return 0

    def numbers(self) -> list[int]:
        return sorted(int(path.stem, 16) for path in self.folder.glob(f"*{_SUFFIX}"))

    def path(self, number: int) -> Path:
        return self.folder / f"{number:08x}{_SUFFIX}"

    # ── removing ──

    @contextlib.contextmanager
    def without_owner(self, number: int) -> Iterator[bool]:
        """Yield whether no living process appends to this segment; it stays locked while the block runs."""
        try:
            file = os.open(self.path(number), os.O_RDWR)
        except FileNotFoundError:
            yield False
            return
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True
        finally:
            os.close(file)

    def truncate(self, number: int, size: int) -> None:
        os.truncate(self.path(number), size)

    def remove(self, number: int) -> None:
        self.forget(number)
        self.path(number).unlink(missing_ok=True)

    def forget(self, number: int) -> None:
        """Close the file, so that a removed segment returns its space."""
        if (file := self._files.pop(number, None)) is not None:
            os.close(file)

    @contextlib.contextmanager
    def lock(self, name: str = "lock", *, wait: bool = True) -> Iterator[bool]:
        """Hold a lock of the folder against other processes. Without `wait`, yields whether it was free."""
        file = os.open(self.folder / name, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError:
            yield False
        else:
            yield True
        finally:
            os.close(file)

    def _file(self, number: int) -> int | None:
        """Return an open file for reading. The most recently used ones stay open."""
        if number == self.own:
            return self._own_file
        file = self._files.pop(number, None)
        if file is None:
            try:
                file = os.open(self.path(number), os.O_RDONLY)
            except FileNotFoundError:
                return None
        self._files[number] = file
        if len(self._files) > OPEN_FILES:
            os.close(self._files.popitem(last=False)[1])
        return file

    def _last_number(self) -> int:
        try:
            return int((self.folder / _LAST).read_text() or 0)
        except (FileNotFoundError, ValueError):
            return 0

    @staticmethod
    def _next_magic(file: int, at: int, end: int) -> int:
        while at < end:
            chunk = os.pread(file, _CHUNK, at)
            offset = chunk.find(MAGIC)
            if offset >= 0:
                return at + offset
            if len(chunk) < len(MAGIC):
                break
            at += len(chunk) - len(MAGIC) + 1
        return end
