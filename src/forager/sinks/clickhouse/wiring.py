"""Builds a ClickHouse sink from its row and the settings."""

import urllib.error
import urllib.request
from collections.abc import Sequence

from forager.core.errors import FieldError, Rejected
from forager.core.sink import SinkRow
from forager.sdk.service import SinkService
from forager.sinks.change_tables import RecordTables
from forager.sinks.clickhouse.client import ClickHouseClient, ClickHouseServer
from forager.sinks.clickhouse.settings import ClickHouseOptions, ClickHouseSettings
from forager.sinks.clickhouse.sink import ClickHouseSink


def build(service: SinkService, row: SinkRow) -> ClickHouseSink:
    """Build the sink of a row. Raises `Rejected` if a setting is missing."""
    options, server = ClickHouseOptions(**row.options), _server(service)
    client = ClickHouseClient(server)
    service.at_close(client.close)
    records = [record for pipeline in service.pipelines.values() for record in pipeline.records]
    tables = RecordTables(records, all_changes=options.changes)
    return ClickHouseSink(row, client, tables, age=options.every_seconds)


def check(service: SinkService, row: SinkRow) -> Sequence[str]:
    """Return a warning if the server does not answer now."""
    server = _server(service)
    try:
        urllib.request.urlopen(f"{server.url}/ping", timeout=5).close()  # noqa: S310 - the setting takes http(s) only
    except urllib.error.HTTPError:
        return []  # it answers; a proxy before it may not pass `/ping` on
    except OSError as error:
        return [f"ClickHouse ({server.url}) does not answer now: {getattr(error, 'reason', error)}. It is retried."]
    return []


def _server(service: SinkService) -> ClickHouseServer:
    settings = service.settings.of(ClickHouseSettings)
    if settings.clickhouse_url is None:
        raise Rejected("A sink of the type clickhouse needs a server: set FORAGER_CLICKHOUSE_URL.")
    if settings.clickhouse_password is not None and settings.clickhouse_username is None:
        problem = "a password needs a user: set FORAGER_CLICKHOUSE_USERNAME"
        raise Rejected(f"clickhouse_username: {problem}.", fields=[FieldError("clickhouse_username", problem)])
    password = settings.clickhouse_password
    return ClickHouseServer(
        settings.clickhouse_url.rstrip("/"),
        settings.clickhouse_database,
        username=settings.clickhouse_username,
        password=None if password is None else password.get_secret_value(),
        ca_file=settings.clickhouse_ca_file,
        timeout=settings.clickhouse_timeout_seconds,
    )
