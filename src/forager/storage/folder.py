"""Storage in a folder on a local disk."""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

from pydantic import BeforeValidator

from forager.core.storage import FileInfo, Storage
from forager.sdk.settings import Location
from forager.storage.s3 import S3
from forager.storage.settings import S3Address, S3Settings


class Folder:
    """Implements `core.storage.Storage` below the folder `root`, which is made when needed. Every write is synced."""

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
        # A link to a complete file appears in one step, and only if the name is free.
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


# Opens the storage that an address names: a folder, or a prefix in S3.


def open_storage(address: Path | S3Address, settings: S3Settings) -> Storage:
    """Return the storage. Nothing is created or sent yet. Raises `Rejected` if it is in S3 and the client library or a
    part of the login is missing."""
    return S3(address, settings) if isinstance(address, S3Address) else Folder(address)


def _read(value: object) -> object:
    return S3Address.parse(value) if isinstance(value, str) and "://" in value else value


StorageAddress = Annotated[Location | S3Address, BeforeValidator(_read)]
"""The type of a setting: a folder, or an address in S3."""
