"""The one writer thread, with group commit. Commands that arrive while others run are committed with them; those that
arrive during a commit are committed together next.

Durability costs one `fsync` per group, not per command. A command that fails is rolled back alone, to its savepoint;
the others of its group continue. Commands that do the same for different items may be handled by one call for all
waiting items.
"""

import asyncio
import contextlib
import queue
import sqlite3
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

from forager.core.errors import StoreError, StoreFull, StoreUnavailable
from forager.core.faults import Faults
from forager.core.new_job import JobNews
from forager.ledger.shared.changelog import collect_news, news_so_far
from forager.ledger.shared.command_batch import Asked, take_step

T = TypeVar("T")
Item = TypeVar("Item")
Command = Callable[[sqlite3.Connection], Any]
Done = tuple[asyncio.Future[Any], Any, BaseException | None]

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
        """`on_rollback` repairs in-memory state after writes that were rolled back."""
        self.db = db
        self._loop = asyncio.get_running_loop()
        self._faults = faults
        self._on_rollback = on_rollback
        self._remembers_wrongly = False
        self._closing = False
        self.pending = 0
        """Commands whose result the loop has not seen yet; counted only on the loop."""
        self._commands: queue.SimpleQueue[Asked | None] = queue.SimpleQueue()
        self._waiting: deque[Asked] = deque()
        """Commands that the thread has taken from the queue and not started."""
        self.tell: Callable[[Sequence[JobNews]], None] | None = None
        """Called on the loop with what a commit has done to jobs."""
        self._thread = threading.Thread(target=self._work, name="ledger-writer", daemon=True)
        self._thread.start()

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
        if self._closing or not self._thread.is_alive():
            raise StoreUnavailable("The ledger is closed.")
        future: asyncio.Future[Any] = self._loop.create_future()
        self.pending += 1
        self._commands.put(Asked(command, items, future, followed))
        return future

    async def close(self) -> None:
        self._closing = True
        self._commands.put(None)
        await asyncio.to_thread(self._thread.join)
        self.db.close()

    def _work(self) -> None:
        while self._waiting or self._take():
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
        """Take all commands that have arrived; wait for one if there is none. Returns False if none came in time, or
        the writer is closed."""
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

    def _steps(self, begun: list[Asked]) -> Iterator[list[Asked]]:
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
        begun: list[Asked] = []
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

    def _run_step(self, step: list[Asked]) -> list[Done]:
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
            f"The disk that holds the ledger is full ({message}). Free some space; work goes on by itself."
        )
    if "I/O" in message or "locked" in message or "unable to open" in message or "malformed" in message:
        return StoreUnavailable(f"The ledger's file does not answer: {message}. Run `forager doctor`.")
    return StoreError(f"The ledger refused a statement: {message}")
