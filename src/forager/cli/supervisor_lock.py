"""Says that a `forager up` looks after this data folder, even in the moment in which its child is being restarted.

Without it a command that came in that moment would open the store itself, and keep the child from coming back.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from forager.core.errors import StoreLocked
from forager.ledger.sqlite.lock import StoreLock, read_owner


@contextmanager
def looking_after(home: Path) -> Iterator[None]:
    """Held by the supervising parent; the system lets go of it when that dies."""
    lock = StoreLock(_path(home))
    try:
        lock.take()
    except StoreLocked:
        raise locked_by_up(home) from None
    try:
        yield
    finally:
        lock.release()


def is_looked_after(home: Path) -> bool:
    return read_owner(_path(home)) is not None


def locked_by_up(home: Path) -> StoreLocked:
    owner = read_owner(home / "lock") or read_owner(_path(home))
    who = f"process {owner.pid}" if owner else "another process"
    return StoreLocked(
        f"The embedded store in {home} belongs to one process, and {who} (`forager up`) has it. Commands find it by"
        " themselves; for several processes use PostgreSQL (FORAGER_DATABASE_URL)."
    )


def _path(home: Path) -> Path:
    return home / "pids" / "up"
