"""The ClickHouse sink: tables that are created and widened by themselves, and inserts that may be repeated.

Each table is a `ReplacingMergeTree` with the number of the change as its version, so that of rows with one key the
latest remains, in whatever order they arrive. A repeated insert therefore has no effect on `SELECT … FINAL`. A table is
partitioned by the month of the change: background merges only join rows of one month, and `FINAL` joins them over all
months. This leaves old months untouched on disk, at the price of at most one row per record and month.
"""

from collections.abc import Sequence

import orjson

from forager.core.change import Change
from forager.core.clock import Faults, NoFaults
from forager.core.errors import Transient
from forager.core.sink import Batching, SinkRow
from forager.sdk.delivery import ColumnType
from forager.sinks.change_tables import HISTORY, ChangeTable, RecordTables, Row, TableColumn
from forager.sinks.clickhouse.client import ClickHouseClient, TableMissing, quoted

MOST = 10_000
OLDEST = (21, 12)
"""The first version of ClickHouse with all types of our columns."""
NOW = "_now"
"""Suffix of the views that have the present state without duplicates and without records that are gone."""
_TYPES: dict[ColumnType, str] = {
    "STRING": "String",
    "INT64": "Int64",
    "FLOAT64": "Float64",
    "BOOL": "Bool",
    "TIMESTAMP": "DateTime64(3, 'UTC')",
    "DATE": "Date32",
    "NUMERIC": "Decimal(19, 4)",
    "JSON": "String",
}


class ClickHouseSink:
    """The sink of one row of the type `clickhouse`."""

    def __init__(
        self,
        row: SinkRow,
        client: ClickHouseClient,
        tables: RecordTables,
        *,
        age: float = 5.0,
        faults: Faults | None = None,
    ) -> None:
        """`age`: seconds for which changes wait for one another, since every insert is a part that must be merged."""
        self.name, self.kinds, self.pipelines = row.name, row.kinds, row.pipelines
        self.batching = Batching(most=MOST, age=age)
        self._client = client
        self._tables = tables
        self._faults = faults or NoFaults()
        self._ready: set[str] = set()
        """Tables that have all columns, as far as this process has looked."""

    async def write(self, batch: Sequence[Change]) -> bool:
        """Insert the rows of a batch, table by table. Returns False if it has none. Raises `Transient` or
        `Permanent`."""
        rows = self._tables.rows(batch)
        for table, lines in rows:
            await self._insert(table, lines)
            self._faults.at("clickhouse-inserted")
        return bool(rows)

    async def close(self) -> None:
        """Close the connections."""
        await self._client.close()

    async def _insert(self, table: ChangeTable, rows: Sequence[Row]) -> None:
        await self._prepare(table)
        try:
            await self._client.insert(table.name, b"".join(orjson.dumps(row) + b"\n" for row in rows))
        except TableMissing:
            self._ready.discard(table.name)
            raise

    async def _prepare(self, table: ChangeTable) -> None:
        """Create the database, the table and its view, or add the columns that the table lacks. Other columns are left
        alone. Raises `Transient` if a column has another type."""
        if table.name in self._ready:
            return
        if not self._ready:
            (server,) = await self._client.read("SELECT version() AS version", in_database=False)
            require_version(str(server["version"]))
        database = self._client.server.database
        there = await self._columns(table)
        if not there:
            await self._client.run(f"CREATE DATABASE IF NOT EXISTS {quoted(database)}", in_database=False)
            await self._client.run(created(table))
            there = await self._columns(table)
        for column in table.columns:
            has, should = there.get(column.name), type_of(column)
            if has is None:
                await self._client.run(
                    f"ALTER TABLE {quoted(table.name)} ADD COLUMN IF NOT EXISTS {quoted(column.name)} {should}"
                )
            elif has != should:
                raise Transient(
                    f"{database}.{table.name}.{column.name} in ClickHouse is {has}, and should be {should}. Rename this"
                    " table there, or name another database in FORAGER_CLICKHOUSE_DATABASE."
                )
        for statement in views(table):
            await self._client.run(statement)
        self._ready.add(table.name)

    async def _columns(self, table: ChangeTable) -> dict[str, str]:
        rows = await self._client.read(
            "SELECT name, type FROM system.columns WHERE database = {database:String} AND table = {table:String}",
            in_database=False,
            database=self._client.server.database,
            table=table.name,
        )
        return {row["name"]: row["type"] for row in rows}


# ── the statements. Names are those of record classes, quoted. Pure. ──


def type_of(column: TableColumn) -> str:
    """Return the type of a column as `system.columns` has it."""
    kind = _TYPES[column.type]
    return kind if column.required else f"Nullable({kind})"


def require_version(version: str) -> None:
    """Raise `Transient` for a server without the types of our columns. A version that cannot be read is let through."""
    numbers = tuple(int(part) for part in version.split(".")[:2] if part.isdigit())
    if len(numbers) == 2 and numbers < OLDEST:
        raise Transient(
            f"ClickHouse {version} has not all types that the tables need (Bool, DateTime64, Date32): use"
            f" {'.'.join(map(str, OLDEST))} or newer. The package of Debian 12 is 18.16; ClickHouse has one of its own."
        )


def created(table: ChangeTable) -> str:
    """Return the statement that creates a table."""
    columns = ", ".join(f"{quoted(column.name)} {type_of(column)}" for column in table.columns)
    key = ", ".join(quoted(name) for name in table.key)
    return (
        f"CREATE TABLE IF NOT EXISTS {quoted(table.name)} ({columns}) ENGINE = ReplacingMergeTree(`change_id`)"
        f" PARTITION BY toYYYYMM(`change_at`) ORDER BY ({key})"
    )


def views(table: ChangeTable) -> list[str]:
    """Return the statements that create the views of a table, again when it has been widened: a view has the columns
    that its table had."""
    if not table.keeps_all:
        view = quoted(table.name + NOW)
        return [f"CREATE OR REPLACE VIEW {view} AS SELECT * FROM {quoted(table.name)} FINAL WHERE NOT `is_gone`"]
    if not table.name.endswith(HISTORY):
        return []
    key = ", ".join(quoted(name) for name in table.key[:-1])
    latest = f"OVER (PARTITION BY {key} ORDER BY `change_id` ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING)"
    until = f"leadInFrame(toNullable(`change_at`)) {latest}"
    view = quoted(table.name.removesuffix(HISTORY) + "_periods")
    columns = f"*, `change_at` AS valid_from, {until} AS valid_until"
    return [f"CREATE OR REPLACE VIEW {view} AS SELECT {columns} FROM {quoted(table.name)} FINAL"]
