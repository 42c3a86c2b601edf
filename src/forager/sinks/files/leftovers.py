"""Files that a writer has left behind: it died, or seemed to fail, after it wrote them and before their manifest.

They do not count, but they take room. To find them without listing everything: their changes come again, first of all,
so they lie in the folders that the next changes are written to, under numbers that were free when this writer began.
"""

import re
from collections.abc import Iterable

from forager.core.place import Place
from forager.sinks.files.manifest import Manifest, read_manifest

_PART = re.compile(r"/([0-9]{12})-[0-9a-f]{8}\.[a-z]+$")


class Leftovers:
    """Removes what other attempts have left behind. A writer makes one whenever it reads the newest manifest."""

    def __init__(self, place: Place, last: Manifest, most: int) -> None:
        """`most`: changes in one batch, so also in the one that was left behind."""
        self._place = place
        self._from, self._to = last.clean + 1, last.number + 1
        self._coming = most
        self._looked_at: set[str] = set()
        self._named: dict[int, frozenset[str] | None] = {}

    @property
    def are_gone(self) -> bool:
        """Whether everything has come again that could have been left behind."""
        return self._coming <= 0

    def remove(self, committed: Manifest) -> None:
        """Remove what lies beside the files of a manifest that has just been committed: every number up to its own is
        taken by now, so a file that the manifest of its number does not name can never count."""
        if self.are_gone:
            return
        for folder in {f"{part.kind}/{part.date}" for part in committed.parts} - self._looked_at:
            self._looked_at.add(folder)  # once: a folder may have thousands of files, and gets one every few seconds
            for path in self._unnamed(self._place.list(folder)):
                self._place.delete(path)
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
        """Return the files of a manifest; None if it was removed by hand, so that nothing is known about its files."""
        if number not in self._named:
            try:
                manifest = read_manifest(self._place, Manifest(number=number).path)
            except FileNotFoundError:
                self._named[number] = None
            else:
                self._named[number] = frozenset(part.path for part in manifest.parts)
        return self._named[number]
