"""Stored pages in an object store, one object each: any machine can read what another has stored.

The object's own time is the time of its last use: a page that is kept again after a while is written again. It is
compared with the clock of the storage, never with that of this machine. Requests, hashing and compression block, so
they run in threads of their own.
"""

import asyncio
import sqlite3
import threading
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from typing import TypeVar

from forager.core.clock import Clock
from forager.core.errors import BlobMissing, Conflict, StoreUnavailable, Transient
from forager.core.http import Response
from forager.core.storage import BlobStat, Collected, FileInfo, References, Storage, is_blob
from forager.storage.pages.segments import Packer, blob_url, digest_of

# Garbage collection of stored pages in an object store that nothing refers to, a few at a time.
#
# It can be interrupted at any point without losing a page that is referred to; the next collection does the rest. An
# object is looked at once more just before it is removed. If it is kept again in that very moment it may be lost all
# the same, and is then fetched again, like any page that is lost.


PAGES = "pages"
LOCK = "collecting"
LOCK_MS = 3_600_000
"""Milliseconds after which the lock of a killed collection is ignored. Two at once would only do the same work
twice."""
AT_ONCE = 500


class RemoteCollection:
    """One run of the collection."""

    def __init__(self, storage: Storage, *, dry_run: bool = False) -> None:
        self._storage = storage
        self._dry_run = dry_run
        self._locked = False
        self._marks = sqlite3.connect("", check_same_thread=False)  # a temporary file: there may be millions
        self._marks.execute("CREATE TABLE marked (digest BLOB PRIMARY KEY) WITHOUT ROWID")
        self._objects: Iterator[FileInfo] | None = None
        self._removed = self._kept = self._freed = 0

    def stat(self) -> BlobStat:
        sizes = [each.size for each in self._storage.walk(PAGES)]
        return BlobStat(len(sizes), None, sum(sizes), 0, len(sizes))

    def begin(self, now: int) -> None:
        """Take the lock. `now` is the time of the storage's clock. Raises `Conflict` if another process collects."""
        there = self._storage.find(LOCK)
        if there is not None and now - there.modified_ms > LOCK_MS:
            self._storage.delete(LOCK)
        if not self._storage.create(LOCK, b""):
            raise Conflict("Another process collects unused pages in this storage. Try again when it has finished.")
        self._locked = True

    def end(self) -> None:
        self._marks.close()
        if self._locked:
            self._storage.delete(LOCK)

    def mark(self, blobs: Sequence[str]) -> None:
        """Mark pages that something refers to."""
        digests = ((bytes.fromhex(blob.partition(":")[2]),) for blob in blobs if is_blob(blob))
        with self._marks:
            self._marks.executemany("INSERT OR IGNORE INTO marked VALUES (?)", digests)

    def sweep(self, now: int, grace_ms: int, days_ms: int | None) -> bool:
        """Check some pages and remove those that nothing refers to. `now` is the time by the clock of the storage, or a
        moment before. Returns False when all have been checked."""
        if self._objects is None:
            self._objects = self._storage.walk(PAGES)
        some = list(islice(self._objects, AT_ONCE))
        marked = self._marked(some)
        for each in some:
            limit = days_ms if each.path in marked else grace_ms
            old = limit is not None and now - each.modified_ms > limit
            if old and (self._dry_run or self._remove(each)):
                self._removed += 1
                self._freed += each.size
            else:
                self._kept += 1
        return bool(some)

    def result(self) -> Collected:
        files = 0 if self._dry_run else self._removed
        return Collected(self._removed, self._kept, self._freed, files, dry_run=self._dry_run)

    def _marked(self, some: Sequence[FileInfo]) -> set[str]:
        digests = {name: each.path for each in some if (name := _digest(each.path)) is not None}
        holes = ",".join("?" * len(digests))
        rows = self._marks.execute(f"SELECT digest FROM marked WHERE digest IN ({holes})", list(digests))
        return {digests[row[0]] for row in rows}

    def _remove(self, seen: FileInfo) -> bool:
        now = self._storage.find(seen.path)
        # To the second: in lists, some servers are more exact.
        if now is None or now.modified_ms // 1000 != seen.modified_ms // 1000:
            return False
        self._storage.delete(seen.path)
        return True


def _digest(path: str) -> bytes | None:
    try:
        return bytes.fromhex(path.rpartition("/")[2])
    except ValueError:
        return None


# The clock of a storage: what the times of its files are compared with.
#
# The wall clock of this machine may be wrong by a day; the pages of other machines must not be removed for it.


PROBE = ".now"
"""A file that is written to read the clock. Its name is hidden from lists."""
READ_EVERY = 3_600.0
"""Seconds for which the monotonic clock continues a reading."""


class StorageClock:
    """Reads the clock of a storage by writing a file. Everything here blocks; any thread may call it."""

    def __init__(self, storage: Storage, clock: Clock) -> None:
        self._storage = storage
        self._clock = clock
        self._lock = threading.Lock()
        self._reading: tuple[int, float] | None = None
        """The last time that was read, and when that was by the monotonic clock."""

    def now(self) -> int:
        """Return the time of the storage, in Unix milliseconds. It is read once an hour: between two readings, the
        monotonic clock of this process continues it."""
        with self._lock:
            if self._reading is None or self._clock.monotonic() - self._reading[1] >= READ_EVERY:
                self._reading = self.read(), self._clock.monotonic()
            read, at = self._reading
        return read + round((self._clock.monotonic() - at) * 1000)

    def read(self) -> int:
        """Read the time of the storage, in Unix milliseconds. It is never later than the real one."""
        self._storage.put(PROBE, b".")
        written = self._storage.find(PROBE)
        if written is None:
            raise OSError(f"{PROBE} was written, and is not there")
        return written.modified_ms


THREADS = 32
"""Requests at once."""
REMEMBERED = 100_000
GRACE_HOURS = 24.0

T = TypeVar("T")


class RemoteBlobs:
    """Implements `core.storage.Blobs`. `where` names the storage in messages. `grace` and `days`: see `LocalBlobs`.

    `check` is awaited before a collection and raises `StoreError` unless these pages are the ledger's own: those of
    another ledger look as if nothing referred to them.
    """

    def __init__(
        self,
        storage: Storage,
        where: str,
        clock: Clock,
        check: Callable[[], Awaitable[None]],
        *,
        grace: float = GRACE_HOURS,
        days: float | None = None,
    ) -> None:
        self._storage = storage
        self._where = where
        self._clock = clock
        self._time = StorageClock(storage, clock)
        self._check = check
        self._grace_ms = round(grace * 3_600_000)
        self._fresh_ms = self._grace_ms // 4  # long before it could be removed
        self._days_ms = None if days is None else round(days * 86_400_000)
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="blobs")
        self._own = threading.local()
        """Each thread has a compressor of its own."""
        self._known: OrderedDict[bytes, int] = OrderedDict()
        """Pages that are known to be there, and until when by the monotonic clock: they need no request."""
        self._lock = threading.Lock()

    async def keep(self, response: Response) -> str:
        return await self._do(lambda: self._keep(response))

    async def read(self, blob: str) -> Response:
        if not is_blob(blob):
            raise BlobMissing(f"{blob[:80]!r} is not the URL of a stored page.")
        digest = bytes.fromhex(blob.partition(":")[2])
        return await self._do(lambda: self._read(digest))

    async def stat(self) -> BlobStat:
        return await self._do(lambda: RemoteCollection(self._storage).stat())

    async def collect(self, references: References, *, dry_run: bool = False) -> Collected:
        """See the port. Runs in small parts, so that it never holds a thread for long."""
        await self._check()
        collection = RemoteCollection(self._storage, dry_run=dry_run)
        try:
            now = await self._do(self._time.read)
            await self._do(lambda: collection.begin(now))
            async for blobs in references():
                await self._do(lambda some=blobs: collection.mark(some))  # type: ignore[misc]
            while await self._do(lambda: collection.sweep(now, self._grace_ms, self._days_ms)):
                pass
        finally:
            await self._do(collection.end)
        return collection.result()

    async def close(self) -> None:
        await asyncio.to_thread(self._threads.shutdown)

    # ── in a thread ──

    async def _do(self, work: Callable[[], T]) -> T:
        try:
            return await asyncio.get_running_loop().run_in_executor(self._threads, work)
        except (Transient, OSError) as error:  # so that a task waits for it without burning an attempt
            told = error.message if isinstance(error, Transient) else str(error)
            raise StoreUnavailable(f"The stored pages in {self._where} cannot be reached: {told}") from error

    def _keep(self, response: Response) -> str:
        digest, now = digest_of(response), self._monotonic()
        if not self._is_known(digest, now):
            there = self._storage.find(path_of(digest))
            if there is None or self._time.now() - there.modified_ms >= self._fresh_ms:
                self._storage.put(path_of(digest), self._packer().pack(digest, response))
            self._remember(digest, now + self._fresh_ms)
        return blob_url(digest)

    def _read(self, digest: bytes) -> Response:
        gone = BlobMissing(f"The stored page {blob_url(digest)} is gone or damaged. Fetch it again.")
        try:
            frame = self._storage.get(path_of(digest))
        except FileNotFoundError:
            self._forget(digest)
            raise gone from None
        response = self._packer().unpack(digest, frame)
        if response is None:
            self._storage.delete(path_of(digest))
            self._forget(digest)
            raise gone
        return response

    def _packer(self) -> Packer:
        if not hasattr(self._own, "packer"):
            self._own.packer = Packer()
        packer: Packer = self._own.packer
        return packer

    def _is_known(self, digest: bytes, now: int) -> bool:
        with self._lock:
            return self._known.get(digest, now) > now

    def _remember(self, digest: bytes, until: int) -> None:
        with self._lock:
            self._known[digest] = until
            self._known.move_to_end(digest)
            if len(self._known) > REMEMBERED:
                self._known.popitem(last=False)

    def _forget(self, digest: bytes) -> None:
        with self._lock:
            self._known.pop(digest, None)

    def _monotonic(self) -> int:
        return int(self._clock.monotonic() * 1000)


def path_of(digest: bytes) -> str:
    name = digest.hex()
    return f"{PAGES}/{name[:2]}/{name}"
