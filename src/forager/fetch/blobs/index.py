"""The index of stored pages: one small SQLite file beside the segments.

The segments are authoritative: a lost index can be rebuilt from them. So it is written many pages at a time and without
waiting for the disk. Several processes may use it at once. All times are Unix milliseconds.
"""

import sqlite3
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from forager.fetch.blobs.segments import Place

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


class Entry(NamedTuple):
    digest: bytes
    place: Place
    size: int
    used_at: int


class SegmentRow(NamedTuple):
    number: int
    indexed: int
    live: int
    sealed: bool


class Index:
    """Used by one thread."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / NAME
        self._connection = self._open()

    def close(self) -> None:
        self._connection.close()

    # ── pages ──

    def find(self, digest: bytes) -> Entry | None:
        row = self._connection.execute(
            "SELECT segment, offset, length, size, used_at FROM blobs WHERE digest = ?", (digest,)
        ).fetchone()
        return Entry(digest, Place(row[0], row[1], row[2]), row[3], row[4]) if row else None

    def use(self, digest: bytes, now: int) -> bool:
        """Mark a page as used. Returns False if it has been removed meanwhile."""
        with self._connection:
            return self._connection.execute(
                "UPDATE blobs SET used_at = ? WHERE digest = ?", (now, digest)
            ).rowcount > 0  # fmt: skip

    def add(self, entries: Sequence[Entry], segment: int, indexed: int) -> None:
        """Add pages of one segment, and record how far it is indexed. Pages that are already indexed are not
        changed."""
        with self._connection:
            new = self._insert(entries)
            self._connection.execute(
                "INSERT INTO segments (number, indexed, live) VALUES (?, ?, ?)"
                " ON CONFLICT (number) DO UPDATE SET indexed = MAX(indexed, excluded.indexed), live = live + ?",
                (segment, indexed, new, new),
            )

    def move(self, moves: Iterable[tuple[bytes, Place, Place]]) -> None:
        """Record that pages were moved. A page that was removed or moved meanwhile is not changed."""
        with self._connection:
            for digest, old, new in moves:
                moved = self._connection.execute(
                    "UPDATE blobs SET segment = ?, offset = ? WHERE digest = ? AND segment = ? AND offset = ?",
                    (new.segment, new.offset, digest, old.segment, old.offset),
                ).rowcount
                self._count_live(new.segment, new.length * moved)
                self._count_live(old.segment, -old.length * moved)

    def remove(self, digests: Iterable[bytes], *, used_before: int | None = None) -> int:
        """Remove pages that have not been used since. Returns how many."""
        removed = 0
        with self._connection:
            for digest in digests:
                row = self._connection.execute(
                    "DELETE FROM blobs WHERE digest = ? AND used_at < ? RETURNING segment, length",
                    (digest, used_before if used_before is not None else 1 << 62),
                ).fetchone()
                if row:
                    removed += 1
                    self._count_live(row[0], -row[1])
        return removed

    def page(self, after: bytes, limit: int) -> list[Entry]:
        """Return a page of entries, sorted by digest."""
        rows = self._connection.execute(
            "SELECT digest, segment, offset, length, size, used_at FROM blobs WHERE digest > ? ORDER BY digest LIMIT ?",
            (after, limit),
        )
        return [Entry(row[0], Place(row[1], row[2], row[3]), row[4], row[5]) for row in rows]

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

    def _insert(self, entries: Sequence[Entry]) -> int:
        """Insert the pages that are not indexed yet. Returns their bytes."""
        before = self._connection.total_changes
        statement = "INSERT OR IGNORE INTO blobs VALUES (?, ?, ?, ?, ?, ?)"
        self._connection.executemany(statement, ((e.digest, *e.place, e.size, e.used_at) for e in entries))
        if self._connection.total_changes - before == len(entries):
            return sum(entry.place.length for entry in entries)
        return sum(entry.place.length for entry in entries if self._is_at(entry))

    def _is_at(self, entry: Entry) -> bool:
        place = self.find(entry.digest)
        return place is not None and place.place == entry.place

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
