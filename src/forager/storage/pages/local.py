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

from forager.core.clock import Clock
from forager.core.errors import BlobMissing, Conflict, StoreError, StoreFull, StoreUnavailable
from forager.core.http import Response
from forager.core.storage import BlobStat, Collected, References, is_blob
from forager.storage.pages.folder import BlobFolder
from forager.storage.pages.segments import SEGMENT_BYTES, FrameAt, is_whole, read_header

# Garbage collection of stored pages that nothing refers to, a few at a time.
#
# There are three phases: mark every page that is referred to; remove the others, unless they were stored or used
# recently; delete segments without pages, and move the few pages of mostly empty segments to another one. It can be
# interrupted at any point without losing a page that is referred to; the next collection does the rest.


AT_ONCE = 500
MOVED_AT_ONCE = 100
WORTH_MOVING = 0.5
"""A segment is emptied if less than this share of it is in use."""


class Collection:
    """One run of the collection. Runs in the thread of its folder."""

    def __init__(self, folder: BlobFolder, *, dry_run: bool = False) -> None:
        self._folder = folder
        self._dry_run = dry_run
        self._held = contextlib.ExitStack()
        self._after = b""
        self._removed = self._kept = self._freed = self._segments = 0
        self._emptying: tuple[int, int] | None = None
        """The segment that is being emptied, and the position reached."""
        self._passed: set[int] = set()

    def stat(self) -> BlobStat:
        self._folder.flush()
        segments = self._folder.segments
        pages, size, stored = self._folder.index.totals()
        numbers = segments.numbers()
        on_disk = sum(segments.size(number) for number in numbers)
        return BlobStat(pages, size, stored, max(0, on_disk - stored), len(numbers))

    def begin(self) -> None:
        if not self._held.enter_context(self._folder.segments.lock("collecting", wait=False)):
            self._held.close()
            raise Conflict("Another process collects unused pages in this folder. Try again when it has finished.")
        self._folder.recover()
        self._folder.flush()
        self._folder.index.begin_marks()

    def end(self) -> None:
        self._folder.index.end_marks()
        self._held.close()

    def mark(self, blobs: Sequence[str]) -> None:
        """Mark pages that something refers to."""
        self._folder.index.mark(bytes.fromhex(blob.partition(":")[2]) for blob in blobs if is_blob(blob))

    def sweep(self, grace_ms: int, days_ms: int | None) -> bool:
        """Check some pages and remove those that nothing refers to. Returns False when all have been checked."""
        index = self._folder.index
        page = index.page(self._after, AT_ONCE)
        if not page:
            return False
        self._after = page[-1].digest
        now = self._folder.now()
        marked = index.marked([entry.digest for entry in page])
        doomed: dict[int, list[bytes]] = {}
        for entry in page:
            limit = days_ms if entry.digest in marked else grace_ms
            if limit is not None and entry.used_at < now - limit:
                doomed.setdefault(now - limit, []).append(entry.digest)
        removed = 0
        for before, digests in doomed.items():
            removed += len(digests) if self._dry_run else index.remove(digests, used_before=before)
        if self._dry_run:
            gone = {digest for digests in doomed.values() for digest in digests}
            self._freed += sum(entry.at.length for entry in page if entry.digest in gone)
        self._removed += removed
        self._kept += len(page) - removed
        return True

    def compact(self) -> bool:
        """Delete one segment without pages, or move some pages out of a mostly empty one. Returns False when nothing is
        left to do."""
        if self._dry_run:
            return False
        if self._emptying is None:
            number = self._next_segment()
            if number is None:
                return False
            self._passed.add(number)
            self._emptying = number, 0
        number, done = self._emptying
        further = self._move_some(number, done)
        if further is None:
            self._emptying = None
            self._remove(number)
        else:
            self._emptying = number, further
        return True

    def result(self) -> Collected:
        return Collected(self._removed, self._kept, self._freed, self._segments, dry_run=self._dry_run)

    def _next_segment(self) -> int | None:
        segments, known = self._folder.segments, self._folder.index.segments()
        for number in segments.numbers():
            row = known.get(number)
            if row is None or not row.sealed or number in self._passed:
                continue
            if row.live < WORTH_MOVING * segments.size(number):
                return number
        for number in known.keys() - set(segments.numbers()):
            self._folder.index.drop_segment(number)  # deleted by hand; its pages are found missing when they are read
        return None

    def _move_some(self, number: int, done: int) -> int | None:
        """Move pages after position `done` that are still in use. Returns the new position, or None at the end."""
        index, segments = self._folder.index, self._folder.segments
        moves: list[tuple[bytes, FrameAt, FrameAt]] = []
        for at, header in segments.frames(number, done, verify=False):
            entry = index.find(header.digest)
            if entry is not None and entry.at == at:
                frame = segments.read(at)
                whole = read_header(frame) if frame is not None else None
                if frame is not None and whole is not None and is_whole(whole, frame):
                    moves.append((header.digest, at, self._folder.append(frame)))
                else:
                    index.remove([header.digest])
            done = at.offset + at.length
            if len(moves) >= MOVED_AT_ONCE:
                break
        else:
            self._moved(moves)
            return None
        self._moved(moves)
        return done

    def _moved(self, moves: list[tuple[bytes, FrameAt, FrameAt]]) -> None:
        if moves:
            self._folder.note_moved(moves)
            self._freed -= sum(new.length for _, _, new in moves)

    def _remove(self, number: int) -> None:
        self._freed += self._folder.segments.size(number)
        self._folder.segments.remove(number)
        self._folder.index.drop_segment(number)
        self._segments += 1


INDEX_AFTER = 0.2
"""Maximum seconds that stored pages wait to be indexed together with more of them."""
TOGETHER = 64
GRACE_HOURS = 24.0

T = TypeVar("T")
_Work = tuple[Callable[[], Any], "asyncio.Future[Any]"]


class LocalBlobs:
    """Implements `core.storage.Blobs`. Nothing is opened before the first use; `close` ends the thread.

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
