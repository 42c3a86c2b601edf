"""A SQLAlchemy connection to either store, for creating and migrating the schema. The hot paths use the drivers
directly.

Everything done through it is one transaction, including DDL: an upgrade that fails half-way leaves no trace. It also
works through a connection pooler in transaction mode, whatever the settings are: the connection keeps no state.
"""

import asyncio
import contextlib
import os
import re
import sqlite3
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from sqlalchemy import Connection, create_engine, event, text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import NullPool

from forager.core.errors import Rejected, StoreError, StoreFull, StoreUnavailable
from forager.ledger.sqlite.lock import make_private

if TYPE_CHECKING:
    from sqlalchemy.ext.asyncio import AsyncEngine


# The `search_path` in a database's URL: it leads connections to the schema of the tables, whose statements name none.
#
# A connection pooler refuses it as a start-up parameter, so it is taken out of the URL where a transaction can set it.


_SEARCH_PATH = "search_path"


def in_schema(url: str, schema: str) -> str:
    """Return the URL with this search path added."""
    parts = urlsplit(url)
    return urlunsplit(parts._replace(query=urlencode([*parse_qsl(parts.query), (_SEARCH_PATH, schema)])))


def split_search_path(url: str) -> tuple[str, str | None]:
    """Return the URL without its search path, and that path; None if the URL has none."""
    parts = urlsplit(url)
    query = parse_qsl(parts.query)
    path = dict(query).get(_SEARCH_PATH)
    if path is None:
        return url, None
    return urlunsplit(parts._replace(query=urlencode([pair for pair in query if pair[0] != _SEARCH_PATH]))), path


T = TypeVar("T")
Store = Path | str
"""The file of the embedded store, or the URL of a PostgreSQL database (`postgresql://…`)."""

BUSY_SECONDS = 30
FULL = "The disk that holds the ledger is full. Free some space, then run the command again."
# Two processes that start together must not both make the schema. The number is arbitrary and ours.
_SCHEMA_LOCK = "SELECT pg_advisory_xact_lock(4707250611)"


def parse_store(store: Store) -> Store:
    """`sqlite:///file` is a path, `postgres://` another spelling of `postgresql://`."""
    if isinstance(store, Path):
        return store
    if store.startswith("sqlite:///"):
        return Path(store.removeprefix("sqlite:///"))
    if store.startswith("postgres://"):
        return store.replace("postgres://", "postgresql://", 1)
    if store.startswith("postgresql://"):
        return store
    raise StoreError(
        "FORAGER_DATABASE_URL must be postgresql://user:password@host/database, or absent for the embedded store."
    )


def is_full(error: object) -> bool:
    """Return whether a driver's error means that the disk of the store is full: SQLite's error, or PostgreSQL's code
    for it."""
    code = getattr(error, "sqlite_errorcode", None)
    return code == sqlite3.SQLITE_FULL or getattr(error, "sqlstate", None) == "53100"


def in_transaction(store: Store, work: Callable[[Connection], T]) -> T:
    """Run `work` in one transaction, exclusively with respect to other schema changes.

    Blocks until it is done, and may be called from anywhere; a program with an event loop calls it in a thread.
    """
    store = parse_store(store)
    try:
        return _on_sqlite(store, work) if isinstance(store, Path) else _in_own_loop(store, work)
    except DBAPIError as error:
        if is_full(error.orig):
            raise StoreFull(FULL) from error
        raise StoreUnavailable(f"The ledger's database reported: {error.orig}") from error
    except OSError as error:
        raise StoreUnavailable(f"The ledger's database cannot be reached: {error}") from error


def _on_sqlite(path: Path, work: Callable[[Connection], T]) -> T:
    make_private(path.parent)
    _keep_private(path)
    engine = create_engine(f"sqlite:///{path}", poolclass=NullPool, connect_args={"timeout": BUSY_SECONDS})
    # The driver commits before DDL by default. This setting leaves transactions to the BEGIN below.
    event.listen(engine, "connect", lambda db, _: setattr(db, "isolation_level", None))
    event.listen(engine, "begin", lambda db: db.exec_driver_sql("BEGIN IMMEDIATE"))
    # A new file gets incremental vacuum, so that freed pages can go back to the system; an old file keeps its layout.
    event.listen(engine, "connect", lambda db, _: db.execute("PRAGMA auto_vacuum=INCREMENTAL"))
    # Commits survive a power cut, whatever default the library was built with.
    event.listen(engine, "connect", lambda db, _: db.execute("PRAGMA synchronous=FULL"))
    with engine.begin() as connection:
        return work(connection)


def _keep_private(path: Path) -> None:
    """Make the store readable for this user alone, whatever the umask is. SQLite gives its WAL files the same mode. A
    file of another user is not changed."""
    os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
    for each in (path, path.with_name(f"{path.name}-wal"), path.with_name(f"{path.name}-shm")):
        with contextlib.suppress(FileNotFoundError, PermissionError):
            if each.stat().st_mode & 0o077:
                each.chmod(0o600)


def _in_own_loop(url: str, work: Callable[[Connection], T]) -> T:
    """asyncpg needs an event loop, and the caller's may be running: a thread of its own always has room for one."""
    with ThreadPoolExecutor(1, thread_name_prefix="ledger-schema") as pool:
        return pool.submit(asyncio.run, _on_postgres(url, work)).result()


async def _on_postgres(url: str, work: Callable[[Connection], T]) -> T:
    address, search_path = split_search_path(url)

    def locked(connection: Connection) -> T:
        connection.execute(text(_SCHEMA_LOCK))
        if search_path is not None:
            connection.execute(text("SELECT set_config('search_path', :path, true)"), {"path": search_path})
        return work(connection)

    engine = _postgres_engine(address)
    async with engine.begin() as connection:
        return await connection.run_sync(locked)


def _postgres_engine(url: str) -> "AsyncEngine":
    try:
        import asyncpg
        from sqlalchemy.ext.asyncio import create_async_engine

        import_module("greenlet")  # SQLAlchemy needs it to run asyncpg, and its own error is less clear
    except ImportError as missing:
        raise StoreUnavailable(
            f"PostgreSQL needs {missing.name}: install it with `pip install 'forager-data[postgres]'`."
        ) from missing

    async def connect(*_: Any, **__: Any) -> Any:
        # asyncpg parses the URL itself, so that every option of the ledger's URL works here.
        return await asyncpg.connect(url, statement_cache_size=0)

    # A pooler may keep a prepared statement and give it to another client: none has a name, none is used twice.
    uncached = {"prepared_statement_cache_size": 0}
    return create_async_engine(
        "postgresql+asyncpg://", async_creator=connect, connect_args=uncached, poolclass=NullPool
    )


# The PostgreSQL schema in which the tables live, so that names such as `jobs` or `queue` meet no other program's.
#
# A connection is put there by its `search_path`, which is part of the URL: the ledger's statements name no schema. A
# database whose tables were created in `public` by an earlier version is used as it is.


PUBLIC = "public"
_READS = """
SELECT EXISTS (
  SELECT 1 FROM pg_rewrite r JOIN pg_depend d ON d.classid = 'pg_rewrite'::regclass AND d.objid = r.oid
  WHERE r.ev_class = to_regclass(:view) AND d.refobjid = to_regclass(:source)
)
"""
"""True if one view reads another relation."""
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
    """Return the schema of the tables; `public` on a store that has no schemas."""
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


# Finds a connection pooler, such as PgBouncer, between this process and PostgreSQL.


REMEDY = (
    "Set FORAGER_DATABASE_POOLED=true, and FORAGER_DATABASE_DIRECT_URL to the address of the server itself, if it can "
    "be reached; or point FORAGER_DATABASE_URL at the server."
)


def has_pooler(connection: Connection) -> bool:
    """Return whether a pooler answers for the server.

    A server reports its process id at connection start and on request, both equal. A pooler, which gives the connection
    to other clients between transactions, sends a number of its own at the start.
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
