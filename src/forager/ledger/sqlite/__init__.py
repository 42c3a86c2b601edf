"""The embedded ledger: one process, one writer thread, WAL, `synchronous=FULL`, group commit."""

from forager.ledger.sqlite.store import SqliteLedger

__all__ = ["SqliteLedger"]
