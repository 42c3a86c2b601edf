"""The embedded ledger: one process, one writer thread, WAL, `synchronous=FULL`, group commit."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from forager.ledger.sqlite.store import SqliteLedger

__all__ = ["SqliteLedger"]


def __getattr__(name: str) -> Any:
    """Import the store lazily: a command that only checks the store's owner (`lock`) must not wait for that import."""
    if name != "SqliteLedger":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from forager.ledger.sqlite.store import SqliteLedger

    return SqliteLedger
