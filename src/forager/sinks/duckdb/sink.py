"""The DuckDB sink: a batch is one transaction of upserts into one file.

The file is opened for each batch and closed after it, because DuckDB lets no other process read a file that one has
open for writing. While a reader has it open, the batch is tried again later.
"""

import asyncio
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import duckdb
import orjson

from forager.core.change import Change
from forager.core.clock import Faults, NoFaults
from forager.core.errors import Permanent, Transient
from forager.core.sink import Batching, SinkRow
from forager.sdk.delivery import ColumnType
from forager.sinks.change_tables import ChangeTable, RecordTables, Row
from forager.sinks.upserts import created, quoted, upsert, view, widened

MOST = 10_000
_TYPES: dict[ColumnType, str] = {
    "STRING": "VARCHAR",
    "INT64": "BIGINT",
    "FLOAT64": "DOUBLE",
    "BOOL": "BOOLEAN",
    "TIMESTAMP": "TIMESTAMP WITH TIME ZONE",
    "DATE": "DATE",
    "NUMERIC": "DECIMAL(19,4)",
    "JSON": "JSON",
}
LONGEST_OBJECT = 1 << 30
"""Bytes of one row that DuckDB's reader of JSON accepts; its default is 16 MB."""
Rows = Sequence[tuple[ChangeTable, Sequence[Row]]]


class DuckDBSink:
    """The sink of one row of the type `duckdb`."""

    def __init__(
        self, row: SinkRow, file: Path, tables: RecordTables, *, age: float = 10.0, faults: Faults | None = None
    ) -> None:
        self.name, self.kinds, self.pipelines = row.name, row.kinds, row.pipelines
        self.batching = Batching(most=MOST, age=age)
        self._file = file
        self._tables = tables
        self._faults = faults or NoFaults()
        self._writing = asyncio.Lock()

    async def write(self, batch: Sequence[Change]) -> bool:
        """Write the rows of a batch in one transaction. Returns False if it has none. Raises `Transient` or
        `Permanent`."""
        rows = self._tables.rows(batch)
        if rows:
            async with self._writing:  # the thread of an attempt that was given up continues
                await asyncio.shield(asyncio.to_thread(self._store, rows))
        return bool(rows)

    def _store(self, rows: Rows) -> None:
        try:
            self._file.parent.mkdir(parents=True, exist_ok=True)
            with duckdb.connect(str(self._file)) as db:
                db.execute("SET threads = 1")  # a batch is small, and the engine needs the processors
                db.execute("BEGIN")
                for table, lines in rows:
                    _prepare(db, table)
                    _insert(db, table, lines)
                    self._faults.at("duckdb-written")
                db.execute("COMMIT")
        except (duckdb.ConversionException, duckdb.InvalidInputException, duckdb.ConstraintException) as error:
            raise Permanent(f"{self._file}: DuckDB refuses a row: {error}") from error
        except (duckdb.Error, OSError) as error:
            raise Transient(f"{self._file}: {str(error).splitlines()[0]}") from error


def _prepare(db: Any, table: ChangeTable) -> None:
    """Create the table and its view, or add the columns that the table lacks. Raises `Transient` if a column has
    another type."""
    there = _columns(db, table)
    missing = [column for column in table.columns if column.name not in there]
    for statement in created(table, _TYPES) if not there else widened(table, there, _TYPES):
        db.execute(statement)
    if missing and (made := view(table)) is not None:
        db.execute(made)
    for column in table.columns:
        has, should = there.get(column.name, _TYPES[column.type]), _TYPES[column.type]
        if has != should:
            raise Transient(
                f"{table.name}.{column.name} is {has}, and should be {should}. Move the file away, then replay."
            )


def _columns(db: Any, table: ChangeTable) -> dict[str, str]:
    sql = "SELECT column_name, data_type FROM duckdb_columns() WHERE table_name = ? AND NOT internal"
    return dict(db.execute(sql, [table.name]).fetchall())


def _insert(db: Any, table: ChangeTable, rows: Sequence[Row]) -> None:
    """Insert rows through a temporary file of JSON lines: row by row, DuckDB takes a hundred times as long."""
    types = ", ".join(f"{quoted(c.name)}: '{'VARCHAR' if c.type == 'JSON' else _TYPES[c.type]}'" for c in table.columns)
    with tempfile.NamedTemporaryFile(suffix=".jsonl") as file:
        file.writelines(orjson.dumps(row) + b"\n" for row in rows)
        file.flush()
        source = (
            f"read_json('{file.name}', format = 'newline_delimited', columns = {{{types}}},"
            f" maximum_object_size = {LONGEST_OBJECT})"
        )
        db.execute(upsert(table, source))
