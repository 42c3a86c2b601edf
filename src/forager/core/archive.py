"""The archive: files to which records are moved that have not been seen or changed for long.

Moving a batch has three commits, each of which can be the last before a crash:

1. the ledger notes the file that is about to be written (`writing`);
2. the file is written and read back; then one transaction of the ledger removes the records, keeps their keys, and
   notes that the file counts (`moved`), but only if none of them has changed meanwhile and the file is still noted;
3. a manifest that names the file is written, and noted (`listed`).

A file that was never counted is first noted as such (`dropped`: from then on it cannot count), then removed, then
forgotten; a manifest that is missing is written again. So a record is in
the ledger or in a file that counts, never in neither and never in both.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, Protocol

State = Literal["writing", "dropped", "moved", "listed"]


@dataclass(frozen=True, slots=True)
class OldRecord:
    """A record as it was read for the archive."""

    id: int
    key: str
    version: int
    seen_at: int
    """When it was last seen, in Unix milliseconds."""
    row: Mapping[str, Any]
    """Its values and what the ledger keeps about it, as the API shows them."""


@dataclass(frozen=True, slots=True)
class NewFile:
    """A file of the archive that is about to be written."""

    kind: str
    place: str
    """The folder or the address in S3."""
    path: str
    records: int
    bytes: int
    digest: str
    """SHA-256 of its content, in hexadecimal."""


@dataclass(frozen=True, slots=True)
class ArchiveFile:
    """A file of the archive as the ledger knows it."""

    id: int
    new: NewFile
    state: State
    at: datetime
    """When it was noted."""


@dataclass(frozen=True, slots=True)
class ArchivedRecord:
    """Where the last archived state of a record is."""

    kind: str
    key: str
    version: int
    at: datetime
    place: str
    path: str


class Archives(Protocol):
    """What the ledger knows about archived records."""

    def check(self, kind: str) -> None:
        """Raise `Rejected` if records of this kind cannot be archived. Asks no database."""
        ...

    async def count(self, kind: str, before: int) -> int:
        """Count the records that were neither seen nor changed since `before` (Unix milliseconds)."""
        ...

    async def read(self, kind: str, before: int, after: int, most: int) -> Sequence[OldRecord]:
        """Return the next of these records after the id `after`. The newest row of a table is never among them, so that
        its number is not given again."""
        ...

    async def begin(self, new: NewFile) -> int:
        """Note a file that is about to be written. Returns its id."""
        ...

    async def drop(self, file: int) -> bool:
        """Note that a file will never count, so that it may be removed. Returns False if it counts by now."""
        ...

    async def forget(self, file: int) -> None:
        """Forget a file that was dropped and removed."""
        ...

    async def list_(self, file: int) -> None:
        """Note that the manifest of a file that counts is written."""
        ...

    async def unfinished(self, place: str, begun_before: int) -> Sequence[ArchiveFile]:
        """Return the files at this place that count without a manifest, those that were dropped, and those that do not
        count and were begun before this moment: their writers are gone."""
        ...

    async def find(self, kind: str, key: str) -> ArchivedRecord | None:
        """Return where a record is in the archive."""
        ...
