"""The port of file storage: a few verbs that a folder and an object store have in common.

Everything behind it blocks, so callers use it in a thread. It never retries by itself: a request that is sent again
after a lost answer would find its own file, and `create` would report that another writer was first.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class FileInfo:
    """What a place knows about a file."""

    path: str
    size: int
    modified_ms: int
    """When it was last written, by the clock of the place, in Unix milliseconds."""


class Place(Protocol):
    """A flat store of files. A path has `/` between its parts and never begins with one.

    Every verb raises `OSError` or `Transient` if the place cannot be reached; the effect is then unknown, and may even
    happen later.
    """

    def put(self, path: str, content: bytes) -> None:
        """Write a file durably; one of that path is replaced."""
        ...

    def create(self, path: str, content: bytes) -> bool:
        """Write a file durably, in one step, if there is none of that path. Returns False if there is one."""
        ...

    def get(self, path: str) -> bytes:
        """Return a file. Raises `FileNotFoundError` if there is none."""
        ...

    def find(self, path: str) -> FileInfo | None:
        """Return what is known about a file; None if there is none."""
        ...

    def walk(self, under: str) -> Iterator[FileInfo]:
        """Yield all files under a folder, in any order; names that begin with a dot are left out."""
        ...

    def list(self, under: str) -> Iterator[str]:
        """Yield the paths of these files."""
        ...

    def delete(self, path: str) -> None:
        """Remove a file, if it is there."""
        ...
