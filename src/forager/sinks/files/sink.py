"""The files sink: each batch becomes files by kind and date, and one manifest, which is the commit.

Files are written first; then the manifest that names them is created, only if its number is not taken. Readers read
manifests only, so a batch is complete or invisible, whatever dies when. The manifest also holds the position in the
log: a start reads it back, and changes that were written before are left out, however the next batch is split.
"""

import asyncio
import os
import re
import threading
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

from forager.core.change import Change
from forager.core.clock import Faults, NoFaults
from forager.core.errors import Permanent, Transient
from forager.core.sink import Batching, SinkRow
from forager.core.storage import Storage
from forager.sdk.delivery import NumberSet, numbers_in, ranges_of
from forager.sinks.files.manifest import Encode, Manifest, Part, last_manifest, note_last, read_manifest

# Files that a writer has left behind: it died, or seemed to fail, after it wrote them and before their manifest.
#
# They do not count, but they use disk space. They are found without listing everything: their changes are delivered
# again first, so they are in the folders that the next changes are written to, under numbers that were free when this
# writer began.


_PART = re.compile(r"/([0-9]{12})-[0-9a-f]{8}\.[a-z]+$")


class Leftovers:
    """Removes what other attempts have left behind. A writer makes one whenever it reads the newest manifest."""

    def __init__(self, storage: Storage, last: Manifest, most: int) -> None:
        """`most`: changes in one batch, so also in the one that was left behind."""
        self._storage = storage
        self._from, self._to = last.clean + 1, last.number + 1
        self._coming = most
        self._looked_at: set[str] = set()
        self._named: dict[int, frozenset[str] | None] = {}

    @property
    def are_gone(self) -> bool:
        """Return whether every change that could have left a file behind was delivered again."""
        return self._coming <= 0

    def remove(self, committed: Manifest) -> None:
        """Remove files that no manifest names. Every number up to that of the manifest just committed is taken, so such
        a file can never count."""
        if self.are_gone:
            return
        for folder in {f"{part.kind}/{part.date}" for part in committed.parts} - self._looked_at:
            self._looked_at.add(folder)  # once: a folder may have thousands of files, and gets one every few seconds
            for path in self._unnamed(self._storage.list(folder)):
                self._storage.delete(path)
        self._coming -= sum(part.rows for part in committed.parts)

    def _unnamed(self, paths: Iterable[str]) -> list[str]:
        unnamed = []
        for path in paths:
            part = _PART.search(path)
            if part is not None and self._from <= int(part[1]) <= self._to:
                named = self._names(int(part[1]))
                if named is not None and path not in named:
                    unnamed.append(path)
        return unnamed

    def _names(self, number: int) -> frozenset[str] | None:
        """Return the files of a manifest; None if it was removed by hand: its files cannot be judged."""
        if number not in self._named:
            try:
                manifest = read_manifest(self._storage, Manifest(number=number).path)
            except FileNotFoundError:
                self._named[number] = None
            else:
                self._named[number] = frozenset(part.path for part in manifest.parts)
        return self._named[number]


# Finds the changes that were written before: reads the manifests, newest first, only as far back as necessary.
#
# After a crash or a lost answer only the newest changes come again. Reading every manifest of a year for them would
# take hours on an object store; a replay from zero has to, once.


class WrittenChanges:
    """Keep the numbers of the changes that were written: those of all manifests up to `last`, and those added."""

    def __init__(self, storage: Storage, last: Manifest) -> None:
        self._storage = storage
        self._numbers = NumberSet()
        self._take(last)

    def __contains__(self, number: int) -> bool:
        # A manifest has no number above its cursor, and cursors only grow: from one below `number` on, none has it.
        while number <= self._oldest.cursor and self._oldest.number > 1:
            self._take(read_manifest(self._storage, Manifest(number=self._oldest.number - 1).path))
        return number in self._numbers

    def add(self, numbers: Iterable[int]) -> None:
        for number in numbers:
            self._numbers.add(number)

    def _take(self, manifest: Manifest) -> None:
        self._oldest = manifest
        self.add(numbers_in(manifest.changes))


LARGEST_BODY = 100 * 1024 * 1024
"""A file of one change that is larger is refused, because loaders have limits of this size."""
MOST = 5_000
"""Changes in one batch."""
DAY = 86_400_000
"""In milliseconds."""


class FilesSink:
    """The sink of one row of the type `files`."""

    def __init__(
        self,
        row: SinkRow,
        storage: Storage,
        encode: Encode,
        extension: str,
        *,
        age: float = 10.0,
        largest: int = LARGEST_BODY,
        faults: Faults | None = None,
    ) -> None:
        """`age`: seconds for which changes wait for one another, because every batch makes files of its own."""
        self.name, self.kinds, self.pipelines = row.name, row.kinds, row.pipelines
        self.batching = Batching(most=MOST, age=age)
        self._storage = storage
        self._encode = encode
        self._extension = extension
        self._largest = largest
        self._faults = faults or NoFaults()
        self._writing = threading.Lock()
        """A batch that took too long still runs in its thread when the next one comes."""
        self._last: Manifest | None = None
        """The newest manifest. None: unknown, so it is read before anything is written."""
        self._known = 0
        """The number of a manifest that was the newest a moment ago; stays when a write fails."""
        self._written = WrittenChanges(storage, Manifest())
        """Every change that was written, as of `_last`."""
        self._leftovers = Leftovers(storage, Manifest(), MOST)
        """Files that no manifest names, as of `_last`."""

    async def write(self, batch: Sequence[Change]) -> None:
        """Write the changes that were not written before, and commit them. Raises `Transient` if another process has
        committed meanwhile, and `Permanent` for a change that is too large."""
        await asyncio.to_thread(self._write, batch)

    def _write(self, batch: Sequence[Change]) -> None:
        with self._writing:
            self._write_new(batch)

    def _write_new(self, batch: Sequence[Change]) -> None:
        last, self._last = self._last, None
        # Unknown at the start and after a failed write, when another process may have written. A manifest that is no
        # longer there was moved away with its folder: everything that comes now is new to the storage.
        if last is None or self._storage.find(last.path) is None:
            last = last_manifest(self._storage, self._known)
            self._written, self._leftovers = WrittenChanges(self._storage, last), Leftovers(self._storage, last, MOST)
        self._known = last.number
        new = [change for change in batch if change.id not in self._written]
        if new:
            self._commit(last, new)
            self._written.add(change.id for change in new)
        else:
            self._last = last

    def _commit(self, last: Manifest, new: Sequence[Change]) -> None:
        number = last.number + 1
        # In every file name: neither two writers at once, nor a late write of an attempt that seemed to have failed,
        # ever write to the same file.
        attempt = f"{number:012d}-{os.urandom(4).hex()}"
        manifest = Manifest(
            number=number,
            cursor=max(last.cursor, new[-1].id),
            clean=last.number if self._leftovers.are_gone else last.clean,
            parts=[self._part(attempt, kind, date, changes) for (kind, date), changes in _grouped(new).items()],
            changes=ranges_of(change.id for change in new),
        )
        self._faults.at("files-written")
        if not self._created(manifest):
            for part in manifest.parts:
                self._storage.delete(part.path)
            raise Transient(f"Another process has written to the files of {self.name}: this one reads on from there.")
        self._faults.at("files-committed")
        self._leftovers.remove(manifest)
        note_last(self._storage, manifest)
        self._last = manifest

    def _created(self, manifest: Manifest) -> bool:
        """Return whether this manifest is the one of its number. A request to an object store may be
        sent twice; the second is refused because of the first."""
        content = manifest.encoded()
        return self._storage.create(manifest.path, content) or self._storage.get(manifest.path) == content

    def _part(self, attempt: str, kind: str, date: str, changes: Sequence[Change]) -> Part:
        content = self._encode(kind, changes)
        if len(content) > self._largest:  # the engine halves a refused batch, so only one change can be too large
            which = f"Change {changes[0].id} has" if len(changes) == 1 else f"{len(changes):,} changes have"
            raise Permanent(f"{which} {len(content):,} bytes; a file has at most {self._largest:,}.")
        path = f"{kind}/{date}/{attempt}.{self._extension}"
        self._storage.put(path, content)
        return Part(
            path=path,
            kind=kind,
            date=date,
            rows=len(changes),
            bytes=len(content),
            first=changes[0].id,
            last=changes[-1].id,
        )


def _grouped(changes: Sequence[Change]) -> dict[tuple[str, str], list[Change]]:
    """Group changes by kind and day (UTC), in the order of the log."""
    groups: dict[tuple[str, int], list[Change]] = {}
    for change in changes:
        groups.setdefault((change.kind, change.at // DAY), []).append(change)
    return {(kind, _date(day)): group for (kind, day), group in groups.items()}


def _date(day: int) -> str:
    return datetime.fromtimestamp(day * DAY / 1000, UTC).date().isoformat()
