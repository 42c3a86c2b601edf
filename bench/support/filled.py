"""Stores of any size, filled by one statement: a benchmark measures among this number of records."""

import time
from collections.abc import Callable

import uvloop

from bench.support.options import StoreKind
from bench.support.stores import Store, Stores, run_sql
from forager.core.pipeline import Pipeline
from forager.ledger.catalog import Catalog
from forager.ledger.schema.migrate import create_postgres, create_sqlite

Rows = Callable[[StoreKind], tuple[str, str]]
"""Returns the columns, and their values as SQL expressions of the number `k`."""


def filled_store(
    stores: Stores, kind: StoreKind, pipeline: Pipeline, table: str, size: int, rows: Rows, *, analyse: bool = False
) -> Store:
    """Return a new store of this pipeline with this number of rows in a table, numbered from 1."""
    started, store = time.perf_counter(), stores.new(kind)
    if store.url is None:
        create_sqlite(store.path, Catalog([pipeline]))
    else:
        create_postgres(store.url, Catalog([pipeline]))
    then = ["ANALYZE"] if analyse else []
    uvloop.run(run_sql(store, lambda of: [_insert(of, table, size, *rows(of)), *then]))
    print(f"  filled {kind} with {size:,} {table} in {time.perf_counter() - started:.1f} s", flush=True)
    return store


def _insert(kind: StoreKind, table: str, size: int, columns: str, values: str) -> str:
    if kind == "sqlite":
        series = f"WITH RECURSIVE s(k) AS (SELECT 1 UNION ALL SELECT k + 1 FROM s WHERE k < {size}) "
        source = "s"
    else:
        series, source = "", f"generate_series(1, {size}) AS s(k)"
    return f"INSERT INTO {table} ({columns}) {series}SELECT {values} FROM {source}"
