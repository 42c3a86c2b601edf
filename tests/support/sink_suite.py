"""The sinks of the common contract: how each is opened, and how its effects are read.

To add a sink to the suite, add a member to `MEMBERS`.
"""

import json
import sqlite3
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import UUID

import duckdb
from google.api_core.exceptions import Forbidden, NotFound

from forager.core.change import Change
from forager.core.clock import Faults
from forager.core.ledger import NewJob, Settlement, Want
from forager.core.sink import Sink, SinkRow
from forager.core.states import TaskState
from forager.core.storage import Storage
from forager.core.task import Plan
from forager.ledger.catalog import Catalog
from forager.ledger.reports import LedgerReports
from forager.sinks.bigquery.ledger_rows import LedgerRows
from forager.sinks.bigquery.sink import BigQuerySink
from forager.sinks.bigquery.warehouse import Warehouse
from forager.sinks.change_tables import RecordTables
from forager.sinks.clickhouse.client import ClickHouseClient, ClickHouseServer
from forager.sinks.clickhouse.sink import ClickHouseSink
from forager.sinks.duckdb.sink import DuckDBSink
from forager.sinks.files.manifest import all_manifests, json_lines
from forager.sinks.files.sink import FilesSink
from forager.sinks.postgres.sink import PostgresSink
from forager.sinks.webhook.outbox import ended_job, webhook_sink
from forager.sinks.webhook.pipeline import build as build_deliveries
from forager.storage.folder import Folder
from tests.support import clickhouse, elastic, kafka, postgres_target, s3
from tests.support.auditor import Tables
from tests.support.bigquery_emulator import PROJECT, dataset_of, name_emulator, rows_of, url_of
from tests.support.docs_code import module_on
from tests.support.engine import EngineRig, open_postgres, open_sqlite
from tests.support.rig_pipelines import PIPELINE, Call, Seen, Thing

RECEIVER = "https://receiver.example/hook"
PIPELINES = [PIPELINE, build_deliveries(RECEIVER)]

Effect = tuple[str, Any]
"""(identity of what it is about, what arrived about it)"""


@dataclass(frozen=True)
class Member:
    name: str
    open: Callable[[Any, Path, Faults | None], Sink]
    """(ledger, folder, faults) → the real sink."""
    wanted: Callable[[Sequence[Change]], list[Effect]]
    """The effects that these changes must have."""
    effects: Callable[[Tables, Path], list[Effect]]
    """Return the changes that have arrived, in the order of arrival."""
    keeps_states: bool = False
    """True if it keeps only the last state of each thing, not every change."""
    killable: bool = True
    """True if its target survives a writer that dies at any moment, as a test of kills requires."""
    prepare: Callable[[Path], None] = lambda folder: None
    """Called by a test before it starts processes that write: starts the server."""
    batch: int = 5
    """Changes in one batch, at most: more where a batch takes long."""


# ── the webhook sink: a delivery task for every end of a job ──


def _open_webhook(ledger: Any, folder: Path, faults: Faults | None) -> Sink:
    return webhook_sink(ledger, LedgerReports(ledger.database, Catalog(PIPELINES)), RECEIVER, {})


def _messages(changes: Sequence[Change]) -> list[Effect]:
    ends = [end for change in changes if (end := ended_job(change)) is not None]
    return [(str(end.id), f"job_{end.id.hex}_{end.end}") for end in ends]


def _deliveries(tables: Tables, folder: Path) -> list[Effect]:
    rows = tables.read(f"SELECT t.key FROM {tables.tasks} t WHERE t.kind = 'webhook' ORDER BY t.id")
    return [(str(UUID(row["key"].split("_")[1])), row["key"]) for row in rows]


# ── the files sink: a line for every change, in the files that manifests name ──


def _numbers(changes: Sequence[Change]) -> list[Effect]:
    return [(change.identity, change.id) for change in changes]


def _identity(line: dict[str, Any]) -> str:
    middle = f"{line['job']}/" if line["scope"] == "job" else ""
    return f"{line['kind']}/{middle}{line['key']}"


def _files_sink(place: Storage, faults: Faults | None) -> Sink:
    return FilesSink(SinkRow("files", "files"), place, json_lines, "jsonl", age=0.02, faults=faults)


def _open_files(ledger: Any, folder: Path, faults: Faults | None) -> Sink:
    return _files_sink(Folder(folder / "files"), faults)


def _in_folder(tables: Tables, folder: Path) -> list[Effect]:
    return _in_files(Folder(folder / "files"))


def _open_s3(ledger: Any, folder: Path, faults: Faults | None) -> Sink:
    return _files_sink(s3.place_of(folder), faults)


def _in_s3(tables: Tables, folder: Path) -> list[Effect]:
    return _in_files(s3.place_of(folder))


def _in_files(place: Storage) -> list[Effect]:
    parts = [part for manifest in all_manifests(place) for part in sorted(manifest.parts, key=lambda each: each.first)]
    lines = [json.loads(line) for part in parts for line in place.get(part.path).splitlines()]
    return [(_identity(line), line["id"]) for line in lines]


# ── the sink of docs/extending.md: the last state of everything ──


def _open_mirror(ledger: Any, folder: Path, faults: Faults | None) -> Sink:
    sink: Sink = module_on("extending.md", "class MirrorSink", "mirror_sink").MirrorSink(
        SinkRow("mirror", "mirror"), folder / "mirror.db"
    )
    return sink


def _states(changes: Sequence[Change]) -> list[Effect]:
    return [(name, change.id) for name, change in {c.identity: c for c in changes}.items()]


def _mirrored(tables: Tables, folder: Path) -> list[Effect]:
    if not (folder / "mirror.db").exists():
        return []
    with sqlite3.connect(folder / "mirror.db") as db, suppress(sqlite3.OperationalError):  # no table in it yet
        return list(db.execute("SELECT identity, change FROM mirror"))
    return []


# ── the Kafka sink: a message for every change ──


def _open_kafka(ledger: Any, folder: Path, faults: Faults | None) -> Sink:
    return kafka.open_kafka(ledger, folder, faults)


def _published(tables: Tables, folder: Path) -> list[Effect]:
    return list(kafka.published(folder))


# ── the Elasticsearch sink: a document for every thing, with the number of its last change as its version ──


def _open_elastic(ledger: Any, folder: Path, faults: Faults | None) -> Sink:
    return elastic.open_elastic(ledger, folder)


def _in_cluster(tables: Tables, folder: Path) -> list[Effect]:
    return list(elastic.versions(folder))


# ── the BigQuery sink: the present state of every record ──


def _open_bigquery(ledger: Any, folder: Path, faults: Faults | None) -> Sink:
    records = [record for pipeline in PIPELINES for record in pipeline.records]
    warehouse = Warehouse(PROJECT, dataset_of(folder), url=url_of(folder))
    rows = LedgerRows(ledger.database, {}, records)
    return BigQuerySink(SinkRow("bigquery", "bigquery"), warehouse, rows, age=0.02, faults=faults)


def _record_states(changes: Sequence[Change]) -> list[Effect]:
    return sorted(_states([change for change in changes if change.kind in (Thing.kind, Seen.kind)]))


def _in_bigquery(tables: Tables, folder: Path) -> list[Effect]:
    try:
        things = rows_of(folder, f"SELECT uid, change_id FROM `{{dataset}}.{Thing.table}`")
        seen = rows_of(folder, f"SELECT job_id, uid, change_id FROM `{{dataset}}.{Seen.table}`")
    except (Forbidden, NotFound):  # no dataset or no table yet
        return []
    return sorted(
        [(f"{Thing.kind}/{row['uid']}", row["change_id"]) for row in things]
        + [(f"{Seen.kind}/{row['job_id']}/{row['uid']}", row["change_id"]) for row in seen]
    )


# ── sinks that write tables of records: a row per record, and one per change ──


def record_tables() -> RecordTables:
    return RecordTables(record for pipeline in PIPELINES for record in pipeline.records)


def _states_and_history(changes: Sequence[Change]) -> list[Effect]:
    """The present state of every record, then every change of the log, in order."""
    return [*_record_states(changes), *((f"change {change.id}", change.identity) for change in changes)]


def _table_effects(read: Callable[[str], list[dict[str, Any]]], final: str = "") -> list[Effect]:
    """The same as it has arrived: the tables of states and of all changes, which must not contradict the history."""
    columns = "uid, change_job, change_id"
    things, seen = (read(f"SELECT {columns} FROM {record.table}{final}") for record in (Thing, Seen))
    logged = read(
        f"SELECT change_id, change_kind, change_key, change_scope, change_job FROM changes{final} ORDER BY change_id"
    )
    past = [row for record in (Thing, Seen) for row in read(f"SELECT {columns} FROM {record.table}_history{final}")]
    told = sorted(row["change_id"] for row in logged if row["change_kind"] in (Thing.kind, Seen.kind))
    if len(past) == len(told):  # in the middle of a batch they may differ
        assert sorted(row["change_id"] for row in past) == told
    states = [(f"{Thing.kind}/{row['uid']}", row["change_id"]) for row in things]
    states += [(f"{Seen.kind}/{row['change_job']}/{row['uid']}", row["change_id"]) for row in seen]
    return [*sorted(states), *((f"change {row['change_id']}", _logged_identity(row)) for row in logged)]


def _logged_identity(row: dict[str, Any]) -> str:
    middle = f"{row['change_job']}/" if row["change_scope"] == "job" else ""
    return f"{row['change_kind']}/{middle}{row['change_key']}"


def _open_clickhouse(ledger: Any, folder: Path, faults: Faults | None) -> Sink:
    client = ClickHouseClient(ClickHouseServer(clickhouse.url_of(folder), clickhouse.database_of(folder)))
    return ClickHouseSink(SinkRow("clickhouse", "clickhouse"), client, record_tables(), age=0.02, faults=faults)


def _in_clickhouse(tables: Tables, folder: Path) -> list[Effect]:
    def read(sql: str) -> list[dict[str, Any]]:
        rows = clickhouse.rows_of(folder, sql)
        return [{**row, "change_id": int(row["change_id"])} for row in rows]

    return _table_effects(read, final=" FINAL")


def _open_postgres(ledger: Any, folder: Path, faults: Faults | None) -> Sink:
    url = postgres_target.url_of(folder)
    return PostgresSink(SinkRow("postgres", "postgres"), url, "forager", record_tables(), age=0.02, faults=faults)


def _in_postgres(tables: Tables, folder: Path) -> list[Effect]:
    return _table_effects(lambda sql: postgres_target.rows_of(folder, sql))


def _open_duckdb(ledger: Any, folder: Path, faults: Faults | None) -> Sink:
    return DuckDBSink(SinkRow("duckdb", "duckdb"), folder / "sink.duckdb", record_tables(), age=0.02, faults=faults)


def _in_duckdb(tables: Tables, folder: Path) -> list[Effect]:
    def read(sql: str) -> list[dict[str, Any]]:
        while (folder / "sink.duckdb").exists():
            try:
                with duckdb.connect(str(folder / "sink.duckdb"), read_only=True) as db:
                    found = db.execute(sql)
                    names = [column[0] for column in found.description or ()]
                    return [dict(zip(names, row, strict=True)) for row in found.fetchall()]
            except duckdb.IOException:  # a process writes to it
                time.sleep(0.01)
            except duckdb.CatalogException:  # no table yet
                break
        return []

    return _table_effects(read)


MEMBERS = (
    Member("webhook", _open_webhook, _messages, _deliveries),
    Member("files", _open_files, _numbers, _in_folder),
    Member("s3", _open_s3, _numbers, _in_s3, prepare=s3.name_server),
    Member("kafka", _open_kafka, kafka.wanted, _published, killable=False),  # see tests/servers/test_kafka.py
    Member("elasticsearch", _open_elastic, elastic.wanted, _in_cluster, keeps_states=True, prepare=elastic.name_server),
    Member("mirror", _open_mirror, _states, _mirrored, keeps_states=True),
    Member(
        "bigquery", _open_bigquery, _record_states, _in_bigquery, keeps_states=True, prepare=name_emulator, batch=12
    ),
    Member(
        "clickhouse",
        _open_clickhouse,
        _states_and_history,
        _in_clickhouse,
        keeps_states=True,
        prepare=clickhouse.name_server,
    ),
    Member(
        "postgres",
        _open_postgres,
        _states_and_history,
        _in_postgres,
        keeps_states=True,
        prepare=postgres_target.name_server,
    ),
    Member("duckdb", _open_duckdb, _states_and_history, _in_duckdb, keeps_states=True, batch=12),
)


def _open_apart(ledger: Any, folder: Path, faults: Faults | None) -> Sink:
    return kafka.open_kafka(ledger, folder, faults, together=False)


CONTROLS = (Member("kafka-apart", _open_apart, kafka.wanted, _published, killable=False),)
"""Negative controls, which must fail."""


def member(name: str) -> Member:
    return next(each for each in (*MEMBERS, *CONTROLS) if each.name == name)


# ── the log that they are given ──


async def open_store(where: str, *, create: bool = True, lease: float = 30.0, **more: Any) -> EngineRig:
    """A folder for SQLite, or the URL of a PostgreSQL database."""
    if "://" in where:
        return await open_postgres(where, PIPELINES, create=create, lease=lease, **more)
    return await open_sqlite(Path(where), PIPELINES, lease=lease, **more)


async def make_changes(ledger: Any, jobs: int = 3) -> None:
    """Jobs that fail, are retried and end well; things that are new and change, sightings of each job's own."""
    for number in range(jobs):
        submitted = await ledger.submit(NewJob("rig", {"name": f"job {number}"}), [Plan(Call(name="only"))])
        await settle(ledger, TaskState.FAILED, error="at first")
        await ledger.retry(submitted.job)
        found = (Thing(uid="known", size=number), Thing(uid=f"new-{number}"), Seen(uid="known"))
        await settle(ledger, TaskState.COMPLETED, records=found)


async def settle(ledger: Any, state: TaskState, **more: Any) -> None:
    """One task of the lane `api`, and nothing of any other lane."""
    session = await ledger.begin("by hand")
    lane = next(lane.id for lane in await ledger.take_lanes(session, 100) if lane.name == "api")
    (lease,) = (await ledger.settle_and_lease(session, [], [Want(lane, 1)])).leases
    await ledger.settle_and_lease(session, [Settlement(lease, state, **more)], [])
    await ledger.end(session)


async def log_of(ledger: Any) -> list[Change]:
    changes: list[Change] = await ledger.changes(0, 100_000)
    return changes


def in_order(effects: Sequence[Effect]) -> dict[str, list[Any]]:
    """Return the changes of each thing, in the order of arrival."""
    by_identity: dict[str, list[Any]] = {}
    for identity, effect in effects:
        by_identity.setdefault(identity, []).append(effect)
    return by_identity
