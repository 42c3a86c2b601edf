"""The ledger for many processes, on PostgreSQL. Open work has its own table; settling and leasing are one
transaction."""

from forager.ledger.postgres.store import PostgresLedger

__all__ = ["PostgresLedger"]
