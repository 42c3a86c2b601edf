"""Garbage collection of stored pages that nothing refers to, a few at a time.

There are three phases: mark every page that is referred to; remove the others, unless they were stored or used
recently; delete segments without pages, and move the few pages of mostly empty segments to another one. It can be
interrupted at any point without losing a page that is referred to; the next collection does the rest.
"""

import contextlib
from collections.abc import Sequence

from forager.core.blobs import BlobStat, Collected, is_blob
from forager.core.errors import Conflict
from forager.fetch.blobs.folder import BlobFolder
from forager.fetch.blobs.frames import is_whole, read_header
from forager.fetch.blobs.segments import Place

AT_ONCE = 500
MOVED_AT_ONCE = 100
WORTH_MOVING = 0.5
"""A segment is emptied if less than this share of it is in use."""


class Collection:
    """One run of the collection. Runs in the thread of its folder."""

    def __init__(self, folder: BlobFolder, *, dry_run: bool = False) -> None:
        self._folder = folder
        self._dry_run = dry_run
        self._held = contextlib.ExitStack()
        self._after = b""
        self._removed = self._kept = self._freed = self._segments = 0
        self._emptying: tuple[int, int] | None = None
        """The segment that is being emptied, and the position reached."""
        self._passed: set[int] = set()

    def stat(self) -> BlobStat:
        self._folder.flush()
        segments = self._folder.segments
        pages, size, stored = self._folder.index.totals()
        numbers = segments.numbers()
        on_disk = sum(segments.size(number) for number in numbers)
        return BlobStat(pages, size, stored, max(0, on_disk - stored), len(numbers))

    def begin(self) -> None:
        if not self._held.enter_context(self._folder.segments.lock("collecting", wait=False)):
            self._held.close()
            raise Conflict("Another process collects unused pages in this folder. Try again when it has finished.")
        self._folder.recover()
        self._folder.flush()
        self._folder.index.begin_marks()

    def end(self) -> None:
        self._folder.index.end_marks()
        self._held.close()

    def mark(self, blobs: Sequence[str]) -> None:
        """Mark pages that something refers to."""
        self._folder.index.mark(bytes.fromhex(blob.partition(":")[2]) for blob in blobs if is_blob(blob))

    def sweep(self, grace_ms: int, days_ms: int | None) -> bool:
        """Check some pages and remove those that nothing refers to. Returns False when all have been checked."""
        index = self._folder.index
        page = index.page(self._after, AT_ONCE)
        if not page:
            return False
        self._after = page[-1].digest
        now = self._folder.now()
        marked = index.marked([entry.digest for entry in page])
        doomed: dict[int, list[bytes]] = {}
        for entry in page:
            limit = days_ms if entry.digest in marked else grace_ms
            if limit is not None and entry.used_at < now - limit:
                doomed.setdefault(now - limit, []).append(entry.digest)
        removed = 0
        for before, digests in doomed.items():
            removed += len(digests) if self._dry_run else index.remove(digests, used_before=before)
        if self._dry_run:
            gone = {digest for digests in doomed.values() for digest in digests}
            self._freed += sum(entry.place.length for entry in page if entry.digest in gone)
        self._removed += removed
        self._kept += len(page) - removed
        return True

    def compact(self) -> bool:
        """Delete one segment without pages, or move some pages out of a mostly empty one. Returns False when nothing is
        left to do."""
        if self._dry_run:
            return False
        if self._emptying is None:
            number = self._next_segment()
            if number is None:
                return False
            self._passed.add(number)
            self._emptying = number, 0
        number, done = self._emptying
        further = self._move_some(number, done)
        if further is None:
            self._emptying = None
            self._remove(number)
        else:
            self._emptying = number, further
        return True

    def result(self) -> Collected:
        return Collected(self._removed, self._kept, self._freed, self._segments, dry_run=self._dry_run)

    def _next_segment(self) -> int | None:
        segments, known = self._folder.segments, self._folder.index.segments()
        for number in segments.numbers():
            row = known.get(number)
            if row is None or not row.sealed or number in self._passed:
                continue
            if row.live < WORTH_MOVING * segments.size(number):
                return number
        for number in known.keys() - set(segments.numbers()):
            self._folder.index.drop_segment(number)  # deleted by hand; its pages are found missing when they are read
        return None

    def _move_some(self, number: int, done: int) -> int | None:
        """Move pages after position `done` that are still in use. Returns the new position, or None at the end."""
        index, segments = self._folder.index, self._folder.segments
        moves: list[tuple[bytes, Place, Place]] = []
        for place, header in segments.frames(number, done, verify=False):
            entry = index.find(header.digest)
            if entry is not None and entry.place == place:
                frame = segments.read(place)
                whole = read_header(frame) if frame is not None else None
                if frame is not None and whole is not None and is_whole(whole, frame):
                    moves.append((header.digest, place, self._folder.append(frame)))
                else:
                    index.remove([header.digest])
            done = place.offset + place.length
            if len(moves) >= MOVED_AT_ONCE:
                break
        else:
            self._moved(moves)
            return None
        self._moved(moves)
        return done

    def _moved(self, moves: list[tuple[bytes, Place, Place]]) -> None:
        if moves:
            self._folder.note_moved(moves)
            self._freed -= sum(new.length for _, _, new in moves)

    def _remove(self, number: int) -> None:
        self._freed += self._folder.segments.size(number)
        self._folder.segments.remove(number)
        self._folder.index.drop_segment(number)
        self._segments += 1
