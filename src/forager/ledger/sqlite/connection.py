"""The one writer thread, with group commit. Commands that arrive while others run are committed with them; those that
arrive during a commit are committed together next.

Durability costs one `fsync` per group, not per command. A command that fails is rolled back alone, to its savepoint;
the others of its group continue. Commands that do the same for different items may be handled by one call for all
waiting items.
"""

import asyncio
import contextlib
import queue
import re
import sqlite3
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from itertools import chain
from pathlib import Path
from typing import Any, TypeVar

import orjson

from forager.core.clock import Faults
from forager.core.database import Dialect, Row
from forager.core.errors import StoreError, StoreFull, StoreUnavailable
from forager.core.ledger import JobNews
from forager.ledger.rules.changes import collect_news, news_so_far
from forager.ledger.rules.jobs import QueuedCommand, take_step

T = TypeVar("T")
Item = TypeVar("Item")
Command = Callable[[sqlite3.Connection], Any]
Done = tuple[asyncio.Future[Any], Any, BaseException | None]

MOST_IN_A_GROUP = 256
FOLLOWED_WITHIN = 0.0005
"""Seconds for which a commit waits for the next command: less than the `fsync` that it saves."""


def connect(path: Path, *, read_only: bool = False, timeout: float = 10) -> sqlite3.Connection:
    db = sqlite3.connect(path, isolation_level=None, check_same_thread=False, cached_statements=512, timeout=timeout)
    db.execute("PRAGMA journal_mode=WAL")
    db.execute("PRAGMA synchronous=FULL")
    db.execute("PRAGMA foreign_keys=ON")
    db.execute("PRAGMA temp_store=MEMORY")
    # A bigger cache makes nothing faster here, the system's own cache is as good; it only makes the process bigger.
    db.execute("PRAGMA cache_size=-16384")
    # Keys are spread over their indexes, so a commit touches many pages; few checkpoints write each of them once.
    db.execute("PRAGMA wal_autocheckpoint=16000")
    if read_only:
        db.execute("PRAGMA query_only=ON")
    return db


class Writer:
    def __init__(self, db: sqlite3.Connection, faults: Faults, on_rollback: Command) -> None:
        """`on_rollback` repairs in-memory state after writes that were rolled back."""
        self.db = db
        self._loop = asyncio.get_running_loop()
        self._faults = faults
        self._on_rollback = on_rollback
        self._remembers_wrongly = False
        self._closing = False
        self.pending = 0
        """Commands whose result the loop has not seen yet; counted only on the loop."""
        self._commands: queue.SimpleQueue[QueuedCommand | None] = queue.SimpleQueue()
        self._waiting: deque[QueuedCommand] = deque()
        """Commands that the thread has taken from the queue and not started."""
        self.tell: Callable[[Sequence[JobNews]], None] | None = None
        """Called on the loop with what a commit has done to jobs."""
        self._start()

    async def run(self, command: Callable[[sqlite3.Connection], T], *, followed: bool = False) -> T:
        """Run a command in the next transaction. Returns when that is synced to disk.

        `followed`: the command causes another one to be sent at once, and the commit waits a moment for it.
        """
        result: T = await self._ask(command, (), followed)
        return result

    async def run_together(
        self, command: Callable[[sqlite3.Connection, Sequence[Item]], Sequence[T]], item: Item, *, followed: bool
    ) -> T:
        """Like `run`, but one call handles all items that wait for this command, and returns a result for each.

        If it fails, it is rolled back and called for each item alone.
        """
        result: T = await self._ask(command, (item,), followed)
        return result

    def _ask(self, command: Callable[..., Any], items: tuple[Any, ...], followed: bool) -> asyncio.Future[Any]:
        if self._closing or not self._is_alive():
            raise StoreUnavailable("The ledger is closed.")
        future: asyncio.Future[Any] = self._loop.create_future()
        self.pending += 1
        self._commands.put(QueuedCommand(command, items, future, followed))
        self._arrived()
        return future

    async def close(self) -> None:
        self._closing = True
        self._commands.put(None)
        self._arrived()
        await self._ended()
        self.db.close()

    # What is done in a thread. A simulation replaces these four, and calls `_work_on` itself.

    def _start(self) -> None:
        self._thread = threading.Thread(target=self._work, name="ledger-writer", daemon=True)
        self._thread.start()

    def _is_alive(self) -> bool:
        return self._thread.is_alive()

    def _arrived(self) -> None:
        """Called after every command; the thread waits for them by itself."""

    async def _ended(self) -> None:
        """Wait until all commands are committed and the thread has ended."""
        await asyncio.to_thread(self._thread.join)

    def _work(self) -> None:
        while self._waiting or self._take():
            self._work_on()

    def _work_on(self) -> None:
        """Commit one group."""
        news = collect_news()
        done = self._commit()
        self._loop.call_soon_threadsafe(self._resolve, done, news)

    def _resolve(self, done: list[Done], news: list[JobNews]) -> None:
        if news and self.tell is not None:
            self.tell(news)
        self.pending -= len(done)
        for future, result, error in done:
            if future.done():
                continue
            if error is None:
                future.set_result(result)
            else:
                future.set_exception(error)

    def _take(self, timeout: float | None = None) -> bool:
        """Take all commands that have arrived; if none has, wait for one. Returns False if none came in time, or the
        writer is closed."""
        while True:
            try:
                asked = self._commands.get(timeout=0 if self._waiting else timeout)
            except queue.Empty:
                break
            if asked is None:
                self._commands.put(None)  # nothing can come after it: the thread ends when all before it is committed
                break
            self._waiting.append(asked)
        return bool(self._waiting)

    def _steps(self, begun: list[QueuedCommand]) -> Iterator[list[QueuedCommand]]:
        """Yield the next steps from everything that has arrived by then."""
        while (room := MOST_IN_A_GROUP - len(begun)) and self._take(
            FOLLOWED_WITHIN if begun and begun[-1].followed else 0
        ):
            step = take_step(self._waiting, room)
            begun += step
            yield step

    def _commit(self) -> list[Done]:
        """Run and commit a group of waiting commands, including those that arrive meanwhile. If the group is lost,
        commands not started stay in the queue."""
        begun: list[QueuedCommand] = []
        done: list[Done] = []
        db = self.db
        try:
            self._remember_rightly()
            db.execute("BEGIN IMMEDIATE")
            for step in self._steps(begun):
                done += self._run_step(step)
            self._faults.at("before-commit")
            db.execute("COMMIT")
            self._faults.at("after-commit")
        except BaseException as error:  # noqa: BLE001 - the thread must survive whatever a commit raises
            self._remembers_wrongly = True
            news_so_far().clear()
            with contextlib.suppress(sqlite3.Error):
                if db.in_transaction:
                    db.execute("ROLLBACK")
            lost = translated(error)
            return [(asked.future, None, lost) for asked in begun or [self._waiting.popleft()]]
        return done

    def _remember_rightly(self) -> None:
        """Rebuild in-memory state after a lost group, before the next one: by then a full disk may have space again."""
        if self._remembers_wrongly:
            if self.db.in_transaction:
                self.db.execute("ROLLBACK")
            self._on_rollback(self.db)
            self._remembers_wrongly = False

    def _run_step(self, step: list[QueuedCommand]) -> list[Done]:
        db, first = self.db, step[0]
        db.execute("SAVEPOINT command")
        before, news = db.total_changes, news_so_far()
        heard = len(news)
        try:
            if first.items:
                results = first.command(db, [item for asked in step for item in asked.items])
            else:
                results = [first.command(db)]
        except BaseException as error:  # passed to the waiting caller
            if not db.in_transaction:
                raise  # SQLite rolled back the whole group by itself (disk full)
            del news[heard:]
            db.execute("ROLLBACK TO command")
            db.execute("RELEASE command")
            if db.total_changes != before:
                self._on_rollback(db)
            if len(step) > 1:
                return [done for asked in step for done in self._run_step([asked])]
            return [(first.future, None, translated(error))]
        db.execute("RELEASE command")
        return [(asked.future, result, None) for asked, result in zip(step, results, strict=True)]


def translated(error: BaseException) -> BaseException:
    """Translate SQLite's errors to ours."""
    if not isinstance(error, sqlite3.Error):
        return error
    message = str(error)
    if getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_FULL:
        return StoreFull(
            f"The disk that holds the ledger is full ({message}). Free some space; work then resumes by itself."
        )
    if "I/O" in message or "locked" in message or "unable to open" in message or "malformed" in message:
        return StoreUnavailable(f"The ledger's file does not answer: {message}. Run `forager doctor`.")
    return StoreError(f"The ledger refused a statement: {message}")


# `Database` on SQLite, for everything that is not a hot path: reads on separate connections, writes through the one
# writer.
#
# The event loop itself reads only what was just written, because anything else may have to wait for the disk.


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
        """Return whether a command is with the writer: simulated time must not pass meanwhile."""
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


# Inserts many rows. A statement per row would cost more than the row itself, so rows are inserted 64 at a time, the
# rest by powers of two.
#
# A value that is the same in all rows is bound once per statement, because binding costs more than the row as well.


TOGETHER = 64
MANY = 500
"""Rows per statement when thousands are written while another thread is busy, because each statement must reacquire the
interpreter. Preparing such a statement takes 12 ms and half a megabyte, once per pattern of shared values."""


def insert_many(
    db: sqlite3.Connection,
    into: str,
    rows: Sequence[Sequence[Any]],
    on_conflict: str = "",
    *,
    together: int = TOGETHER,
) -> None:
    """Insert rows, in their order. `into` names the table and its columns: "lanes (id, name)"."""
    first = len(rows) - len(rows) % together
    if first:
        _insert_blocks(db, into, list(zip(*rows, strict=True)), first, on_conflict, together)
    while rest := len(rows) - first:
        some = 1 << rest.bit_length() - 1
        statement = _statement(into, (_DIFFERENT,) * len(rows[0]), some, on_conflict)
        db.execute(statement, list(chain.from_iterable(rows[first : first + some])))
        first += some


def _insert_blocks(
    db: sqlite3.Connection, into: str, columns: Sequence[Sequence[Any]], count: int, on_conflict: str, together: int
) -> None:
    same = tuple([_all_same(column) for column in columns])
    shared = [column[0] for column, alike in zip(columns, same, strict=True) if alike is _SAME]
    differ = [column for column, alike in zip(columns, same, strict=True) if alike is _DIFFERENT]
    statement = _statement(into, same, together, on_conflict)
    for start in range(0, count, together):
        block = zip(*[column[start : start + together] for column in differ], strict=True)
        db.execute(statement, [*shared, *chain.from_iterable(block)])


def _all_same(column: Sequence[Any]) -> str:
    """Classify a column of a block. Values that Python considers equal are the same here: the affinity of a column
    gives them one type."""
    if column.count(column[0]) < len(column):
        return _DIFFERENT
    return _EMPTY if column[0] is None else _SAME


@lru_cache(maxsize=256)
def _statement(into: str, same: tuple[str, ...], rows: int, on_conflict: str) -> str:
    """Parameters: of each column that is the same in all rows its value, then the others, row by row."""
    shared = [alike is _SAME and same[: number + 1].count(_SAME) for number, alike in enumerate(same)]
    values, given = [], same.count(_SAME)
    for _ in range(rows):
        row = []
        for number, alike in zip(shared, same, strict=True):
            given += alike is _DIFFERENT
            row.append("NULL" if alike is _EMPTY else f"?{number or given}")
        values.append(f"({', '.join(row)})")
    return f"INSERT INTO {into} VALUES {', '.join(values)} {on_conflict}".rstrip()


_DIFFERENT, _SAME, _EMPTY = "different", "same", "empty"
"""Values of one column in a block of rows: different values, one shared value, or NULL."""
