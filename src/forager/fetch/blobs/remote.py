"""Stored pages in an object store, one object each: any machine can read what another has stored.

The object's own time is the time of its last use: a page that is kept again after a while is written again. It is
compared with the clock of the place, never with that of this machine. Requests block, so they run in threads of their
own; hashing and compression do so, too.
"""

import asyncio
import threading
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from forager.core.blobs import BlobStat, Collected, References, is_blob
from forager.core.clock import Clock
from forager.core.errors import BlobMissing, StoreUnavailable, Transient
from forager.core.http import Response
from forager.core.place import Place
from forager.fetch.blobs.frames import Packer, blob_url, digest_of
from forager.fetch.blobs.place_clock import PlaceClock
from forager.fetch.blobs.remote_collection import PAGES, RemoteCollection

THREADS = 32
"""Requests at once."""
REMEMBERED = 100_000
GRACE_HOURS = 24.0

T = TypeVar("T")


class RemoteBlobs:
    """Implements `core.blobs.Blobs`. `where` names the place in messages; `grace` and `days` are as in `LocalBlobs`.

    `check` is awaited before a collection and raises `StoreError` unless these pages are the ledger's own: those of
    another ledger look as if nothing referred to them.
    """

    def __init__(
        self,
        place: Place,
        where: str,
        clock: Clock,
        check: Callable[[], Awaitable[None]],
        *,
        grace: float = GRACE_HOURS,
        days: float | None = None,
    ) -> None:
        self._place = place
        self._where = where
        self._clock = clock
        self._time = PlaceClock(place, clock)
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
        return await self._do(lambda: RemoteCollection(self._place).stat())

    async def collect(self, references: References, *, dry_run: bool = False) -> Collected:
        """See the port. Runs in small parts, so that it never holds a thread for long."""
        await self._check()
        collection = RemoteCollection(self._place, dry_run=dry_run)
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
            there = self._place.find(path_of(digest))
            if there is None or self._time.now() - there.modified_ms >= self._fresh_ms:
                self._place.put(path_of(digest), self._packer().pack(digest, response))
            self._remember(digest, now + self._fresh_ms)
        return blob_url(digest)

    def _read(self, digest: bytes) -> Response:
        gone = BlobMissing(f"The stored page {blob_url(digest)} is gone or damaged. Fetch it again.")
        try:
            frame = self._place.get(path_of(digest))
        except FileNotFoundError:
            self._forget(digest)
            raise gone from None
        response = self._packer().unpack(digest, frame)
        if response is None:
            self._place.delete(path_of(digest))
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
