"""A ledger of places and its mirror in BigQuery, for tests: delivering to it, and reading both sides in one form."""

from datetime import datetime
from pathlib import Path
from typing import Any

import orjson

from forager.core.change import Change
from forager.core.sink import SinkRow
from forager.pipelines.places.mirror import mirror
from forager.pipelines.places.records import Place, Sighting
from forager.sdk.delivery import Mirror, MirrorColumn, MirrorTable
from forager.sinks.bigquery.ledger_rows import LedgerRows
from forager.sinks.bigquery.sink import BigQuerySink
from forager.sinks.bigquery.warehouse import Warehouse
from tests.support.bigquery_emulator import PROJECT, dataset_of, rows_of, url_of
from tests.support.places_rig import PlacesRig

ROW = SinkRow("warehouse", "bigquery")


def sink_of(rig: PlacesRig, folder: Path, tables: Mirror = mirror, row: SinkRow = ROW) -> BigQuerySink:
    return BigQuerySink(
        row, warehouse_of(folder), LedgerRows(rig.ledger.database, {"places": tables}, (Place, Sighting))
    )


def warehouse_of(folder: Path) -> Warehouse:
    return Warehouse(PROJECT, dataset_of(folder), url=url_of(folder))


async def log_of(rig: PlacesRig, after: int = 0) -> list[Change]:
    return list(await rig.ledger.changes(after, 100_000))


async def deliver(rig: PlacesRig, sink: BigQuerySink, after: int = 0, size: int = 40) -> int:
    log = await log_of(rig, after)
    for start in range(0, len(log), size):
        await sink.write(log[start : start + size])
    return log[-1].id


async def views(rig: PlacesRig) -> dict[str, list[tuple[Any, ...]]]:
    """Return the rows of the ledger's own views, in the order of their keys."""
    return {
        table.name: [_plain(table, row) for row in await rig.read(f"SELECT * FROM {table.name} ORDER BY {_by(table)}")]
        for table in (mirror.jobs, mirror.tasks, mirror.records["sighting"])
    }


def mirrored(folder: Path) -> dict[str, list[tuple[Any, ...]]]:
    """Return the rows of BigQuery, in the same order."""
    return {
        table.name: [
            _plain(table, row)
            for row in rows_of(folder, f"SELECT * FROM `{{dataset}}.{table.name}` ORDER BY {_by(table)}")
        ]
        for table in (mirror.jobs, mirror.tasks, mirror.records["sighting"])
    }


def _by(table: MirrorTable) -> str:
    return ", ".join(table.key)


def _plain(table: MirrorTable, row: dict[str, Any]) -> tuple[Any, ...]:
    """The seed's columns, without what is ours."""
    return tuple(
        _value(column, row[column.name]) for column in table.columns if column.name not in ("change_id", "details")
    )


def _value(column: MirrorColumn, value: Any) -> Any:
    if value is None:
        return None
    if column.type == "TIMESTAMP":
        return datetime.fromisoformat(value) if isinstance(value, str) else value
    if column.type in ("JSON", "STRUCT"):
        return orjson.loads(value) if isinstance(value, str) else value
    return bool(value) if column.type == "BOOL" else value
