"""Finds a connection pooler, such as PgBouncer, between this process and PostgreSQL."""

from sqlalchemy import Connection, text

from forager.core.errors import Rejected
from forager.ledger.schema.connect import Store, in_transaction

REMEDY = (
    "Set FORAGER_DATABASE_POOLED=true, and FORAGER_DATABASE_DIRECT_URL to the address of the server itself, if it can "
    "be reached; or point FORAGER_DATABASE_URL at the server."
)


def has_pooler(connection: Connection) -> bool:
    """Whether a pooler answers for the server.

    A server tells its process id twice: when the connection begins, and when it is asked. A pooler, which gives the
    connection to other clients between transactions, sends a number of its own at the beginning.
    """
    announced = connection.connection.driver_connection.get_server_pid()  # type: ignore[union-attr]
    return bool(announced != connection.execute(text("SELECT pg_backend_pid()")).scalar_one())


def is_behind_pooler(store: Store) -> bool:
    """Connect to a PostgreSQL database and find out whether a pooler is in between."""
    return in_transaction(store, has_pooler)


def refuse_undeclared_pooler(connection: Connection) -> None:
    """Raise `Rejected` if a pooler is in between: for connections that the settings describe as direct. Prepared
    statements and planner settings would be lost between two transactions, or meet those of another process."""
    if has_pooler(connection):
        raise Rejected(f"A connection pooler is between Forager and PostgreSQL. {REMEDY}")
