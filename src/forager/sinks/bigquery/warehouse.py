"""BigQuery, by Google's client: tables that are created and widened, and batches that are merged. It blocks: call it in
a thread.

A batch is loaded into a staging table of its own, which expires by itself, and merged from there. A shared staging
table would have to be emptied between batches, and two writers would lose or double each other's rows; and a table
takes only 1,500 loads a day.
"""

import threading
import uuid
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import IO, Any

import requests
from google.api_core import exceptions
from google.api_core.retry import Retry
from google.auth.credentials import AnonymousCredentials, Credentials
from google.auth.exceptions import DefaultCredentialsError, GoogleAuthError
from google.cloud import bigquery
from google.oauth2 import service_account

from forager.core.errors import Permanent, Rejected, Transient
from forager.sdk.delivery import MirrorColumn, MirrorTable
from forager.sinks.bigquery import ledger_rows

STAGING_EXPIRES = timedelta(hours=6)
MOST_CLUSTERED = 4
"""Columns by which BigQuery clusters a table."""
STAGING = "forager_staging_"
_ONCE = Retry(predicate=lambda _: False)
"""The engine repeats a batch that failed, with pauses that it shows; the client must not wait for minutes inside."""
_SAME = {"INTEGER": "INT64", "FLOAT": "FLOAT64", "BOOLEAN": "BOOL", "RECORD": "STRUCT", "DECIMAL": "NUMERIC"}
"""Other names that BigQuery has for the types of columns."""


class Warehouse:
    """One dataset of one project. It connects on first use."""

    def __init__(
        self,
        project: str,
        dataset: str,
        *,
        other_project: str | None = None,
        location: str | None = None,
        credentials: Path | None = None,
        url: str | None = None,
        timeout: float = 120.0,
    ) -> None:
        """`other_project`: the project of the dataset, if it is not the one that statements run in."""
        self._project = project
        self.dataset = f"{other_project or project}.{dataset}"
        self._location = location
        self._credentials = credentials
        self._url = url
        self._timeout = timeout
        self._connected: bigquery.Client | None = None
        self._merging = threading.Lock()
        self._ready: set[str] = set()
        """Tables that are known to exist with all of their columns."""

    def query(self, sql: str, values: Mapping[str, Sequence[str]] | None = None) -> Iterator[Mapping[str, Any]]:
        """Run a statement and return its rows, page by page; `@name` in it stands for a list of texts. Raises
        `Transient` or `Permanent`."""
        parameters = [bigquery.ArrayQueryParameter(name, "STRING", each) for name, each in (values or {}).items()]
        config = bigquery.QueryJobConfig(query_parameters=parameters, use_legacy_sql=False)
        with self._errors():
            job = self._client.query(sql, job_config=config, retry=_ONCE, job_retry=None, timeout=self._timeout)
            rows = job.result(retry=_ONCE, job_retry=None, timeout=self._timeout)
        return self._rows(rows)

    def read(self, table: str, columns: Sequence[str]) -> Iterator[Mapping[str, Any]]:
        """Return the rows of any table, with those of these columns that it has. Raises `Rejected` if it has none."""
        with self._errors():
            try:
                found = self._client.get_table(f"{self.dataset}.{table}", retry=_ONCE, timeout=self._timeout)
            except exceptions.NotFound:
                raise Rejected(f"There is no table {self.dataset}.{table} in BigQuery.") from None
        there = {field.name.lower(): field.name for field in found.schema}
        wanted = [
            f"{ledger_rows.quoted(there[name])} AS {ledger_rows.quoted(name)}" for name in columns if name in there
        ]
        if not wanted:
            raise Rejected(f"{self.dataset}.{table} in BigQuery has none of the columns {', '.join(columns)}.")
        return self.query(f"SELECT {', '.join(wanted)} FROM {ledger_rows.quoted(f'{self.dataset}.{table}')}")

    def prepare(self, table: MirrorTable) -> None:
        """Create the dataset and the table, or add the columns that the table lacks. Other columns are left alone.
        Raises `Transient` if a column has another type."""
        if table.name in self._ready:
            return
        with self._errors():
            found = self._found(table)
        if found is None:
            with self._errors():
                self._create(table)
        else:
            self._widen(table, found)
        self._ready.add(table.name)

    def has(self, table: MirrorTable) -> bool:
        """Return whether the dataset has this table."""
        with self._errors():
            return self._found(table) is not None

    def merge(self, table: MirrorTable, rows: IO[bytes], jobs: Collection[str]) -> None:
        """Load rows, as JSON lines, and merge them. Safe to repeat: a row is replaced only by a later one. One merge at
        a time: the thread of an attempt that was given up continues, and would conflict with the next."""
        with self._merging:
            self._merge(table, rows, jobs)

    def _merge(self, table: MirrorTable, rows: IO[bytes], jobs: Collection[str]) -> None:
        self.prepare(table)
        staging = f"{STAGING}{table.name}_{uuid.uuid4().hex}"
        schema = [_field(column, staged=True) for column in table.columns]
        schema.append(bigquery.SchemaField(ledger_rows.REMOVED, "BOOL"))
        try:
            with self._errors(a_row_may_be_wrong=True):
                self._load(staging, schema, rows)
            self.query(ledger_rows.merge(table, staging, self.dataset, jobs))
        except (Transient, Permanent):
            self._ready.discard(table.name)  # it may have been deleted or changed: look again before the next batch
            raise
        finally:
            with suppress(Transient, Permanent), self._errors():
                self._client.delete_table(f"{self.dataset}.{staging}", not_found_ok=True, retry=_ONCE)

    def known_jobs(self, table: MirrorTable, jobs: Collection[str]) -> set[str]:
        """Return those of these jobs that a table has."""
        self.prepare(table)
        where = ledger_rows.quoted(f"{self.dataset}.{table.name}")
        rows = self.query(f"SELECT DISTINCT job_id FROM {where} WHERE job_id IN UNNEST(@jobs)", {"jobs": sorted(jobs)})
        return {row["job_id"] for row in rows}

    def _load(self, staging: str, schema: list[bigquery.SchemaField], rows: IO[bytes]) -> None:
        table = bigquery.Table(f"{self.dataset}.{staging}", schema=schema)
        table.expires = datetime.now(UTC) + STAGING_EXPIRES
        self._client.create_table(table, retry=_ONCE, timeout=self._timeout)
        config = bigquery.LoadJobConfig(
            schema=schema,
            source_format=bigquery.SourceFormat.NEWLINE_DELIMITED_JSON,
            write_disposition=bigquery.WriteDisposition.WRITE_APPEND,
        )
        job = self._client.load_table_from_file(
            rows, table.reference, rewind=True, num_retries=0, job_config=config, timeout=self._timeout
        )
        job.result(retry=_ONCE, timeout=self._timeout)

    def _create(self, table: MirrorTable) -> None:
        try:  # an account that may create tables but no datasets is refused even if the dataset exists
            self._client.get_dataset(self.dataset, retry=_ONCE, timeout=self._timeout)
        except exceptions.NotFound:
            dataset = bigquery.Dataset(self.dataset)
            if self._location is not None:
                dataset.location = self._location
            self._client.create_dataset(dataset, exists_ok=True, retry=_ONCE, timeout=self._timeout)
        new = bigquery.Table(f"{self.dataset}.{table.name}", schema=[_field(column) for column in table.columns])
        new.clustering_fields = list(table.key[:MOST_CLUSTERED])
        self._client.create_table(new, exists_ok=True, retry=_ONCE, timeout=self._timeout)

    def _found(self, table: MirrorTable) -> bigquery.Table | None:
        try:
            return self._client.get_table(f"{self.dataset}.{table.name}", retry=_ONCE, timeout=self._timeout)
        except exceptions.NotFound:
            return None

    def _widen(self, table: MirrorTable, found: bigquery.Table) -> None:
        there = {field.name.lower(): field for field in found.schema}
        for column in table.columns:
            field = there.get(column.name.lower())
            if field is None:
                self.query(ledger_rows.widen(table.name, column, self.dataset))
            elif _SAME.get(field.field_type, field.field_type) != column.type:
                raise Transient(
                    f"{self.dataset}.{table.name}.{column.name} is {field.field_type}, and should be {column.type}. "
                    "Rename this table in BigQuery, or name another dataset in FORAGER_BIGQUERY_DATASET."
                )
        self._widen_structs(table, found, there)

    def _widen_structs(
        self, table: MirrorTable, found: bigquery.Table, there: Mapping[str, bigquery.SchemaField]
    ) -> None:
        """Add missing fields to STRUCT columns by updating the schema: BigQuery has no ALTER statement for that."""
        wider = {
            column.name.lower(): _wider(there[column.name.lower()], column)
            for column in table.columns
            if column.type == "STRUCT" and column.name.lower() in there
        }
        if all(there[name] == field for name, field in wider.items()):
            return
        with self._errors():
            now = self._client.get_table(found.reference, retry=_ONCE, timeout=self._timeout)
            now.schema = [wider.get(field.name.lower(), field) for field in now.schema]
            self._client.update_table(now, ["schema"], retry=_ONCE, timeout=self._timeout)

    def _rows(self, rows: Any) -> Iterator[Mapping[str, Any]]:
        with self._errors():
            for row in rows:
                yield dict(row)

    @property
    def _client(self) -> bigquery.Client:
        if self._connected is None:
            options = {"api_endpoint": self._url} if self._url else None
            self._connected = bigquery.Client(
                self._project, credentials=self._signed_in(), location=self._location, client_options=options
            )
        return self._connected

    def _signed_in(self) -> Credentials | None:
        """Return the credentials; None: the machine's own, which the client looks up."""
        if self._credentials is not None:
            try:
                signed: Credentials = service_account.Credentials.from_service_account_file(  # type: ignore[no-untyped-call]
                    str(self._credentials), scopes=["https://www.googleapis.com/auth/bigquery"]
                )
            except ValueError as error:
                raise Transient(f"{self._credentials} is not the key file of a service account.") from error
            except OSError as error:
                raise Transient(f"The key file {self._credentials} cannot be read: {error.strerror}.") from error
            return signed
        return AnonymousCredentials() if self._url else None  # type: ignore[no-untyped-call]

    @contextmanager
    def _errors(self, *, a_row_may_be_wrong: bool = False) -> Iterator[None]:
        """Raise Google's errors as ours: `Permanent` only if a load finds a row that its table cannot hold, `Transient`
        for all others. BigQuery also answers 400 to statements that meet another writer, to quotas and to a dataset in
        another location: none of these is the fault of a change."""
        try:
            yield
        except exceptions.BadRequest as error:
            reasons = {each.get("reason") for each in error.errors if isinstance(each, Mapping)}
            if a_row_may_be_wrong and "invalid" in reasons:
                raise Permanent(f"BigQuery refuses a row: {_first_line(error)}") from error
            raise Transient(f"BigQuery: {_first_line(error)}") from error
        except DefaultCredentialsError as error:
            remedy = "Set GOOGLE_APPLICATION_CREDENTIALS to the key file of a service account."
            raise Transient(f"BigQuery: this machine has no Google account. {remedy}") from error
        except requests.ConnectionError as error:
            raise Transient(f"BigQuery cannot be reached at {self._url or 'its own address'}.") from error
        except (exceptions.GoogleAPIError, GoogleAuthError, OSError, TimeoutError) as error:
            raise Transient(f"BigQuery: {_first_line(error)}") from error


def _field(column: MirrorColumn, *, staged: bool = False) -> bigquery.SchemaField:
    if column.type == "STRUCT":
        return bigquery.SchemaField(column.name, "RECORD", fields=[_field(each) for each in column.fields])
    return bigquery.SchemaField(column.name, ledger_rows.staged_type(column) if staged else column.type)


def _wider(field: bigquery.SchemaField, column: MirrorColumn) -> bigquery.SchemaField:
    have = {each.name.lower() for each in field.fields}
    missing = [_field(each) for each in column.fields if each.name.lower() not in have]
    return bigquery.SchemaField(field.name, "RECORD", mode=field.mode, fields=[*field.fields, *missing])


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0][:500]
