"""Connections behind a pooler in transaction mode, such as PgBouncer.

Such a pooler assigns a server to a client at the start of each transaction, so nothing may outlive one: no prepared
statement, no setting of the session, no session lock. Everything that a transaction needs is set at its start.
"""

from typing import TYPE_CHECKING, ClassVar

import asyncpg

if TYPE_CHECKING:
    Connection = asyncpg.Connection[asyncpg.Record]
else:
    Connection = asyncpg.Connection  # the driver's own class takes no type parameter


class PooledConnection(Connection):
    """A connection that sends its settings together with each BEGIN, which costs no further round trip."""

    settings: ClassVar[str] = ""

    async def execute(self, query: str, *args: object, timeout: float | None = None) -> str:
        if query.startswith("BEGIN"):  # the driver begins every transaction with this method; a savepoint is not one
            query += self.settings
        return await super().execute(query, *args, timeout=timeout)


def connection_with(settings: dict[str, str]) -> type[PooledConnection]:
    """Return the class of connections whose transactions have these settings."""
    each = [f"set_config('{name}', {_literal(value)}, true)" for name, value in settings.items()]
    return type("PooledConnection", (PooledConnection,), {"settings": f" SELECT {', '.join(each)};"})


def _literal(value: str) -> str:
    doubled = value.replace("'", "''")
    return f"'{doubled}'"
