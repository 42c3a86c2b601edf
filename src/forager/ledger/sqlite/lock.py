"""The lock of the embedded store. The system releases it when its process dies, so a dead owner blocks no other
process."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import orjson

from forager.core.errors import NotFound, Rejected, StoreLocked


@dataclass(frozen=True, slots=True)
class LockOwner:
    pid: int
    url: str | None
    """Address of its API, if it has one."""


class StoreLock:
    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: int | None = None

    def take(self) -> None:
        with usable_folder(self._path.parent):
            handle = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(handle)
            raise StoreLocked(_taken(self._path.parent, read_owner(self._path))) from None
        self._file = handle
        self.announce(None)

    def announce(self, url: str | None) -> None:
        """Store our process id and the address of our API."""
        if self._file is None:
            return
        os.ftruncate(self._file, 0)
        os.pwrite(self._file, orjson.dumps({"pid": os.getpid(), "url": url}), 0)

    def release(self) -> None:
        if self._file is not None:
            os.ftruncate(self._file, 0)
            os.close(self._file)
            self._file = None


def make_private(folder: Path) -> None:
    """Create the folder, and the folders above it that do not exist, for this user alone, whatever the umask is."""
    for each in reversed([folder, *folder.parents]):
        if not each.exists():
            each.mkdir(mode=0o700, exist_ok=True)
    folder.mkdir(exist_ok=True)  # raises if it is a file


@contextmanager
def usable_folder(folder: Path) -> Iterator[None]:
    """Create the folder if it does not exist. Errors here or in the block are reported with what the user can
    change."""
    try:
        make_private(folder)
        yield
    except OSError as error:
        why = "it is a file" if isinstance(error, FileExistsError) else error.strerror
        raise Rejected(
            f"The data folder {folder} cannot be used: {why}."
            " Name one that this user can write, with --home or FORAGER_HOME."
        ) from error


def has_store(home: Path) -> bool:
    """Return whether a data folder has a store. True also if it is no folder: opening it reports that."""
    return (home / "ledger.db").exists() or (home.exists() and not home.is_dir())


def no_store(home: Path) -> NotFound:
    """Return the error for a data folder without a store: the searched folder, and how to name another one."""
    return NotFound(
        f"There is no Forager store in {home.absolute()}. If yours is elsewhere, name its folder with --home or"
        " FORAGER_HOME. `forager up`, or a command that starts a job, creates one here."
    )


def read_owner(path: Path) -> LockOwner | None:
    """Return the living owner, or None. A file left behind by a dead owner does not count: it is not locked."""
    try:
        handle = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return _parse(os.pread(handle, 4096, 0))
    finally:
        os.close(handle)
    return None


def _taken(folder: Path, owner: LockOwner | None) -> str:
    who = f"process {owner.pid}" if owner else "another process"
    taken = f"The embedded store in {folder} belongs to one process, and {who} has it"
    if owner is not None and owner.url is not None:
        return (
            f"{taken}. Use its API at {owner.url} (commands find it by themselves), or PostgreSQL"
            " (FORAGER_DATABASE_URL) for several processes."
        )
    return (
        f"{taken}, without an API to go through. Wait until it has ended, or end it: nothing is lost. Commands can work"
        " beside `forager up`, and several processes on PostgreSQL (FORAGER_DATABASE_URL)."
    )


def _parse(data: bytes) -> LockOwner | None:
    try:
        fields = orjson.loads(data)
        return LockOwner(int(fields["pid"]), fields["url"])
    except (ValueError, KeyError, TypeError):
        return None
