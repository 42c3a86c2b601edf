"""`Database` on SQLite: what is not a hot path reads on connections of its own and writes through the one writer.

The loop itself reads nothing but what was just written: anything else may have to wait for a disk.
"""

import asyncio
import sqlite3
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from forager.core.database import Dialect, Row
from forager.ledger.sqlite.writer import Writer, connect, translated

READERS = 2


class SqliteDatabase:
    """Reads on connections of their own: in a few threads, on the loop what is fresh. Writes through the writer."""

    dialect: Dialect = "sqlite"

    def __init__(self, path: Path, writer: Writer) -> None:
        self._path = path
        self._writer = writer
        self._local = threading.local()
        self._pool = ThreadPoolExecutor(READERS, thread_name_prefix="ledger-reader")
        self._near: sqlite3.Connection | None = None
        self._open: list[sqlite3.Connection] = []

    @property
    def is_busy(self) -> bool:
        """Whether a command is with the writer: simulated time must not pass meanwhile."""
        return self._writer.pending > 0

    async def fetch(self, sql: str, values: Mapping[str, Any] | None = None) -> Sequence[Row]:
        return await asyncio.get_running_loop().run_in_executor(self._pool, self._read, sql, dict(values or {}))

    async def fetch_fresh(self, sql: str, values: Mapping[str, Any] | None = None) -> Sequence[Row]:
        """Here and now: no disk is asked, and to hand it to a thread would take the loop longer."""
        try:
            if self._near is None:
                self._near = connect(self._path, read_only=True, timeout=0)
                self._open.append(self._near)
            return _rows(self._near.execute(sql, dict(values or {})))
        except sqlite3.Error:  # busy, say: a thread may wait for it, or tell what is wrong
            return await self.fetch(sql, values)

    async def write(self, sql: str, values: Mapping[str, Any] | None = None) -> Sequence[Row]:
        return await self._writer.run(lambda db: _rows(db.execute(sql, dict(values or {}))))

    def _read(self, sql: str, values: dict[str, Any]) -> list[Row]:
        db: sqlite3.Connection | None = getattr(self._local, "db", None)
        try:
            if db is None:
                db = self._local.db = connect(self._path, read_only=True)
                self._open.append(db)
            return _rows(db.execute(sql, values))
        except sqlite3.Error as error:
            raise translated(error) from error

    def close(self) -> None:
        self._pool.shutdown(wait=True)
        for db in self._open:
            db.close()


def _rows(cursor: sqlite3.Cursor) -> list[Row]:
    names = [column[0] for column in cursor.description or ()]
    return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]
