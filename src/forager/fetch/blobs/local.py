"""Stored pages in a local folder, off the event loop: one thread does all the work, in order.

Hashing and compression release the interpreter's lock, so that storing a page takes almost no time from the event loop.
Results are handed back to several callers at once.
"""

import asyncio
import contextlib
import errno
import queue
import sqlite3
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

from forager.core.blobs import BlobStat, Collected, References, is_blob
from forager.core.clock import Clock
from forager.core.errors import BlobMissing, StoreError, StoreFull, StoreUnavailable
from forager.core.http import Response
from forager.fetch.blobs.collection import Collection
from forager.fetch.blobs.folder import BlobFolder
from forager.fetch.blobs.segments import SEGMENT_BYTES

INDEX_AFTER = 0.2
"""Maximum seconds that stored pages wait to be indexed together with more of them."""
TOGETHER = 64
GRACE_HOURS = 24.0

T = TypeVar("T")
_Work = tuple[Callable[[], Any], "asyncio.Future[Any]"]


class LocalBlobs:
    """Implements `core.blobs.Blobs`. Nothing is opened before the first use; `close` ends the thread.

    `grace`: hours for which an unreferenced page is kept. `days`: age at which a page is removed even if something
    refers to it; None means never.
    """

    def __init__(
        self,
        folder: Path,
        clock: Clock,
        *,
        grace: float = GRACE_HOURS,
        days: float | None = None,
        segment_bytes: int = SEGMENT_BYTES,
    ) -> None:
        self._folder = folder
        self._clock = clock
        self._grace_ms = round(grace * 3_600_000)
        self._days_ms = None if days is None else round(days * 86_400_000)
        self._segment_bytes = segment_bytes
        self._work: queue.SimpleQueue[_Work | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._opened: BlobFolder | None = None

    async def keep(self, response: Response) -> str:
        return await self._do(lambda: self._store().keep(response))

    async def read(self, blob: str) -> Response:
        if not is_blob(blob):
            raise BlobMissing(f"{blob[:80]!r} is not the URL of a stored page.")
        digest = bytes.fromhex(blob.partition(":")[2])
        return await self._do(lambda: self._store().read(digest))

    async def stat(self) -> BlobStat:
        if not self._folder.exists():
            return BlobStat(0, 0, 0, 0, 0)
        return await self._do(lambda: Collection(self._store()).stat())

    async def collect(self, references: References, *, dry_run: bool = False) -> Collected:
        """See the port. Runs in small parts, so that pages can be stored and read in between."""
        if not self._folder.exists():
            return Collected(0, 0, 0, 0, dry_run=dry_run)
        collection = await self._do(lambda: Collection(self._store(), dry_run=dry_run))
        try:
            await self._do(collection.begin)
            async for blobs in references():
                await self._do(_part(collection.mark, blobs))
            while await self._do(lambda: collection.sweep(self._grace_ms, self._days_ms)):
                pass
            while await self._do(collection.compact):
                pass
        finally:
            await self._do(collection.end)
        return collection.result()

    async def close(self) -> None:
        """Index what was stored and end the thread."""
        if self._thread is not None:
            self._work.put(None)
            await asyncio.to_thread(self._thread.join)
            self._thread = None

    # ── the thread ──

    async def _do(self, work: Callable[[], T]) -> T:
        """Run this in the thread, and wait for the result."""
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._work.put((work, future))
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="blobs", daemon=True)
            self._thread.start()
        return await future

    def _run(self) -> None:
        while True:
            try:
                waiting = self._opened is not None and self._opened.has_unindexed
                item = self._work.get(timeout=INDEX_AFTER if waiting else None)
            except queue.Empty:
                with contextlib.suppress(OSError, sqlite3.Error):  # tried again with the next page
                    self._store().flush()
                continue
            done: list[tuple[asyncio.Future[Any], Any, BaseException | None]] = []
            while item is not None:
                work, future = item
                try:
                    done.append((future, work(), None))
                except BaseException as error:  # noqa: BLE001 - raised in the waiting caller
                    done.append((future, None, _translated(error, self._folder)))
                if len(done) >= TOGETHER or self._work.empty():
                    _hand_back(done)
                    break
                item = self._work.get()
            else:
                _hand_back(done)
                self._close()
                return

    def _close(self) -> None:
        opened, self._opened = self._opened, None
        if opened is not None:
            with contextlib.suppress(OSError, sqlite3.Error):  # the next process indexes what was not
                opened.close()

    def _store(self) -> BlobFolder:
        if self._opened is None:
            now = self._clock.now
            self._opened = BlobFolder(
                self._folder,
                lambda: int(now().timestamp() * 1000),
                fresh_ms=self._grace_ms // 4,  # long before it could be removed
                segment_bytes=self._segment_bytes,
            )
        return self._opened


def _translated(error: BaseException, folder: Path) -> BaseException:
    """Translate an error of the disk to a `StoreError`, so that a task waits for it without burning an attempt."""
    if not isinstance(error, OSError | sqlite3.Error):
        return error
    if getattr(error, "errno", None) in (errno.ENOSPC, errno.EDQUOT) or "disk is full" in str(error):
        told: StoreError = StoreFull(f"The disk with the stored pages ({folder}) is full. Free some space.")
    else:
        told = StoreUnavailable(f"The folder of stored pages ({folder}) cannot be used: {error}.")
    told.__cause__ = error
    return told


def _part(mark: Callable[[Sequence[str]], None], blobs: Sequence[str]) -> Callable[[], None]:
    return lambda: mark(blobs)


def _hand_back(done: list[tuple["asyncio.Future[Any]", Any, BaseException | None]]) -> None:
    if not done:
        return
    try:
        done[0][0].get_loop().call_soon_threadsafe(_resolve, done)
    except RuntimeError:  # the loop has ended, and all waiting callers with it
        return


def _resolve(done: list[tuple["asyncio.Future[Any]", Any, BaseException | None]]) -> None:
    for future, value, error in done:
        if future.done():  # its caller was cancelled
            continue
        if error is None:
            future.set_result(value)
        else:
            future.set_exception(error)
