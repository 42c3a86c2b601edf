"""Builds the sink of a row. The library is an extra."""

import tempfile
from collections.abc import Sequence

from forager.core.errors import Rejected
from forager.core.sink import Sink, SinkRow
from forager.sdk.service import SinkService
from forager.sinks.change_tables import RecordTables
from forager.sinks.duckdb.settings import DuckDBOptions, DuckDBSettings


def build(service: SinkService, row: SinkRow) -> Sink:
    """Build the sink of a row. Raises `Rejected` if the folder is not set or the library is missing."""
    options, folder = DuckDBOptions(**row.options), service.settings.of(DuckDBSettings).duckdb_folder
    if folder is None:
        raise Rejected("A sink of the type duckdb needs a folder: set FORAGER_DUCKDB_FOLDER.")
    try:
        from forager.sinks.duckdb.sink import DuckDBSink
    except ImportError as error:
        raise Rejected("DuckDB is not installed: pip install 'forager-data[duckdb]'") from error
    records = [record for pipeline in service.pipelines.values() for record in pipeline.records]
    tables = RecordTables(records, all_changes=options.changes)
    return DuckDBSink(row, folder / f"{row.name}.duckdb", tables, age=options.every_seconds)


def check(service: SinkService, row: SinkRow) -> Sequence[str]:
    """Raise `Rejected` if the folder cannot be written."""
    folder = service.settings.of(DuckDBSettings).duckdb_folder
    if folder is None:
        return []
    try:
        folder.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=folder).close()
    except OSError as error:
        remedy = "Change its owner, or FORAGER_DUCKDB_FOLDER."
        raise Rejected(f"{folder} cannot be written ({error.strerror}). {remedy}") from error
    return []
