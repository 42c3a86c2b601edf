"""The one thread that writes. Commands that arrive while others run are committed with them, those that arrive while it
commits together next time.

Durability costs one `fsync` per group, not per command. A command that fails is undone alone, by its savepoint; the
others of its group go on.
"""

import asyncio
import contextlib
import queue
import sqlite3
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

from forager.core.errors import StoreError, StoreFull, StoreUnavailable
from forager.core.faults import Faults

T = TypeVar("T")
Command = Callable[[sqlite3.Connection], Any]
Asked = tuple[Command, asyncio.Future[Any], bool]

MOST_IN_A_GROUP = 256
FOLLOWED_WITHIN = 0.0005
"""Seconds for which a commit waits for the command that is likely to follow: less than the `fsync` that it saves."""


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
        """`on_rollback` mends what was remembered of writes that did not happen."""
        self.db = db
        self._loop = asyncio.get_running_loop()
        self._faults = faults
        self._on_rollback = on_rollback
        self._remembers_wrongly = False
        self._closing = False
        self._commands: queue.SimpleQueue[Asked | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._work, name="ledger-writer", daemon=True)
        self._thread.start()

    async def run(self, command: Callable[[sqlite3.Connection], T], *, followed: bool = False) -> T:
        """Run a command in the next transaction; returns when that is on the disk.

        `followed`: it makes somebody send another one at once, and the commit waits a moment for that.
        """
        if self._closing or not self._thread.is_alive():
            raise StoreUnavailable("The ledger is closed.")
        future: asyncio.Future[T] = self._loop.create_future()
        self._commands.put((command, future, followed))
        return await future

    async def close(self) -> None:
        self._closing = True
        self._commands.put(None)
        await asyncio.to_thread(self._thread.join)
        self.db.close()

    def _work(self) -> None:
        while (first := self._commands.get()) is not None:
            done = self._commit([first])
            self._loop.call_soon_threadsafe(_resolve, done)

    def _growing(self, group: list[Asked]) -> Iterator[Asked]:
        """Those of the group, and each that has come by the time that those before it are done."""
        yield from group
        while len(group) < MOST_IN_A_GROUP:
            try:
                more = self._commands.get(timeout=FOLLOWED_WITHIN if group[-1][2] else 0)
            except queue.Empty:
                return
            if more is None:
                self._commands.put(None)  # nothing can come after it: the thread ends when this group is committed
                return
            group.append(more)
            yield more

    def _commit(self, group: list[Asked]) -> list[tuple[asyncio.Future[Any], Any, BaseException | None]]:
        done: list[tuple[asyncio.Future[Any], Any, BaseException | None]] = []
        db = self.db
        try:
            self._remember_rightly()
            db.execute("BEGIN IMMEDIATE")
            for command, future, _ in self._growing(group):
                done.append((future, *self._run_one(command)))
            self._faults.at("before-commit")
            db.execute("COMMIT")
            self._faults.at("after-commit")
        except BaseException as error:  # noqa: BLE001 - the thread must survive whatever a commit raises
            self._remembers_wrongly = True
            with contextlib.suppress(sqlite3.Error):
                if db.in_transaction:
                    db.execute("ROLLBACK")
            lost = translated(error)
            return [(future, None, lost) for _, future, _ in group]
        return done

    def _remember_rightly(self) -> None:
        """After a lost group, before the next one: by then a full disk may have room again."""
        if self._remembers_wrongly:
            if self.db.in_transaction:
                self.db.execute("ROLLBACK")
            self._on_rollback(self.db)
            self._remembers_wrongly = False

    def _run_one(self, command: Command) -> tuple[Any, BaseException | None]:
        self.db.execute("SAVEPOINT command")
        before = self.db.total_changes
        try:
            result = command(self.db)
        except BaseException as error:  # handed to whoever waits for the command
            if not self.db.in_transaction:
                raise  # SQLite undid the whole group by itself (disk full): nobody's work is in
            self.db.execute("ROLLBACK TO command")
            self.db.execute("RELEASE command")
            if self.db.total_changes != before:
                self._on_rollback(self.db)
            return None, translated(error)
        self.db.execute("RELEASE command")
        return result, None


def _resolve(done: list[tuple[asyncio.Future[Any], Any, BaseException | None]]) -> None:
    for future, result, error in done:
        if future.done():
            continue
        if error is None:
            future.set_result(result)
        else:
            future.set_exception(error)


def translated(error: BaseException) -> BaseException:
    """SQLite's own errors in our words."""
    if not isinstance(error, sqlite3.Error):
        return error
    said = str(error)
    if getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_FULL:
        return StoreFull(f"The disk that holds the ledger is full ({said}). Free some space; work goes on by itself.")
    if "I/O" in said or "locked" in said or "unable to open" in said or "malformed" in said:
        return StoreUnavailable(f"The ledger's file does not answer: {said}. Run `forager doctor`.")
    return StoreError(f"The ledger refused a statement: {said}")
