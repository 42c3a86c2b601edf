"""A place on a local disk."""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from forager.core.place import FileInfo


class Folder:
    """Implements `core.place.Place` below the folder `root`, which is made when it is needed. Every write is synced."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def put(self, path: str, content: bytes) -> None:
        file = self._root / path
        self._make(file.parent)
        with file.open("wb") as out:
            out.write(content)
            out.flush()
            os.fsync(out.fileno())
        _sync(file.parent)

    def create(self, path: str, content: bytes) -> bool:
        # A link to a complete file appears in one step, and only if there is none of that name.
        file = self._root / path
        fresh = file.with_name(f".{file.name}.{os.urandom(8).hex()}")
        self.put(str(fresh.relative_to(self._root)), content)
        try:
            os.link(fresh, file)
        except FileExistsError:
            return False
        finally:
            fresh.unlink()
        _sync(file.parent)
        return True

    def get(self, path: str) -> bytes:
        return (self._root / path).read_bytes()

    def find(self, path: str) -> FileInfo | None:
        try:
            known = (self._root / path).stat()
        except FileNotFoundError:
            return None
        return FileInfo(path, known.st_size, known.st_mtime_ns // 1_000_000)

    def walk(self, under: str) -> Iterator[FileInfo]:
        for path in self.list(under):
            if (found := self.find(path)) is not None:
                yield found

    def list(self, under: str) -> Iterator[str]:
        for file in (self._root / under).rglob("*"):
            if file.is_file() and not file.name.startswith("."):
                yield file.relative_to(self._root).as_posix()

    def delete(self, path: str) -> None:
        with contextlib.suppress(FileNotFoundError):
            (self._root / path).unlink()

    def _make(self, folder: Path) -> None:
        """Create a folder and sync the names of all that are new to disk."""
        missing = [each for each in (folder, *folder.parents) if not each.exists()]
        folder.mkdir(parents=True, exist_ok=True)
        for each in missing:
            _sync(each.parent)


def _sync(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
