"""The service key: created on the first start, stored in a file that only its owner can read, compared in constant
time.

A key is never logged, never put into an error, and never compared with `==`.
"""

import fcntl
import os
import re
import secrets
import stat
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from ipaddress import ip_address
from itertools import pairwise
from pathlib import Path

from pydantic import SecretStr

from forager.core.errors import FieldError, Rejected

# A file with keys, newest first, readable by its owner only. It is replaced atomically, by one process at a time.


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


FILE = "service.key"
VARIABLE = "FORAGER_SERVICE_KEY"
SHORTEST = 32
LEAST_DISTINCT = 10
MAKE_ONE = f'Set {VARIABLE} to the output of: python3 -c "import secrets; print(secrets.token_urlsafe(32))"'

# Words in the sample keys of documentation, examples and other programs. A random key practically never contains one.
_KNOWN = re.compile(
    r"(change|replace)[-_ ]?(me|it|this)|default|example|password|placeholder|qwerty"
    r"|secret|service[-_ ]?key|test[-_ ]key|your[-_ ]",
    re.IGNORECASE,
)


def service_key(home: Path, configured: SecretStr | None) -> tuple[str, bool]:
    """Return the key that callers must send, and whether it was created just now (then show it once).

    A configured key takes precedence over the file. Processes that start at the same time agree on one key.
    """
    if configured is not None:
        return _sendable(configured.get_secret_value()), False
    path = home / FILE
    try:
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
        with locked(home):
            if not path.is_symlink() and not path.exists():
                return _create(path), True
            return _read(path), False
    except OSError as error:
        raise Rejected(
            f"the key file {path} cannot be used ({error.strerror}). "
            f"Make the folder writable for this user, set FORAGER_HOME to another one, or set {VARIABLE}.",
            fields=[FieldError("FORAGER_HOME", "the data folder cannot hold the service key")],
        ) from None


def read_service_key(home: Path) -> str | None:
    """Return the key of a running `up`, for a client on the same machine; None if there is no key file. Creates
    nothing."""
    path = home / FILE
    try:
        return _read(path)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise Rejected(f"the key file {path} cannot be read ({error.strerror}). Run as the user who owns it.") from None


def service_key_for(home: Path, configured: SecretStr | None) -> str:
    """Return the key that a Forager with this data folder and this setting requires; empty if there is none yet."""
    if configured is not None:
        return configured.get_secret_value()
    return read_service_key(home) or ""


def check_bind(host: str, key: str | None) -> None:
    """Raise `Rejected` for an address that other machines can reach, unless the key is strong."""
    if is_loopback(host):
        return
    if weakness := _weakness(key or ""):
        raise Rejected(
            f"listening on {host or 'every address'} needs a strong service key, and this one {weakness}. "
            f"{MAKE_ONE}; or listen on 127.0.0.1.",
            fields=[FieldError(VARIABLE, f"the key {weakness}")],
        )


def is_loopback(host: str) -> bool:
    """Decide by the text alone: a name that needs a resolver does not count as loopback."""
    if host.lower() == "localhost":
        return True
    try:
        address = ip_address(host)
    except ValueError:
        return False
    mapped = getattr(address, "ipv4_mapped", None)
    return bool((mapped or address).is_loopback)


def _weakness(key: str) -> str | None:
    if not key:
        return "is not set"
    if len(key) < SHORTEST:
        return f"is shorter than {SHORTEST} characters"
    if _KNOWN.search(key):
        return "contains a word that is typical of sample keys"
    steps = [abs(ord(after) - ord(before)) for before, after in pairwise(key)]
    repeats = key in (key + key)[1:-1]
    if len(set(key)) < LEAST_DISTINCT or repeats or sum(step <= 1 for step in steps) > len(steps) // 2:
        return "is too regular to be random"
    return None


def _sendable(key: str) -> str:
    if not re.fullmatch(r"[\x21-\x7e]+", key):
        raise Rejected(
            f"the service key contains characters that a header cannot have. {MAKE_ONE}.",
            fields=[FieldError(VARIABLE, "use printable ASCII characters without spaces")],
        )
    return key


def _create(path: Path) -> str:
    key = new_key()
    write_whole(path, f"{key}\n")
    return key


def _read(path: Path) -> str:
    if path.is_symlink():
        raise _unusable(path, "is a link", f"Replace it by the file itself, then: chmod 600 {path}")
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise _unusable(path, "is not a file", "Remove it, and the next start makes a key")
        if status.st_mode & 0o077:
            mode = stat.S_IMODE(status.st_mode)
            remedy = f"Run: chmod 600 {path}. If others may have read it, remove it, and the next start makes a new key"
            raise _unusable(path, f"can be read or changed by other users (mode {mode:o})", remedy)
        text = file.read(4097)
    key = text.decode("ascii", "replace").strip()
    if not re.fullmatch(rf"[\x21-\x7e]{{{SHORTEST},4096}}", key):
        raise _unusable(path, "is empty or damaged", "Remove it, and the next start makes a new key")
    return key


def _unusable(path: Path, what: str, remedy: str) -> Rejected:
    return Rejected(f"the key file {path} {what}. {remedy}.", fields=[FieldError(FILE, f"the key file {what}")])
