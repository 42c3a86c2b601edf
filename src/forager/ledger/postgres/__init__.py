"""The ledger for many processes: PostgreSQL, open work in a table of its own, one transaction per turn."""

from forager.ledger.postgres.store import PostgresLedger

__all__ = ["PostgresLedger"]
