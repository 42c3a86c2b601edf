"""The PostgreSQL schema in which the tables live, so that names such as `jobs` or `queue` meet no other program's.

A connection is put there by its `search_path`, which is part of the URL: the ledger's statements name no schema. A
database whose tables were created in `public` by an earlier version is used as it is.
"""

import re

from sqlalchemy import Connection, text

from forager.core.errors import StoreError
from forager.ledger.schema.connect import in_transaction
from forager.ledger.schema.search_path import in_schema, split_search_path

PUBLIC = "public"
_READS = """
SELECT EXISTS (
  SELECT 1 FROM pg_rewrite r JOIN pg_depend d ON d.classid = 'pg_rewrite'::regclass AND d.objid = r.oid
  WHERE r.ev_class = to_regclass(:view) AND d.refobjid = to_regclass(:source)
)
"""
"""Whether one view reads another relation."""
_PLAIN_NAME = re.compile(r"[a-z_][a-z0-9_]*")


def locate(url: str, schema: str) -> str:
    """Return the URL whose connections find the tables: in `schema`, or in `public` if they were created there.

    A URL that has a `search_path` of its own is returned as it is.
    """
    if split_search_path(url)[1] is not None:
        return url
    return in_schema(url, in_transaction(url, lambda db: PUBLIC if _is_in_public_alone(db, schema) else schema))


def create_namespace(connection: Connection) -> None:
    """Create the schema of this connection if it is missing. Raises `StoreError` if the role may not."""
    name = str(connection.execute(text("SHOW search_path")).scalar_one())
    if not _PLAIN_NAME.fullmatch(name) or _exists(connection, name):
        return
    if not connection.execute(text("SELECT has_database_privilege(current_database(), 'CREATE')")).scalar_one():
        raise StoreError(
            f"The schema {name} cannot be created: this role may not create schemas. Grant it CREATE on the database, "
            "or set FORAGER_DATABASE_SCHEMA=public."
        )
    connection.execute(text(f'CREATE SCHEMA "{name}"'))


def add_public_view(connection: Connection, name: str, *statements: str) -> None:
    """Create a view in `public`, where its readers expect it, with these statements, unless the name is taken there or
    the role may not create it: then its contents can be read in the schema of the tables only."""
    free = "SELECT has_schema_privilege('public', 'CREATE') AND to_regclass(:view) IS NULL"
    if own_schema(connection) != PUBLIC and connection.execute(text(free), {"view": f"{PUBLIC}.{name}"}).scalar_one():
        for statement in statements:
            connection.exec_driver_sql(statement)


def drop_public_view(connection: Connection, name: str) -> None:
    """Remove it from `public`, if it is ours: the name may belong to a view of another program."""
    own = own_schema(connection)
    names = {"view": f"{PUBLIC}.{name}", "source": f"{own}.{name}"}
    if own != PUBLIC and connection.execute(text(_READS), names).scalar_one():
        connection.execute(text(f'DROP VIEW {PUBLIC}."{name}"'))


def own_schema(connection: Connection) -> str:
    """The schema of the tables; `public` on a store that has no schemas."""
    if connection.dialect.name != "postgresql":
        return PUBLIC
    return str(connection.execute(text("SELECT current_schema()")).scalar_one())


def _is_in_public_alone(connection: Connection, schema: str) -> bool:
    if connection.execute(text("SELECT to_regclass(:own)"), {"own": f"{schema}.alembic_version"}).scalar_one() or (
        not connection.execute(text("SELECT to_regclass('public.alembic_version')")).scalar_one()
    ):
        return False
    ours = "SELECT EXISTS (SELECT 1 FROM public.alembic_version WHERE version_num LIKE 'core\\_%')"
    return bool(connection.execute(text(ours)).scalar_one())


def _exists(connection: Connection, schema: str) -> bool:
    return connection.execute(text("SELECT to_regnamespace(:name)"), {"name": schema}).scalar_one() is not None
