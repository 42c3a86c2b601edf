"""Garbage collection of stored pages in an object store that nothing refers to, a few at a time.

It can be interrupted at any point without losing a page that is referred to; the next collection does the rest. An
object is looked at once more just before it is removed. If it is kept again in that very moment it may be lost all the
same, and is then fetched again, like any page that is lost.
"""

import sqlite3
from collections.abc import Iterator, Sequence
from itertools import islice

from forager.core.blobs import BlobStat, Collected, is_blob
from forager.core.errors import Conflict
from forager.core.place import FileInfo, Place

PAGES = "pages"
LOCK = "collecting"
LOCK_MS = 3_600_000
"""A collection that was killed leaves its lock behind; after so long it is ignored. Two at once would only do the same
work twice."""
AT_ONCE = 500


class RemoteCollection:
    """One run of the collection."""

    def __init__(self, place: Place, *, dry_run: bool = False) -> None:
        self._place = place
        self._dry_run = dry_run
        self._locked = False
        self._marks = sqlite3.connect("", check_same_thread=False)  # a temporary file: there may be millions
        self._marks.execute("CREATE TABLE marked (digest BLOB PRIMARY KEY) WITHOUT ROWID")
        self._objects: Iterator[FileInfo] | None = None
        self._removed = self._kept = self._freed = 0

    def stat(self) -> BlobStat:
        sizes = [each.size for each in self._place.walk(PAGES)]
        return BlobStat(len(sizes), None, sum(sizes), 0, len(sizes))

    def begin(self, now: int) -> None:
        """Take the lock. `now` is the time by the clock of the place. Raises `Conflict` if another process collects."""
        there = self._place.find(LOCK)
        if there is not None and now - there.modified_ms > LOCK_MS:
            self._place.delete(LOCK)
        if not self._place.create(LOCK, b""):
            raise Conflict("Another process collects unused pages in this place. Try again when it has finished.")
        self._locked = True

    def end(self) -> None:
        self._marks.close()
        if self._locked:
            self._place.delete(LOCK)

    def mark(self, blobs: Sequence[str]) -> None:
        """Mark pages that something refers to."""
        digests = ((bytes.fromhex(blob.partition(":")[2]),) for blob in blobs if is_blob(blob))
        with self._marks:
            self._marks.executemany("INSERT OR IGNORE INTO marked VALUES (?)", digests)

    def sweep(self, now: int, grace_ms: int, days_ms: int | None) -> bool:
        """Check some pages and remove those that nothing refers to. `now` is the time by the clock of the place, or a
        moment before. Returns False when all have been checked."""
        if self._objects is None:
            self._objects = self._place.walk(PAGES)
        some = list(islice(self._objects, AT_ONCE))
        marked = self._marked(some)
        for each in some:
            limit = days_ms if each.path in marked else grace_ms
            old = limit is not None and now - each.modified_ms > limit
            if old and (self._dry_run or self._remove(each)):
                self._removed += 1
                self._freed += each.size
            else:
                self._kept += 1
        return bool(some)

    def result(self) -> Collected:
        files = 0 if self._dry_run else self._removed
        return Collected(self._removed, self._kept, self._freed, files, dry_run=self._dry_run)

    def _marked(self, some: Sequence[FileInfo]) -> set[str]:
        digests = {name: each.path for each in some if (name := _digest(each.path)) is not None}
        holes = ",".join("?" * len(digests))
        rows = self._marks.execute(f"SELECT digest FROM marked WHERE digest IN ({holes})", list(digests))
        return {digests[row[0]] for row in rows}

    def _remove(self, seen: FileInfo) -> bool:
        now = self._place.find(seen.path)
        # To the second: in lists, some servers are more exact.
        if now is None or now.modified_ms // 1000 != seen.modified_ms // 1000:
            return False
        self._place.delete(seen.path)
        return True


def _digest(path: str) -> bytes | None:
    try:
        return bytes.fromhex(path.rpartition("/")[2])
    except ValueError:
        return None
