"""A folder of stored pages, used by one thread: store, find, read, recover. It blocks and raises `OSError`s;
`LocalBlobs` keeps it off the event loop and translates them.

A page survives a crash of the process as soon as its frame is written. The index follows a moment later, for many pages
at once; pages that are not indexed yet are read from the end of the segment when the folder is opened again.
"""

import contextlib
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from forager.core.errors import BlobMissing
from forager.core.http import Response
from forager.fetch.blobs.frames import Packer, blob_url, digest_of
from forager.fetch.blobs.index import Entry, Index
from forager.fetch.blobs.segments import SEGMENT_BYTES, Place, Segments

INDEXED_TOGETHER = 256
MOST_UNINDEXED = 20_000
"""Maximum pages that wait for an index that cannot be written. Beyond that, nothing more is stored."""


class BlobFolder:
    """`now` returns Unix milliseconds. A page that was used in the last `fresh_ms` is not marked as used again."""

    def __init__(
        self, folder: Path, now: Callable[[], int], *, fresh_ms: int = 0, segment_bytes: int = SEGMENT_BYTES
    ) -> None:
        for each in (folder.parent, folder):
            each.mkdir(parents=True, exist_ok=True, mode=0o700)
        self.segments = Segments(folder, segment_bytes=segment_bytes)
        self.index = Index(folder)
        self.now = now
        self._fresh_ms = fresh_ms
        self._packer = Packer()
        self._unindexed: dict[bytes, Entry] = {}
        self.recover()

    def close(self) -> None:
        with contextlib.ExitStack() as stack:
            stack.callback(self.index.close)
            stack.callback(self.segments.close)
            self.flush()
            if self.segments.own is not None:
                number = self.segments.seal()
                self.index.seal(number, self.segments.end)

    # ── pages ──

    def keep(self, response: Response) -> str:
        """Store an answer, unless it is stored already."""
        digest, now = digest_of(response), self.now()
        if not self._is_here(digest, now):
            if len(self._unindexed) >= MOST_UNINDEXED:
                self.flush()
            place = self.append(self._packer.pack(digest, response))
            self._unindexed[digest] = Entry(digest, place, len(response.body), now)
            if len(self._unindexed) % INDEXED_TOGETHER == 0:
                self.flush_if_possible()
        return blob_url(digest)

    def read(self, digest: bytes) -> Response:
        """Read an answer. A damaged page is removed from the index, so that it can be stored again. Raises
        `BlobMissing`."""
        for place in self._places(digest):
            frame = self.segments.read(place)
            response = self._packer.unpack(digest, frame) if frame is not None else None
            if response is not None:
                return response
            self.segments.forget(place.segment)
        self._unindexed.pop(digest, None)
        self.index.remove([digest])
        raise BlobMissing(f"The stored page {blob_url(digest)} is gone or damaged. Fetch it again.")

    def append(self, frame: bytes) -> Place:
        """Write a frame to our own segment; a full segment is sealed first."""
        if self.segments.is_full:
            self.flush()
            number = self.segments.seal()
            self.index.seal(number, self.segments.end)
        if self.segments.own is None:
            self.segments.begin()
        return self.segments.append(frame)

    def _is_here(self, digest: bytes, now: int) -> bool:
        """Return whether a page is stored, and mark it as used."""
        if (waiting := self._unindexed.get(digest)) is not None:
            self._unindexed[digest] = waiting._replace(used_at=now)
            return True
        entry = self.index.find(digest)
        if entry is None:
            return False
        return now - entry.used_at < self._fresh_ms or self.index.use(digest, now)

    def _places(self, digest: bytes) -> Iterator[Place]:
        """Yield where a page may be: as indexed, moved by another process since, or written by it a moment ago."""
        waiting = self._unindexed.get(digest)
        if waiting is not None:
            yield waiting.place
            return
        tried = None
        for _ in range(2):
            entry = self.index.find(digest)
            if entry is None or entry.place == tried:
                break
            yield entry.place
            tried = entry.place
        if tried is None:
            yield from self._in_foreign_tails(digest)

    def _in_foreign_tails(self, digest: bytes) -> Iterator[Place]:
        known = self.index.segments()
        for number in self.segments.numbers():
            row = known.get(number)
            if number != self.segments.own and not (row and row.sealed):
                for place, header in self.segments.frames(number, row.indexed if row else 0, verify=False):
                    if header.digest == digest:
                        yield place

    # ── the index ──

    @property
    def has_unindexed(self) -> bool:
        return bool(self._unindexed)

    def flush_if_possible(self) -> None:
        """Index what was stored. If that fails, it is tried again later; the pages themselves are safe."""
        if len(self._unindexed) < MOST_UNINDEXED:
            with contextlib.suppress(sqlite3.Error, OSError):
                self.flush()
        else:
            self.flush()

    def flush(self) -> None:
        if self._unindexed:
            assert self.segments.own is not None  # noqa: S101 - they were written to it
            self.index.add(list(self._unindexed.values()), self.segments.own, self.segments.end)
            self._unindexed.clear()

    def note_moved(self, moves: Sequence[tuple[bytes, Place, Place]]) -> None:
        """Record that pages were copied to our own segment and are read there from now on."""
        self.flush()
        for number, end in {new.segment: new.offset + new.length for _, _, new in moves}.items():
            self.index.add([], number, end)
        self.index.move(moves)

    def recover(self) -> None:
        """Index the ends of segments whose processes were killed, and truncate incomplete frames."""
        with self.segments.lock():
            known = self.index.segments()
            for number in self.segments.numbers():
                row = known.get(number)
                if row is not None and row.sealed:
                    continue
                with self.segments.without_owner(number) as ours:
                    if ours:
                        self._recover_segment(number, row.indexed if row else 0)

    def _recover_segment(self, number: int, indexed: int) -> None:
        end, now = indexed, self.now()
        entries: list[Entry] = []
        for place, header in self.segments.frames(number, indexed):
            entries.append(Entry(header.digest, place, header.size, now))
            end = place.offset + place.length
            if len(entries) >= INDEXED_TOGETHER:
                self.index.add(entries, number, end)
                entries.clear()
        self.index.add(entries, number, end)
        if end:
            self.segments.truncate(number, end)
            self.index.seal(number, end)
        else:
            self.segments.remove(number)
            self.index.drop_segment(number)
