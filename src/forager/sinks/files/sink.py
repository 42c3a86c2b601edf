"""The files sink: each batch becomes files by kind and date, and one manifest, which is the commit.

Files are written first; then the manifest that names them is created, only if there is none of its number. Readers look
at manifests only, so a batch is there whole or not at all, whatever dies when. The manifest also holds the position in
the log: a start reads it back, and changes that were written before are left out, however the next batch is cut.
"""

import asyncio
import os
import threading
from collections.abc import Sequence
from datetime import UTC, datetime

from forager.core.change import Change
from forager.core.errors import Permanent, Transient
from forager.core.faults import Faults, NoFaults
from forager.core.place import Place
from forager.core.sink import Batching, SinkRow
from forager.kit.number_set import ranges_of
from forager.sinks.files.formats import Encode
from forager.sinks.files.leftovers import Leftovers
from forager.sinks.files.manifest import Manifest, Part, last_manifest, note_last
from forager.sinks.files.written import Written

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
        place: Place,
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
        self._place = place
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
        self._written = Written(place, Manifest())
        """Every change that was written …"""
        self._leftovers = Leftovers(place, Manifest(), MOST)
        """… and the files that were, in vain; both as of `_last`."""

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
        # longer there was moved away with its folder: everything that comes now is new to the place.
        if last is None or self._place.find(last.path) is None:
            last = last_manifest(self._place, self._known)
            self._written, self._leftovers = Written(self._place, last), Leftovers(self._place, last, MOST)
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
                self._place.delete(part.path)
            raise Transient(f"Another process has written to the files of {self.name}: this one reads on from there.")
        self._faults.at("files-committed")
        self._leftovers.remove(manifest)
        note_last(self._place, manifest)
        self._last = manifest

    def _created(self, manifest: Manifest) -> bool:
        """Return whether this manifest is the one of its number. On the way to an object store a request may be sent
        twice; the second is then told that there is one, although it is the same."""
        content = manifest.encoded()
        return self._place.create(manifest.path, content) or self._place.get(manifest.path) == content

    def _part(self, attempt: str, kind: str, date: str, changes: Sequence[Change]) -> Part:
        content = self._encode(kind, changes)
        if len(content) > self._largest:  # the engine halves a refused batch, so only one change can be too large
            which = f"Change {changes[0].id} has" if len(changes) == 1 else f"{len(changes):,} changes have"
            raise Permanent(f"{which} {len(content):,} bytes; a file has at most {self._largest:,}.")
        path = f"{kind}/{date}/{attempt}.{self._extension}"
        self._place.put(path, content)
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
    """By kind and day (UTC), in the order of the log."""
    groups: dict[tuple[str, int], list[Change]] = {}
    for change in changes:
        groups.setdefault((change.kind, change.at // DAY), []).append(change)
    return {(kind, _date(day)): group for (kind, day), group in groups.items()}


def _date(day: int) -> str:
    return datetime.fromtimestamp(day * DAY / 1000, UTC).date().isoformat()
