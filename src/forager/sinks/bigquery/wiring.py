"""Builds a BigQuery sink from its settings. The client library is an extra, and loaded only for such a sink."""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import orjson

from forager.core.errors import Rejected
from forager.core.sink import Sink, SinkRow
from forager.sdk.service import SinkService
from forager.sdk.settings import SettingsTree
from forager.sinks.bigquery.settings import BigQueryOptions, BigQuerySettings

CREDENTIALS_REMEDY = "Set it to the file of a service account, or unset it to use the machine's own account."

if TYPE_CHECKING:
    from forager.sinks.bigquery.restore import BigQueryMirror
    from forager.sinks.bigquery.warehouse import Warehouse


def build(service: SinkService, row: SinkRow) -> Sink:
    """Build the sink of a row. Raises `Rejected` if the project or the client library is missing."""
    warehouse = open_warehouse(service.settings)  # first: without the client library, the sink cannot be imported
    from forager.sinks.bigquery.ledger_rows import LedgerRows
    from forager.sinks.bigquery.sink import BigQuerySink

    records = [record for pipeline in service.pipelines.values() for record in pipeline.records]
    return BigQuerySink(
        row,
        warehouse,
        LedgerRows(service.database, service.mirrors, records),
        age=BigQueryOptions(**row.options).every_seconds,
    )


def check(service: SinkService, row: SinkRow) -> Sequence[str]:
    """Raise `Rejected` if the file with the service account cannot be read."""
    if (problem := credentials_problem(service.settings)) is not None:
        raise Rejected(f"{problem}. {CREDENTIALS_REMEDY}")
    return []


def credentials_problem(settings: SettingsTree) -> str | None:
    """Return what is wrong with the file of credentials; None if it is a JSON object, or if the settings name none."""
    path = settings.of(BigQuerySettings).google_application_credentials
    if path is None:
        return None
    try:
        found = orjson.loads(path.read_bytes())
    except OSError as error:
        return f"GOOGLE_APPLICATION_CREDENTIALS: {path} cannot be read ({error.strerror})"
    except orjson.JSONDecodeError:
        found = None
    return None if isinstance(found, dict) else f"GOOGLE_APPLICATION_CREDENTIALS: {path} is not the JSON of an account"


def restores(service: SinkService) -> "BigQueryMirror":
    """Return the mirror that the settings name. Raises `Rejected` if the project or the client library is missing."""
    warehouse = open_warehouse(service.settings)
    from forager.sinks.bigquery.restore import BigQueryMirror

    records = [record for pipeline in service.pipelines.values() for record in pipeline.records]
    return BigQueryMirror(warehouse, service.mirrors, {record.kind: record for record in records})


def read_table(settings: SettingsTree, table: str, columns: Sequence[str]) -> Iterator[Mapping[str, Any]]:
    """Read these columns of a table, `dataset.table` or `project.dataset.table`, as far as it has them. Raises
    `Rejected` if it has none of them, or if a setting or the client library is missing."""
    *project, dataset, name = table.split(".")
    warehouse = open_warehouse(settings, project=project[0] if project else None, dataset=dataset)
    return warehouse.read(name, columns)


def open_warehouse(settings: SettingsTree, *, project: str | None = None, dataset: str | None = None) -> "Warehouse":
    """Return the warehouse that the settings name, or another dataset by the same account. It connects on first use.
    Raises `Rejected` if the project or the client library is missing."""
    own = settings.of(BigQuerySettings)
    if own.bigquery_project_id is None:
        raise Rejected("BigQuery needs a project: set FORAGER_BIGQUERY_PROJECT_ID.")
    try:
        from forager.sinks.bigquery.warehouse import Warehouse
    except ImportError as error:
        raise Rejected("The BigQuery client is not installed: pip install 'forager-data[bigquery]'") from error
    return Warehouse(
        own.bigquery_project_id,
        dataset or own.bigquery_dataset,
        other_project=project,
        location=own.bigquery_location,
        credentials=own.google_application_credentials,
        url=own.bigquery_url,
        timeout=own.bigquery_timeout_seconds,
    )
