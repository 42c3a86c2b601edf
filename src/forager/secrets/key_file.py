"""A file with keys, newest first, readable by its owner only. It is replaced atomically, by one process at a time."""

import fcntl
import os
import re
import secrets
import stat
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from forager.core.errors import FieldError, Rejected

_LINE = re.compile(r"[A-Za-z0-9_-]{43}")
LARGEST = 64 * 1024


def new_key() -> str:
    return secrets.token_urlsafe(32)


class KeyFile:
    def __init__(self, path: Path, variable: str) -> None:
        self._path = path
        self._variable = variable

    def stamp(self) -> object:
        """Return a value that changes whenever the file changes, or None if the file does not exist."""
        try:
            status = self._path.lstat()
        except OSError:
            return None
        return status.st_ino, status.st_mtime_ns, status.st_size

    def read(self, *, make: bool = False) -> list[str]:
        """Return the keys, or an empty list if the file does not exist. With `make`, create it with a first key."""
        if not self._is_there():
            return self.change(lambda keys: keys or [new_key()]) if make else []
        with self._explained():
            return self._read()

    def change(self, by: Callable[[list[str]], Sequence[str]]) -> list[str]:
        """Replace the keys by `by(keys)`. The file is synced to disk when this returns."""
        with self._explained():
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with locked(self._path.parent):
                before = self._read() if self._is_there() else []
                after = list(by(before))
                if after != before:
                    write_whole(self._path, "".join(f"{key}\n" for key in after))
                return after

    def _is_there(self) -> bool:
        return self._path.is_symlink() or self._path.exists()

    def _read(self) -> list[str]:
        if self._path.is_symlink():
            raise self._unusable("is a link", f"Replace it by the file itself, then: chmod 600 {self._path}")
        descriptor = os.open(self._path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as file:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode):
                raise self._unusable("is not a file", "Put the key file in its place")
            if status.st_mode & 0o077:
                mode = stat.S_IMODE(status.st_mode)
                remedy = f"Run: chmod 600 {self._path}. If others may have read it, run: forager db rotate-key"
                raise self._unusable(f"can be read or changed by other users (mode {mode:o})", remedy)
            text = file.read(LARGEST).decode("ascii", "replace")
        lines = text.split()
        if not lines or not all(_LINE.fullmatch(line) for line in lines):
            raise self._unusable("is empty or damaged", "Bring back a copy of it: without it no secret can be read")
        return lines

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise Rejected(
                f"the key file {self._path} cannot be used ({error.strerror}). Make the folder writable for this user,"
                f" set FORAGER_HOME to another one, or set {self._variable}.",
                fields=[FieldError("FORAGER_HOME", f"the data folder cannot hold {self._path.name}")],
            ) from None

    def _unusable(self, what: str, remedy: str) -> Rejected:
        return Rejected(
            f"the key file {self._path} {what}. {remedy}.", fields=[FieldError(self._path.name, f"the key file {what}")]
        )


def write_whole(path: Path, text: str) -> None:
    """Write to a temporary file and rename it, so that a crash leaves either the old keys or the new ones."""
    fresh = path.with_name(f"{path.name}.new")
    fresh.unlink(missing_ok=True)
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "w", encoding="ascii") as file:
        os.fchmod(descriptor, 0o600)
        file.write(text)
        file.flush()
        os.fsync(descriptor)
    fresh.replace(path)


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold a lock, so that one process at a time changes the file. Its folder is synced to disk at the end."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
