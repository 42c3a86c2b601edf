"""The PostgreSQL sink: a batch is one transaction of upserts into tables that are created and widened by themselves."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import asyncpg
import orjson

from forager.core.change import Change
from forager.core.clock import Faults, NoFaults
from forager.core.errors import Permanent, Transient
from forager.core.sink import Batching, SinkRow
from forager.sdk.delivery import ColumnType
from forager.sinks.change_tables import ChangeTable, RecordTables, Row
from forager.sinks.upserts import created, quoted, upsert, view, widened

if TYPE_CHECKING:
    Connection = asyncpg.Connection[asyncpg.Record]
else:
    Connection = asyncpg.Connection  # the driver's own class takes no type parameter

MOST = 2_000
CONNECT_SECONDS = 10.0
_TYPES: dict[ColumnType, str] = {
    "STRING": "text",
    "INT64": "bigint",
    "FLOAT64": "double precision",
    "BOOL": "boolean",
    "TIMESTAMP": "timestamptz",
    "DATE": "date",
    "NUMERIC": "numeric(19,4)",
    "JSON": "jsonb",
}
_COLUMNS = """
SELECT a.attname AS name, format_type(a.atttypid, a.atttypmod) AS type FROM pg_attribute a
WHERE a.attrelid = to_regclass($1) AND a.attnum > 0 AND NOT a.attisdropped
"""
_SHOWN = {"timestamptz": "timestamp with time zone"}
BAD_DATA = (asyncpg.DataError, asyncpg.ProgramLimitExceededError, asyncpg.IntegrityConstraintViolationError)
"""Errors that blame a row: a value that its column cannot hold, a key that is too long for an index."""
CHANGED_TABLES = (asyncpg.UndefinedTableError, asyncpg.UndefinedColumnError, asyncpg.InvalidSchemaNameError)


class PostgresSink:
    """The sink of one row of the type `postgres`."""

    def __init__(
        self,
        row: SinkRow,
        url: str,
        schema: str,
        tables: RecordTables,
        *,
        age: float = 1.0,
        timeout: float = 60.0,
        faults: Faults | None = None,
    ) -> None:
        self.name, self.kinds, self.pipelines = row.name, row.kinds, row.pipelines
        self.batching = Batching(most=MOST, age=age)
        self._url = url
        self._schema = quoted(schema)
        self._tables = tables
        self._timeout = timeout
        self._faults = faults or NoFaults()
        self._connected: Connection | None = None
        self._ready: set[str] = set()
        """Tables that have all columns, as far as this process has looked."""

    async def write(self, batch: Sequence[Change]) -> bool:
        """Write the rows of a batch in one transaction. Returns False if it has none. Raises `Transient` or
        `Permanent`."""
        rows = self._tables.rows(batch)
        if not rows:
            return False
        async with self._connection() as db:
            for table, _ in rows:
                await self._prepare(db, table)
            async with db.transaction():
                for table, lines in rows:
                    source = f"json_populate_recordset(NULL::{self._schema}.{quoted(table.name)}, $1::json)"
                    await db.execute(upsert(table, source, f"{self._schema}."), encoded(table, lines))
                    self._faults.at("postgres-written")
        return True

    async def close(self) -> None:
        """Close the connection. A later batch opens a new one."""
        db, self._connected = self._connected, None
        if db is not None:
            await db.close(timeout=CONNECT_SECONDS)

    async def _prepare(self, db: Connection, table: ChangeTable) -> None:
        """Create the schema, the table and its view, or add the columns that the table lacks. Other columns are left
        alone. Raises `Transient` if a column has another type."""
        if table.name in self._ready:
            return
        where = f"{self._schema}."
        there = await self._columns(db, table)
        # Two sinks that create the same table at once wait for one another: IF NOT EXISTS alone can collide.
        async with db.transaction():
            await db.execute("SELECT pg_advisory_xact_lock(hashtext('forager sink'))")
            if not there:
                await db.execute(f"CREATE SCHEMA IF NOT EXISTS {self._schema}")
                for statement in created(table, _TYPES, where):
                    await db.execute(statement)
            for statement in widened(table, await self._columns(db, table), _TYPES, where):
                await db.execute(statement)
            if (made := view(table, where)) is not None:
                await db.execute(made)
        for name, has in (await self._columns(db, table)).items():
            should = next((_TYPES[column.type] for column in table.columns if column.name == name), has)
            if has != _SHOWN.get(should, should):
                raise Transient(
                    f"{table.name}.{name} in PostgreSQL is {has}, and should be {should}. Rename this table there, or"
                    " name another schema in FORAGER_POSTGRES_SINK_SCHEMA."
                )
        self._ready.add(table.name)

    async def _columns(self, db: Connection, table: ChangeTable) -> dict[str, str]:
        rows = await db.fetch(_COLUMNS, f"{self._schema}.{quoted(table.name)}")
        return {row["name"]: row["type"] for row in rows}

    @asynccontextmanager
    async def _connection(self) -> AsyncIterator[Connection]:
        """Lend the connection, and raise the driver's errors as ours."""
        try:
            if self._connected is None or self._connected.is_closed():
                self._connected = await asyncpg.connect(
                    self._url, timeout=CONNECT_SECONDS, command_timeout=self._timeout, statement_cache_size=0
                )
            yield self._connected
        except CHANGED_TABLES as error:
            self._ready.clear()
            raise Transient(f"PostgreSQL: {error}. The table is checked again.") from error
        except BAD_DATA as error:
            raise Permanent(f"PostgreSQL refuses a row: {error}.") from error
        except asyncpg.InsufficientPrivilegeError as error:
            raise Transient(f"PostgreSQL: {error}. Grant it to the user of FORAGER_POSTGRES_SINK_URL.") from error
        except (asyncpg.PostgresError, asyncpg.InterfaceError, OSError, TimeoutError) as error:
            await self._drop()
            why = str(error) or f"no answer within {self._timeout:g} s"
            raise Transient(f"The PostgreSQL of the sink {self.name!r} cannot be used now: {why}.") from error
        except (asyncio.CancelledError, GeneratorExit):
            await self._drop()  # a statement may still run on it
            raise

    async def _drop(self) -> None:
        db, self._connected = self._connected, None
        if db is not None:
            db.terminate()


def encoded(table: ChangeTable, rows: Sequence[Row]) -> str:
    """Return rows as a JSON array. PostgreSQL's texts hold no NUL character: it is left out."""
    document = orjson.dumps([_nested(table, row) for row in rows])
    if rb"\u0000" in document:
        document = orjson.dumps(_without_nul(orjson.loads(document)))
    return document.decode()


def _nested(table: ChangeTable, row: Row) -> dict[str, Any]:
    """Return a row with its JSON columns as values: as texts they would become JSON strings."""
    names = {column.name for column in table.columns if column.type == "JSON"}
    return {
        column.name: orjson.Fragment(row[column.name])
        if column.name in names and row[column.name] is not None
        else row[column.name]
        for column in table.columns
    }


def _without_nul(value: Any) -> Any:
    if isinstance(value, str):
        return value.replace("\0", "")
    if isinstance(value, list):
        return [_without_nul(each) for each in value]
    if isinstance(value, dict):
        return {_without_nul(name): _without_nul(each) for name, each in value.items()}
    return value
