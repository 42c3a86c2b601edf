"""Which changes were written before: read from the manifests, newest first, and only as far back as necessary.

After a crash or a lost answer only the newest changes come again. Reading every manifest of a year for them would take
hours on an object store; a replay from zero has to, once.
"""

from collections.abc import Iterable

from forager.core.place import Place
from forager.kit.number_set import NumberSet, numbers_in
from forager.sinks.files.manifest import Manifest, read_manifest


class Written:
    """The numbers of written changes, up to the manifest `last` and what is added."""

    def __init__(self, place: Place, last: Manifest) -> None:
        self._place = place
        self._numbers = NumberSet()
        self._take(last)

    def __contains__(self, number: int) -> bool:
        # A manifest has no number above its cursor, and cursors only grow: from one below `number` on, none has it.
        while number <= self._oldest.cursor and self._oldest.number > 1:
            self._take(read_manifest(self._place, Manifest(number=self._oldest.number - 1).path))
        return number in self._numbers

    def add(self, numbers: Iterable[int]) -> None:
        for number in numbers:
            self._numbers.add(number)

    def _take(self, manifest: Manifest) -> None:
        self._oldest = manifest
        self.add(numbers_in(manifest.changes))
