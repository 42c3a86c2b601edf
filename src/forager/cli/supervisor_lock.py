"""A lock file that shows that a `forager up` supervises this data folder, even while its child is being restarted.

Without it, a command that starts at that moment would open the store itself, and the restarted child would find it
locked.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from forager.core.errors import StoreLocked
from forager.ledger.sqlite.lock import StoreLock, read_owner


@contextmanager
def looking_after(home: Path) -> Iterator[None]:
    """Hold the lock while the block runs. The system releases it when the supervisor dies."""
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
