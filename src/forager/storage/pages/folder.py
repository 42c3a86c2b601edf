"""A folder of stored pages, used by one thread: store, find, read, recover. It blocks and raises `OSError`s;
`LocalBlobs` keeps it off the event loop and translates them.

A page survives a crash of the process as soon as its frame is written. The index follows a moment later, for many pages
at once; pages that are not indexed yet are read from the end of the segment when the folder is opened again.
"""

import contextlib
import os
import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple
from uuid import uuid4

from forager.core.errors import BlobMissing
from forager.core.http import Response
from forager.core.storage import Storage
from forager.storage.pages.segments import SEGMENT_BYTES, FrameAt, Packer, Segments, blob_url, digest_of, private

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
        self.index = PageIndex(folder)
        self.now = now
        self._fresh_ms = fresh_ms
        self._packer = Packer()
        self._unindexed: dict[bytes, IndexedPage] = {}
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
            at = self.append(self._packer.pack(digest, response))
            self._unindexed[digest] = IndexedPage(digest, at, len(response.body), now)
            if len(self._unindexed) % INDEXED_TOGETHER == 0:
                self.flush_if_possible()
        return blob_url(digest)

    def read(self, digest: bytes) -> Response:
        """Read an answer. A damaged page is removed from the index, so that it can be stored again. Raises
        `BlobMissing`."""
        damaged: list[FrameAt] = []
        for at in self._positions(digest):
            frame = self.segments.read(at)
            response = self._packer.unpack(digest, frame) if frame is not None else None
            if response is not None:
                return response
            self.segments.forget(at.segment)
            damaged.append(at)
        self._unindexed.pop(digest, None)
        for at in damaged:
            self.index.remove([digest], at=at)
        raise BlobMissing(f"The stored page {blob_url(digest)} is gone or damaged. Fetch it again.")

    def append(self, frame: bytes) -> FrameAt:
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

    def _positions(self, digest: bytes) -> Iterator[FrameAt]:
        """Yield where a page may be: as indexed, moved by another process since, or written by it a moment ago."""
        waiting = self._unindexed.get(digest)
        if waiting is not None:
            yield waiting.at
            return
        tried: set[FrameAt] = set()
        for _ in range(3):
            entry = self.index.find(digest)
            if entry is None:
                yield from self._in_foreign_tails(digest)
                # Its process may have indexed it after the look at the index and before the one at the segments.
                entry = self.index.find(digest)
            if entry is None or entry.at in tried:
                return
            tried.add(entry.at)
            yield entry.at

    def _in_foreign_tails(self, digest: bytes) -> Iterator[FrameAt]:
        known = self.index.segments()
        for number in self.segments.numbers():
            row = known.get(number)
            if number != self.segments.own and not (row and row.sealed):
                for at, header in self.segments.frames(number, row.indexed if row else 0, verify=False):
                    if header.digest == digest:
                        yield at

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

    def note_moved(self, moves: Sequence[tuple[bytes, FrameAt, FrameAt]]) -> None:
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
        entries: list[IndexedPage] = []
        for at, header in self.segments.frames(number, indexed):
            entries.append(IndexedPage(header.digest, at, header.size, now))
            end = at.offset + at.length
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


# The id of a store of stored pages (a folder, or an address in S3), kept in a file inside it.
#
# The ledger keeps the same id. A process whose store has another one would keep pages where other machines cannot read
# them, and could not read theirs. In S3, a collection would also remove the pages of another ledger.


FILE = "folder.id"
LONGEST = 100


def new_storage_id(where: str) -> str:
    """Return a new id for an S3 address. It contains the address, so that the ledger alone shows which one it means."""
    return f"{uuid4()}@{where}"


def read_storage_id(storage: Storage) -> str | None:
    """Return the id of a storage; None if it has none yet."""
    try:
        return storage.get(FILE).decode("utf-8", "replace").strip() or None
    except FileNotFoundError:
        return None


def give_storage_id(storage: Storage, wanted: str) -> str | None:
    """Give a storage this id, unless it has one. Returns the one that it has then."""
    storage.create(FILE, wanted.encode())
    return read_storage_id(storage)


def read_folder_id(folder: Path) -> str | None:
    """Return the id of a folder; None if it has none yet, or does not exist."""
    try:
        text = (folder / FILE).read_text("ascii", errors="replace")
    except (FileNotFoundError, NotADirectoryError):
        return None
    return text[:LONGEST].strip() or None


def make_folder_id(folder: Path) -> str:
    """Return the id of a folder. One without an id gets a new one; if several processes or threads do this at once,
    they all return the same."""
    known = read_folder_id(folder)
    if known is not None:
        return known
    for each in (folder.parent, folder):
        each.mkdir(parents=True, exist_ok=True, mode=0o700)
    made = uuid4()
    fresh = folder / f"{FILE}.{made}"  # threads share a process id, so the name is that of the new id
    fresh.write_text(f"{made}\n", "ascii")
    try:
        with contextlib.suppress(FileExistsError):
            os.link(fresh, folder / FILE)  # fails if another process was first, so that the file is never replaced
    finally:
        fresh.unlink()
    return (folder / FILE).read_text("ascii").strip()


# The index of stored pages: one small SQLite file next to the segments.
#
# The segments are authoritative: a lost index can be rebuilt from them. So it is written many pages at a time, without
# waiting for the disk. Several processes may use it at once. All times are Unix milliseconds.


NAME = "index.db"
_BUSY_MS = 10_000
_SCHEMA = """
CREATE TABLE IF NOT EXISTS blobs (
    digest BLOB PRIMARY KEY, segment INTEGER NOT NULL, offset INTEGER NOT NULL, length INTEGER NOT NULL,
    size INTEGER NOT NULL, used_at INTEGER NOT NULL
) WITHOUT ROWID;
-- `indexed`: up to where its frames are in `blobs`; `live`: how many of its bytes belong to them.
CREATE TABLE IF NOT EXISTS segments (
    number INTEGER PRIMARY KEY, indexed INTEGER NOT NULL, live INTEGER NOT NULL, sealed INTEGER NOT NULL DEFAULT 0
);
"""


class IndexedPage(NamedTuple):
    digest: bytes
    at: FrameAt
    size: int
    used_at: int


class SegmentRow(NamedTuple):
    number: int
    indexed: int
    live: int
    sealed: bool


class PageIndex:
    """Used by one thread."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / NAME
        self._connection = self._open()

    def close(self) -> None:
        self._connection.close()

    # ── pages ──

    def find(self, digest: bytes) -> IndexedPage | None:
        row = self._connection.execute(
            "SELECT segment, offset, length, size, used_at FROM blobs WHERE digest = ?", (digest,)
        ).fetchone()
        return IndexedPage(digest, FrameAt(row[0], row[1], row[2]), row[3], row[4]) if row else None

    def use(self, digest: bytes, now: int) -> bool:
        """Mark a page as used. Returns False if it has been removed meanwhile."""
        with self._connection:
            return self._connection.execute(
                "UPDATE blobs SET used_at = ? WHERE digest = ?", (now, digest)
            ).rowcount > 0  # fmt: skip

    def add(self, entries: Sequence[IndexedPage], segment: int, indexed: int) -> None:
        """Add pages of one segment, and record how far it is indexed. Pages that are already indexed are not
        changed."""
        with self._connection:
            new = self._insert(entries)
            self._connection.execute(
                "INSERT INTO segments (number, indexed, live) VALUES (?, ?, ?)"
                " ON CONFLICT (number) DO UPDATE SET indexed = MAX(indexed, excluded.indexed), live = live + ?",
                (segment, indexed, new, new),
            )

    def move(self, moves: Iterable[tuple[bytes, FrameAt, FrameAt]]) -> None:
        """Record that pages were moved. A page that was removed or moved meanwhile is not changed."""
        with self._connection:
            for digest, old, new in moves:
                moved = self._connection.execute(
                    "UPDATE blobs SET segment = ?, offset = ? WHERE digest = ? AND segment = ? AND offset = ?",
                    (new.segment, new.offset, digest, old.segment, old.offset),
                ).rowcount
                self._count_live(new.segment, new.length * moved)
                self._count_live(old.segment, -old.length * moved)

    def remove(self, digests: Iterable[bytes], *, used_before: int | None = None, at: FrameAt | None = None) -> int:
        """Remove pages that have not been used since; with `at`, only where the index still says that they are there.
        Returns how many."""
        removed = 0
        there, place = (" AND segment = ? AND offset = ?", (at.segment, at.offset)) if at else ("", ())
        with self._connection:
            for digest in digests:
                row = self._connection.execute(
                    f"DELETE FROM blobs WHERE digest = ? AND used_at < ?{there} RETURNING segment, length",
                    (digest, used_before if used_before is not None else 1 << 62, *place),
                ).fetchone()
                if row:
                    removed += 1
                    self._count_live(row[0], -row[1])
        return removed

    def page(self, after: bytes, limit: int) -> list[IndexedPage]:
        """Return a page of entries, sorted by digest."""
        rows = self._connection.execute(
            "SELECT digest, segment, offset, length, size, used_at FROM blobs WHERE digest > ? ORDER BY digest LIMIT ?",
            (after, limit),
        )
        return [IndexedPage(row[0], FrameAt(row[1], row[2], row[3]), row[4], row[5]) for row in rows]

    def totals(self) -> tuple[int, int, int]:
        """Return the number of pages, and their bytes uncompressed and compressed."""
        row = self._connection.execute("SELECT COUNT(*), COALESCE(SUM(size), 0), COALESCE(SUM(length), 0) FROM blobs")
        pages, size, stored = row.fetchone()
        return pages, size, stored

    # ── segments ──

    def segments(self) -> dict[int, SegmentRow]:
        rows = self._connection.execute("SELECT number, indexed, live, sealed FROM segments")
        return {row[0]: SegmentRow(row[0], row[1], row[2], bool(row[3])) for row in rows}

    def seal(self, number: int, indexed: int) -> None:
        with self._connection:
            self._connection.execute(
                "INSERT INTO segments (number, indexed, live, sealed) VALUES (?, ?, 0, 1)"
                " ON CONFLICT (number) DO UPDATE SET sealed = 1, indexed = excluded.indexed",
                (number, indexed),
            )

    def drop_segment(self, number: int) -> None:
        with self._connection:
            self._connection.execute("DELETE FROM segments WHERE number = ?", (number,))

    # ── what is referred to, while a collection runs ──

    def begin_marks(self) -> None:
        """Create the table of marks in a temporary file, not in memory: there may be millions."""
        self._connection.execute("DROP TABLE IF EXISTS temp.marked")
        self._connection.execute("CREATE TEMP TABLE marked (digest BLOB PRIMARY KEY) WITHOUT ROWID")

    def mark(self, digests: Iterable[bytes]) -> None:
        with self._connection:
            self._connection.executemany("INSERT OR IGNORE INTO temp.marked VALUES (?)", ((each,) for each in digests))

    def marked(self, digests: Sequence[bytes]) -> set[bytes]:
        holes = ",".join("?" * len(digests))
        rows = self._connection.execute(f"SELECT digest FROM temp.marked WHERE digest IN ({holes})", digests)
        return {row[0] for row in rows}

    def end_marks(self) -> None:
        self._connection.execute("DROP TABLE IF EXISTS temp.marked")

    # ── inside ──

    def _insert(self, entries: Sequence[IndexedPage]) -> int:
        """Insert the pages that are not indexed yet. Returns their bytes."""
        before = self._connection.total_changes
        statement = "INSERT OR IGNORE INTO blobs VALUES (?, ?, ?, ?, ?, ?)"
        self._connection.executemany(statement, ((e.digest, *e.at, e.size, e.used_at) for e in entries))
        if self._connection.total_changes - before == len(entries):
            return sum(entry.at.length for entry in entries)
        return sum(entry.at.length for entry in entries if self._is_at(entry))

    def _is_at(self, entry: IndexedPage) -> bool:
        found = self.find(entry.digest)
        return found is not None and found.at == entry.at

    def _count_live(self, segment: int, by: int) -> None:
        self._connection.execute("UPDATE segments SET live = live + ? WHERE number = ?", (by, segment))

    def _open(self) -> sqlite3.Connection:
        try:
            return _connected(self._path)
        except sqlite3.OperationalError:  # no space, no permission, locked: the file is not damaged
            raise
        except sqlite3.DatabaseError:
            self._path.rename(self._path.with_name(f"{NAME}.damaged-{time.time_ns()}"))
            for rest in ("-wal", "-shm"):
                self._path.with_name(NAME + rest).unlink(missing_ok=True)
            return _connected(self._path)


def _connected(path: Path) -> sqlite3.Connection:
    os.close(private(str(path), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC))
    connection = sqlite3.connect(path, timeout=_BUSY_MS / 1000, check_same_thread=False)
    try:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = NORMAL")  # syncs only at checkpoints
        connection.execute("PRAGMA temp_store = FILE")
        connection.executescript(_SCHEMA)
        connection.execute("SELECT digest FROM blobs LIMIT 1").fetchone()
    except sqlite3.DatabaseError:
        connection.close()
        raise
    return connection
