"""`Database` on SQLite, for everything that is not a hot path: reads on separate connections, writes through the one
writer.

The event loop itself reads only what was just written, because anything else may have to wait for the disk.
"""

import asyncio
import re
import sqlite3
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar

import orjson

from forager.core.database import Dialect, Row
from forager.ledger.sqlite.writer import Writer, connect, translated

T = TypeVar("T")
READERS = 2


class SqliteDatabase:
    """Reads on separate connections: in a few threads, or on the loop if the rows are fresh. Writes through the
    writer."""

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
        return await self._in_thread(_rows, sql, values)

    async def fetch_tuples(self, sql: str, values: Mapping[str, Any] | None = None) -> Sequence[Any]:
        return await self._in_thread(sqlite3.Cursor.fetchall, sql, values)

    async def fetch_by_keys(self, sql: str, keys: Mapping[str, Sequence[str]]) -> Sequence[Row]:
        lists = {name: orjson.dumps(list(values)).decode() for name, values in keys.items()}
        return await self.fetch(_with_lists(sql), lists)

    async def fetch_by_words(self, sql: str, values: Mapping[str, Any] | None = None) -> Sequence[Row]:
        return await self.fetch(sql, values)

    async def fetch_fresh(self, sql: str, values: Mapping[str, Any] | None = None) -> Sequence[Row]:
        """Read on the event loop: the rows are in the cache, and a thread would take longer."""
        try:
            if self._near is None:
                self._near = connect(self._path, read_only=True, timeout=0)
                self._open.append(self._near)
            return _rows(self._near.execute(sql, dict(values or {})))
        except sqlite3.Error:  # for example busy: a thread may wait for it, or report the error
            return await self.fetch(sql, values)

    async def write(self, sql: str, values: Mapping[str, Any] | None = None) -> Sequence[Row]:
        return await self._writer.run(lambda db: _rows(db.execute(sql, dict(values or {}))))

    async def _in_thread(
        self, take: Callable[[sqlite3.Cursor], list[T]], sql: str, values: Mapping[str, Any] | None
    ) -> list[T]:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._pool, self._read, take, sql, dict(values or {}))

    def _read(self, take: Callable[[sqlite3.Cursor], list[T]], sql: str, values: dict[str, Any]) -> list[T]:
        db: sqlite3.Connection | None = getattr(self._local, "db", None)
        try:
            if db is None:
                db = self._local.db = connect(self._path, read_only=True)
                self._open.append(db)
            return take(db.execute(sql, values))
        except sqlite3.Error as error:
            raise translated(error) from error

    def close(self) -> None:
        self._pool.shutdown(wait=True)
        for db in self._open:
            db.close()


def _rows(cursor: sqlite3.Cursor) -> list[Row]:
    names = [column[0] for column in cursor.description or ()]
    return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]


@lru_cache(maxsize=256)
def _with_lists(sql: str) -> str:
    return re.sub(r"\bIN (:[A-Za-z_]\w*)", r"IN (SELECT value FROM json_each(\1))", sql)
