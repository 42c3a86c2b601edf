"""Builds a PostgreSQL sink from its row and the settings. The driver is an extra."""

import socket
from collections.abc import Sequence
from urllib.parse import urlsplit

from forager.core.errors import Rejected
from forager.core.sink import Sink, SinkRow
from forager.sdk.service import SinkService
from forager.sinks.change_tables import RecordTables
from forager.sinks.postgres.settings import PostgresSinkOptions, PostgresSinkSettings

Address = tuple[str | None, int, str]


def build(service: SinkService, row: SinkRow) -> Sink:
    """Build the sink of a row. Raises `Rejected` if the address or the driver is missing, or if the address is that of
    the ledger: a mirror next to the tables of the ledger would share its load, its backups and its loss."""
    settings, options = service.settings.of(PostgresSinkSettings), PostgresSinkOptions(**row.options)
    if settings.postgres_sink_url is None:
        raise Rejected("A sink of the type postgres needs a database: set FORAGER_POSTGRES_SINK_URL.")
    url = settings.postgres_sink_url.get_secret_value()
    ledger = getattr(service.settings, "database_url", None)
    if ledger is not None and _address(ledger) == _address(url):
        raise Rejected("FORAGER_POSTGRES_SINK_URL is the database of the ledger. Name another one.")
    try:
        from forager.sinks.postgres.sink import PostgresSink
    except ImportError as error:
        raise Rejected("The PostgreSQL driver is not installed: pip install 'forager-data[postgres]'") from error
    records = [record for pipeline in service.pipelines.values() for record in pipeline.records]
    sink = PostgresSink(
        row,
        url,
        settings.postgres_sink_schema,
        RecordTables(records, all_changes=options.changes),
        age=options.every_seconds,
        timeout=settings.postgres_sink_timeout_seconds,
    )
    service.at_close(sink.close)
    return sink


def check(service: SinkService, row: SinkRow) -> Sequence[str]:
    """Return a warning if nothing listens at the address now."""
    url = service.settings.of(PostgresSinkSettings).postgres_sink_url
    host, port, _ = _address("" if url is None else url.get_secret_value())
    if host is None:  # a socket in the file system, or an address of several servers: the driver finds them
        return []
    try:
        socket.create_connection((host, port), timeout=5).close()
    except OSError as error:
        return [f"The PostgreSQL at {host}:{port} does not answer now: {error.strerror or error}. It is retried."]
    return []


def _address(url: str) -> Address:
    parts = urlsplit(url)
    return parts.hostname, parts.port or 5432, parts.path
