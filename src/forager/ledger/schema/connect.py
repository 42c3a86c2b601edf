"""A SQLAlchemy connection to either store, for creating and migrating the schema. The hot paths use the drivers
directly.

Everything done through it is one transaction, including DDL: an upgrade that fails half-way leaves no trace. It works
through a connection pooler in transaction mode as well, whatever the settings say: the connection keeps no state.
"""

import asyncio
import contextlib
import os
import sqlite3
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from sqlalchemy import Connection, create_engine, event, text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import NullPool

from forager.core.errors import StoreError, StoreFull, StoreUnavailable
from forager.ledger.schema.search_path import split_search_path
from forager.ledger.sqlite.lock import make_private

if TYPE_CHECKING:
    from sqlalchemy.ext.asyncio import AsyncEngine

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
    """Whether a driver's error means that the disk of the store is full: of SQLite, or by PostgreSQL's code for it."""
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
        raise StoreUnavailable(f"The ledger's database said: {error.orig}") from error
    except OSError as error:
        raise StoreUnavailable(f"The ledger's database cannot be reached: {error}") from error


def _on_sqlite(path: Path, work: Callable[[Connection], T]) -> T:
    make_private(path.parent)
    _keep_private(path)
    engine = create_engine(f"sqlite:///{path}", poolclass=NullPool, connect_args={"timeout": BUSY_SECONDS})
    # By default the driver commits before DDL. This setting leaves transactions to the BEGIN below.
    event.listen(engine, "connect", lambda db, _: setattr(db, "isolation_level", None))
    event.listen(engine, "begin", lambda db: db.exec_driver_sql("BEGIN IMMEDIATE"))
    # A new file is laid out so that pages which a removal frees can go back to the system; an old one stays as it is.
    event.listen(engine, "connect", lambda db, _: db.execute("PRAGMA auto_vacuum=INCREMENTAL"))
    # What is committed survives a power cut, whatever default the library was built with.
    event.listen(engine, "connect", lambda db, _: db.execute("PRAGMA synchronous=FULL"))
    with engine.begin() as connection:
        return work(connection)


def _keep_private(path: Path) -> None:
    """Make the store readable for this user alone, whatever the umask is. SQLite gives its own files beside it the same
    mode. A file of another user stays as it is."""
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

        import_module("greenlet")  # SQLAlchemy needs it to run asyncpg, and would say so less clearly
    except ImportError as missing:
        raise StoreUnavailable(
            f"PostgreSQL needs {missing.name}: install it with `pip install 'forager-data[postgres]'`."
        ) from missing

    async def connect(*_: Any, **__: Any) -> Any:
        # asyncpg reads the URL itself, so that every option that works for the ledger works here.
        return await asyncpg.connect(url, statement_cache_size=0)

    # A pooler may keep a prepared statement and give it to another client: none has a name, none is used twice.
    uncached = {"prepared_statement_cache_size": 0}
    return create_async_engine(
        "postgresql+asyncpg://", async_creator=connect, connect_args=uncached, poolclass=NullPool
    )
