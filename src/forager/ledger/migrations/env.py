"""Run by Alembic, both for `forager db …` and for plain `alembic` with the repository's alembic.ini.

Views are dropped before and made again after the migrations, in the same transaction.
"""

import os
from pathlib import Path

from alembic import context
from sqlalchemy import Connection

from forager.ledger.schema.connect import Store, in_transaction, parse_store
from forager.ledger.schema.migrate import alone, migrate_connection
from forager.ledger.schema.namespace import create_namespace, locate


def run(connection: Connection) -> None:
    if connection.dialect.name == "postgresql":
        create_namespace(connection)
    context.configure(
        connection=connection,
        transactional_ddl=True,  # Alembic assumes that SQLite cannot; with our BEGIN it can
        transaction_per_migration=False,
        render_as_batch=True,
    )
    places = [Path(place) for place in context.script.version_locations or ()]
    migrate_connection(connection, places, context.run_migrations)


def store() -> Store:
    """For plain `alembic`: `-x store=…`, else FORAGER_DATABASE_URL, else the embedded store in the data folder."""
    named = context.get_x_argument(as_dictionary=True).get("store") or os.environ.get("FORAGER_DATABASE_URL")
    if named and isinstance(parse_store(named), str):
        return locate(named, os.environ.get("FORAGER_DATABASE_SCHEMA") or "forager")
    return named or Path(os.environ.get("FORAGER_HOME") or ".forager") / "ledger.db"


if context.is_offline_mode():
    raise SystemExit("Forager's migrations look at the store they change: run them without --sql.")

given = context.config.attributes.get("connection")
if given is None:
    with alone(store()):
        in_transaction(store(), run)
else:
    run(given)
