"""Fresh stores for a benchmark, as users have them: SQLite in a file, PostgreSQL with fsync on a private server."""

import contextlib
import itertools
import shutil
import sqlite3
import tempfile
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import asyncpg

from bench.support.options import StoreKind
from forager.core.clock import SystemClock
from forager.core.ledger import Ledger
from forager.ledger.catalog import Catalog
from forager.ledger.schema.migrate import ensure_postgres, ensure_sqlite
from forager.ledger.sqlite import SqliteLedger
from tests.support.postgres import PostgresServer


@dataclass(frozen=True, slots=True)
class Store:
    kind: StoreKind
    home: Path
    """The data folder of the app, and of the embedded store."""
    url: str | None = None
    """URL of the database, on PostgreSQL."""

    @property
    def path(self) -> Path:
        return self.home / "ledger.db"


class Stores(contextlib.AbstractContextManager["Stores"]):
    """Makes stores and takes them away again, with the server that they need."""

    def __init__(self, kinds: tuple[StoreKind, ...], settings: dict[str, str] | None = None) -> None:
        self.kinds = kinds
        self._settings = settings
        self._numbers = itertools.count(1)
        self._stack = contextlib.ExitStack()
        self._server: PostgresServer | None = None

    def __enter__(self) -> Self:
        with contextlib.ExitStack() as stack:
            self._folder = Path(tempfile.mkdtemp(prefix="forager-bench-"))
            stack.callback(shutil.rmtree, self._folder, ignore_errors=True)
            if "postgres" in self.kinds:
                print("starting a private PostgreSQL, fsync on …", flush=True)
                self._server = stack.enter_context(PostgresServer(fsync=True, settings=self._settings))
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def new(self, kind: StoreKind) -> Store:
        home = self._folder / str(next(self._numbers))
        home.mkdir()
        return Store(kind, home, self.new_database() if kind == "postgres" else None)

    def new_database(self) -> str:
        return self.server.create_database()

    def drop(self, store: Store) -> None:
        shutil.rmtree(store.home)
        if store.url is not None:
            self.server.drop_database(store.url)

    def settle(self) -> None:
        """Write out what earlier runs left dirty, so that no run pays for the one before it."""
        if self._server is not None:
            self._server.execute("CHECKPOINT")

    @property
    def server(self) -> PostgresServer:
        if self._server is None:
            raise RuntimeError("this benchmark runs without PostgreSQL")
        return self._server


@contextlib.asynccontextmanager
async def open_ledger(store: Store, catalog: Catalog) -> AsyncIterator[Ledger]:
    """The ledger as the composition root opens it, for a pipeline of the benchmark's own."""
    ledger: Any
    if store.url is None:
        ensure_sqlite(store.path, catalog)
        ledger = await SqliteLedger.open(store.path, catalog, clock=SystemClock())
    else:
        from forager.ledger.postgres import PostgresLedger

        ensure_postgres(store.url, catalog)
        ledger = await PostgresLedger.open(store.url, catalog)
    try:
        yield ledger
    finally:
        await ledger.close()


async def vacuum(store: Store) -> None:
    """Vacuum an idle store now, as autovacuum would within a minute. Analyses nothing."""
    if store.url is not None:
        connection = await asyncpg.connect(store.url)
        try:
            await connection.execute("VACUUM")
        finally:
            await connection.close()


async def run_sql(store: Store, statements: Callable[[StoreKind], list[str]]) -> None:
    """Statements in one transaction, past the ledger: to fill a store, never to measure it."""
    if store.url is None:
        with contextlib.closing(sqlite3.connect(store.path)) as db, db:
            for statement in statements("sqlite"):
                db.execute(statement)
        return
    connection = await asyncpg.connect(store.url)
    try:
        async with connection.transaction():
            for statement in statements("postgres"):
                await connection.execute(statement)
    finally:
        await connection.close()
