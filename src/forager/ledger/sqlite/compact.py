"""Rewrites the file of an embedded store without its free space. No other process may have it open."""

import contextlib
import sqlite3
from pathlib import Path

from forager.ledger.sqlite.writer import translated


def compact(path: Path) -> tuple[int, int]:
    """Rewrite the file, laid out so that retention can return space from now on. Returns its size before and after.

    Needs as much free space on the disk as the store has data. A kill leaves the store as it was.
    """
    before = path.stat().st_size
    try:
        with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as db:
            db.execute("PRAGMA synchronous=FULL")
            db.execute("PRAGMA auto_vacuum=INCREMENTAL")
            db.execute("VACUUM")
            db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    except sqlite3.Error as error:
        raise translated(error) from error
    return before, path.stat().st_size
