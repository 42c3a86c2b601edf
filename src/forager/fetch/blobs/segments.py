"""Segment files: append-only files of stored pages.

Each process appends to its own segment, which it keeps locked, so that several processes may share a folder. A frame is
written by one call, so a killed process leaves at most one incomplete frame, at the end of its segment. Nothing is
changed in place, and a full segment is never opened for writing again.
"""

import contextlib
import fcntl
import os
from collections import OrderedDict
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from forager.fetch.blobs.frames import HEADER_BYTES, MAGIC, Header, is_whole, read_header

SEGMENT_BYTES = 64 * 1024 * 1024
OPEN_FILES = 16
_SUFFIX = ".seg"
_LAST = "last-segment"
_CHUNK = 1024 * 1024


class Place(NamedTuple):
    """Where a frame is."""

    segment: int
    offset: int
    length: int


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
            (self.folder / _LAST).write_text(str(number))
            self._own_file = os.open(self.path(number), os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
            fcntl.flock(self._own_file, fcntl.LOCK_EX)
        self.own, self.end = number, 0
        return number

    def append(self, frame: bytes) -> Place:
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
        return Place(self.own, at, len(frame))

    def seal(self) -> int:
        """Seal our own segment and return its number. It is synced to disk now, once for thousands of pages."""
        assert self.own is not None  # noqa: S101 - there is one to be ended
        os.fdatasync(self._own_file)
        os.close(self._own_file)
        number, self.own, self._own_file = self.own, None, -1
        return number

    # ── reading ──

    def read(self, place: Place) -> bytes | None:
        """Return the bytes at a place; None if the segment was removed."""
        file = self._file(place.segment)
        return None if file is None else os.pread(file, place.length, place.offset)

    def frames(self, number: int, start: int = 0, *, verify: bool = True) -> Iterator[tuple[Place, Header]]:
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
            yield Place(number, at, header.length), header
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
