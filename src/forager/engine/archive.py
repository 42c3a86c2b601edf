"""Moves records that have been inactive for long from the ledger to files. `core/upkeep.py` explains how it is safe.

Several processes may do this at once: each moves a batch only if every record of it is still there as it was read.
"""

import asyncio
import hashlib
import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from forager.core.clock import Clock, Faults, NoFaults
from forager.core.errors import Transient
from forager.core.ledger import Ledger
from forager.core.storage import Storage
from forager.core.upkeep import Archives, NewFile, OldRecord

MOST = 5_000
"""Records in one file, which are removed in one transaction."""
ABANDONED_AFTER = 600.0
"""Seconds after which an uncounted file is taken to be abandoned. Its writer, if it still lives, then finds it
forgotten, and moves nothing."""


@dataclass(frozen=True, slots=True)
class FileFormat:
    """The format in which records become a file."""

    extension: str
    encode: Callable[[Sequence[Mapping[str, Any]]], bytes]
    count: Callable[[bytes], int]
    """Counts the records in a file, to verify it."""


@dataclass(frozen=True, slots=True)
class Moved:
    """The result of one batch."""

    records: int = 0
    files: int = 0
    after: int = 0
    """The id after which the next batch begins."""
    more: bool = False


class Archiver:
    """Moves batches of one kind of record to one storage."""

    def __init__(
        self,
        ledger: Ledger,
        archives: Archives,
        place: Storage,
        where: str,
        form: FileFormat,
        clock: Clock,
        *,
        removed: Callable[[NewFile, bytes], Awaitable[None]] | None = None,
        most: int = MOST,
        abandoned_after: float = ABANDONED_AFTER,
        faults: Faults | None = None,
    ) -> None:
        """`where` names the place in the ledger. `removed` is called with a file and its content once its records are
        removed from the ledger: what is derived from them may be removed. It is called again if it failed, or if the
        process died meanwhile."""
        self._ledger = ledger
        self._archives = archives
        self._place = place
        self._where = where
        self._form = form
        self._clock = clock
        self._removed = removed
        self._most = most
        self._abandoned_after = abandoned_after
        self._faults = faults or NoFaults()

    async def recover(self) -> None:
        """Finish what a process that died has left behind: remove what is derived from records that were moved, write
        missing manifests, remove files that do not count. Raises `Transient` if a file that counts is missing."""
        now = round((await self._ledger.now()).timestamp() * 1000)
        for file in await self._archives.unfinished(self._where, now - round(self._abandoned_after * 1000)):
            if file.state == "moved":
                if self._removed is not None:
                    await self._removed(file.new, await asyncio.to_thread(self._read, file.new))
                await self._list(file.id, file.new)
            else:
                await self._undo(file.id, file.new.path)

    async def move(self, kind: str, before: int, after: int = 0) -> Moved:
        """Move the next batch of records that were neither seen nor changed since `before` (Unix milliseconds)."""
        records = await self._archives.read(kind, before, after, self._most)
        if not records:
            return Moved(after=after)
        new, content = await asyncio.to_thread(self._new_file, kind, records)
        file = await self._archives.begin(new)
        self._faults.at("archive-begun")
        await asyncio.to_thread(self._write, new, content)
        self._faults.at("archive-written")
        if not await self._ledger.archive(file, kind, records):
            # Some of them were seen or changed while the file was written; the next batch has the others.
            await self._undo(file, new.path)
            return Moved(after=after, more=True)
        self._faults.at("archive-moved")
        if self._removed is not None:
            await self._removed(new, content)
        await self._list(file, new)
        return Moved(len(records), 1, records[-1].id, more=len(records) == self._most)

    def _new_file(self, kind: str, records: Sequence[OldRecord]) -> tuple[NewFile, bytes]:
        content = self._form.encode([record.row for record in records])
        day = self._clock.now().date().isoformat()
        # The name is new for every batch: a write that seemed to fail, and arrives late, replaces nothing.
        path = f"{kind}/{day}/{os.urandom(8).hex()}.{self._form.extension}"
        digest = hashlib.sha256(content).hexdigest()
        return NewFile(kind, self._where, path, len(records), len(content), digest), content

    def _write(self, new: NewFile, content: bytes) -> None:
        """Write a file and verify it: nothing is removed from the ledger for a file that cannot be read back."""
        self._place.put(new.path, content)
        there = self._place.get(new.path)
        if hashlib.sha256(there).hexdigest() != new.digest or self._form.count(there) != new.records:
            raise Transient(f"{new.path} at {new.place} is not what was written there. Nothing was removed.")

    def _read(self, new: NewFile) -> bytes:
        try:
            return self._place.get(new.path)
        except FileNotFoundError:
            raise Transient(
                f"{new.path} at {new.place} is missing, although {new.records:,} records were moved to it. Restore it."
            ) from None

    async def _list(self, file: int, new: NewFile) -> None:
        content = orjson.dumps(
            {
                "version": 1,
                "archive": file,
                "kind": new.kind,
                "path": new.path,
                "records": new.records,
                "bytes": new.bytes,
                "sha256": new.digest,
            },
            option=orjson.OPT_INDENT_2,
        )
        name = new.path.rpartition("/")[2].partition(".")[0]
        await asyncio.to_thread(self._place.put, f"manifests/{file:012d}-{name}.json", content)
        self._faults.at("archive-named")
        await self._archives.list_(file)

    async def _undo(self, file: int, path: str) -> None:
        """Remove a file, unless it counts. From `drop` on it never will, so that nothing can be lost with it."""
        if await self._archives.drop(file):
            self._faults.at("archive-dropped")
            await asyncio.to_thread(self._place.delete, path)
            await self._archives.forget(file)
