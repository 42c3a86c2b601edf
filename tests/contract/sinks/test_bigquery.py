"""The BigQuery sink on the emulator: the seed's three tables, whole jobs, old and new, columns, hostile text.

The tests for every sink, this one included, are in `test_contract` and `test_kills`.
"""

import sys
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

import orjson
import pytest
from google.api_core import exceptions
from pydantic import ValidationError

from forager.app.config import new_settings
from forager.app.features import FEATURES
from forager.app.wiring import reference_loaders
from forager.core.errors import Permanent, Rejected, Transient
from forager.core.states import TaskState
from forager.core.task import Plan
from forager.pipelines.places.mirror import mirror
from forager.pipelines.places.records import Place, Sighting
from forager.pipelines.places.zips import Zip, ZipTable
from forager.sdk.delivery import MirrorTable
from forager.sdk.service import SinkService
from forager.settings import Settings
from forager.sinks.bigquery import ledger_rows
from forager.sinks.bigquery.ledger_rows import LedgerRows, record_table
from forager.sinks.bigquery.settings import mirrors
from forager.sinks.bigquery.sink import BigQuerySink
from forager.sinks.bigquery.warehouse import Warehouse
from forager.sinks.bigquery.wiring import build
from tests.support.bigquery_emulator import PROJECT, client_of, dataset_of, rows_of, url_of
from tests.support.bigquery_mirror import ROW, deliver, log_of, mirrored, sink_of, views, warehouse_of
from tests.support.places_rig import PlacesRig, found, postgres_places, sqlite_places
from tests.support.rig_pipelines import Call, Item
from tests.support.sink_suite import open_store, settle

NASTY = '=HYPERLINK("x")\'; DROP TABLE `serper_jobs`; --\n{"job_id": "injected"}\n\\ \u2028 é'


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[PlacesRig]:
    opened = await sqlite_places(tmp_path, mirrored=True)
    yield opened
    await opened.close()


async def work(rig: PlacesRig) -> tuple[UUID, UUID]:
    """A job with every kind of end and a retry, and one that is cancelled half way."""
    first = await rig.submit(zips=("85001", "85003", "85004"), pages=3)
    leases = await rig.lease()
    await rig.answer(leases["85001/1"], found(1, 10))
    await rig.refuse(leases["85003/1"])
    await rig.answer(leases["85004/1"], found(5, 3))
    (second,) = (await rig.lease()).values()
    await rig.answer(second, found(9, 4), ms=77)
    await rig.ledger.retry(first)
    other = await rig.submit(keyword=NASTY.replace("\n", " "), zips=("85006",), pages=2, max_credits=50)
    await rig.ledger.cancel(other)
    await rig.run(lambda key: found(200, 10) if key.endswith("/1") else [])
    return first, other


@pytest.mark.parametrize("store", ["sqlite", "postgres"])
async def test_the_mirror_has_the_seeds_tables_as_the_views_show_them__PL_15(
    store: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    if store == "sqlite":
        rig = await sqlite_places(tmp_path, mirrored=True)
    else:
        rig = await postgres_places(request.getfixturevalue("unmade_postgres_url"), mirrored=True)
    sink = sink_of(rig, tmp_path)
    first = await rig.submit(zips=("85001", "85003", "85004"), pages=3)
    cursor = await deliver(rig, sink)
    queued = {row[4] for row in mirrored(tmp_path)["serper_queries"]}
    assert queued == {"queued"}, "a new job is there with all of its queries, before anything of it has run"
    leases = await rig.lease()
    await rig.answer(leases["85001/1"], found(1, 10, note=NASTY))
    await rig.refuse(leases["85003/1"], NASTY)
    cursor = await deliver(rig, sink, cursor)
    await rig.answer(leases["85004/1"], found(5, 3))
    await rig.ledger.retry(first)
    other = await rig.submit(keyword="b`a'r\\s", zips=("85006",), pages=2, max_credits=50)
    await rig.ledger.cancel(other)
    await rig.run(lambda key: found(200, 10) if key.endswith("/1") else [])
    await deliver(rig, sink, cursor)
    assert mirrored(tmp_path) == await views(rig)
    await rig.close()
    (job,) = rows_of(tmp_path, f"SELECT * FROM `{{dataset}}.serper_jobs` WHERE job_id = '{first}'")
    seeds = list(job)[: list(job).index("change_id")]
    assert seeds == [column.name for column in mirror.jobs.columns][:12]
    assert job["totals"]["successes"] + job["totals"]["failures"] + job["totals"]["skipped"] == job["totals"]["queries"]
    tables = {table.table_id for table in client_of(tmp_path).list_tables(f"{PROJECT}.{dataset_of(tmp_path)}")}
    assert tables == {"serper_jobs", "serper_queries", "serper_places", "places"}, "nothing is left of the staging"


async def test_a_sink_that_begins_in_the_middle_of_the_log_loads_its_jobs_whole__PL_15(
    rig: PlacesRig, tmp_path: Path
) -> None:
    await work(rig)
    idle = await rig.submit(keyword="cafés", zips=("85008",), pages=1)
    now = (await log_of(rig))[-1].id
    other = await rig.submit(zips=("85009",), pages=1)
    sink = sink_of(rig, tmp_path)
    await deliver(rig, sink, now)
    jobs = {row["job_id"] for row in rows_of(tmp_path, "SELECT job_id FROM `{dataset}.serper_jobs`")}
    assert jobs == {str(idle), str(other)}, "unfinished jobs come with the first batch, finished ones do not"
    await deliver(rig, sink)
    assert mirrored(tmp_path) == await views(rig)


async def test_old_never_replaces_new__R17(rig: PlacesRig, tmp_path: Path) -> None:
    sink, slow = sink_of(rig, tmp_path), sink_of(rig, tmp_path)
    await work(rig)
    log = await log_of(rig)
    await deliver(rig, sink)
    before = rows_of(tmp_path, "SELECT * FROM `{dataset}.places` ORDER BY place_uid")
    stale = [{**row, "title": "an older state", "change_id": row["change_id"] - 1} for row in before]
    table = record_table(Place)
    await slow.write(log[:30])
    with (tmp_path / "stale").open("w+b") as file:
        file.writelines(orjson.dumps({**_loadable(row), "is_removed": False}) + b"\n" for row in stale)
        warehouse_of(tmp_path).merge(table, cast("Any", _reopened(file)), set())
    assert rows_of(tmp_path, "SELECT * FROM `{dataset}.places` ORDER BY place_uid") == before
    assert mirrored(tmp_path) == await views(rig)


async def test_a_replay_repairs_a_job_whose_queries_ended_without_a_change(rig: PlacesRig, tmp_path: Path) -> None:
    """While a process ran without the settings of BigQuery, ends of queries were not in the log."""
    sink = sink_of(rig, tmp_path)
    await rig.submit(zips=("85001",), pages=1)
    await deliver(rig, sink)
    rig.catalog._logged_states = frozenset()
    await rig.run(lambda _: found(1, 3))
    await deliver(rig, sink, (await log_of(rig))[0].id)
    assert mirrored(tmp_path)["serper_queries"] != (await views(rig))["serper_queries"]
    await deliver(rig, sink_of(rig, tmp_path))
    assert mirrored(tmp_path) == await views(rig)


async def test_a_query_is_called_finished_only_when_its_places_are_there(rig: PlacesRig, tmp_path: Path) -> None:
    sink = sink_of(rig, tmp_path)
    await rig.submit(zips=("85001",), pages=1)
    (lease,) = (await rig.lease()).values()
    await rig.refuse(lease)
    await rig.ledger.retry((await log_of(rig))[0].job or UUID(int=0))
    told = [change.id for change in await log_of(rig) if change.kind == "task"]
    await sink.write([each for each in await log_of(rig) if each.id <= told[0]])
    await rig.run(lambda _: found(1, 10))
    log = await log_of(rig)
    await sink.write([change for change in log if change.id == told[0]])
    assert {row[4] for row in mirrored(tmp_path)["serper_queries"]} != {"success"}
    await sink.write([change for change in log if change.id > told[0]])
    assert mirrored(tmp_path) == await views(rig)


async def test_a_place_that_gets_a_stronger_key_leaves_no_row_under_the_weaker(rig: PlacesRig, tmp_path: Path) -> None:
    sink = sink_of(rig, tmp_path)
    await rig.submit(zips=("85001", "85003"), pages=1)
    leases = await rig.lease()
    weak = [{"title": "Still", "address": "12 Main St", "cid": "77"}]
    await rig.answer(leases["85001/1"], weak)
    cursor = await deliver(rig, sink)
    assert {row["place_uid"] for row in rows_of(tmp_path, "SELECT place_uid FROM `{dataset}.places`")} == {"77"}
    await rig.answer(leases["85003/1"], [{**weak[0], "placeId": "ChIJ77"}])
    await deliver(rig, sink, cursor)
    assert {row["place_uid"] for row in rows_of(tmp_path, "SELECT place_uid FROM `{dataset}.places`")} == {"ChIJ77"}
    assert mirrored(tmp_path) == await views(rig)
    await deliver(rig, sink_of(rig, tmp_path))
    assert {row["place_uid"] for row in rows_of(tmp_path, "SELECT place_uid FROM `{dataset}.places`")} == {"ChIJ77"}


async def test_a_table_gets_missing_columns_and_keeps_foreign_ones(rig: PlacesRig, tmp_path: Path) -> None:
    client, dataset = client_of(tmp_path), f"{PROJECT}.{dataset_of(tmp_path)}"
    client.create_dataset(dataset)
    client.query(
        f"CREATE TABLE `{dataset}.serper_queries` (job_id STRING, zip STRING, page INT64, mine STRING)"
    ).result()
    client.query(
        f"INSERT INTO `{dataset}.serper_queries` (job_id, zip, page, mine) VALUES ('x', '1', 1, 'kept')"
    ).result()
    await rig.submit(zips=("85001",), pages=1)
    await deliver(rig, sink_of(rig, tmp_path))
    rows = rows_of(tmp_path, "SELECT job_id, mine, status FROM `{dataset}.serper_queries`")
    assert [(row["mine"], row["status"]) for row in rows if row["job_id"] == "x"] == [("kept", None)]
    assert [(row["mine"], row["status"]) for row in rows if row["job_id"] != "x"] == [(None, "queued")]


async def test_a_column_of_another_type_stops_the_sink_and_the_remedy_is_named(rig: PlacesRig, tmp_path: Path) -> None:
    client, dataset = client_of(tmp_path), f"{PROJECT}.{dataset_of(tmp_path)}"
    client.create_dataset(dataset)
    client.query(f"CREATE TABLE `{dataset}.serper_jobs` (job_id STRING, pages STRING)").result()
    await rig.submit(zips=("85001",), pages=1)
    with pytest.raises(Transient, match=r"serper_jobs\.pages is STRING, and should be INT64.*FORAGER_BIGQUERY_DATASET"):
        await deliver(rig, sink_of(rig, tmp_path))


async def test_money_and_lists_of_any_record_arrive_as_the_api_shows_them(tmp_path: Path) -> None:
    engine = await open_store(str(tmp_path))
    await engine.submit([Plan(Call(name="only"))], "rig")
    item = Item(uid="one", price=Decimal("19.99"), parts=["a", NASTY], stock="in", etag="quiet")
    await settle(engine.ledger, TaskState.COMPLETED, records=(item,))
    sink = BigQuerySink(ROW, warehouse_of(tmp_path), LedgerRows(engine.ledger.database, {}, (Item,)))
    log = await engine.ledger.changes(0, 1_000)
    await sink.write(log)
    (row,) = rows_of(tmp_path, "SELECT * FROM `{dataset}.rig_items`")
    (told,) = (change for change in log if change.kind == "item")
    assert (row["price"], row["parts"], row["stock"]) == (Decimal("19.99"), ["a", NASTY], "in")
    assert (row["change_id"], row["version"]) == (told.id, told.version)
    assert "etag" not in row, "what changes without a change would be stale here"
    await engine.close()


async def test_a_sink_for_some_kinds_writes_no_other_table(rig: PlacesRig, tmp_path: Path) -> None:
    await work(rig)
    sink = sink_of(rig, tmp_path, row=replace(ROW, kinds=frozenset({"sighting"})))
    assert await sink.write([change for change in await log_of(rig) if change.kind == "job"]) is False
    await sink.write([change for change in await log_of(rig) if change.kind == "sighting"])
    tables = {table.table_id for table in client_of(tmp_path).list_tables(f"{PROJECT}.{dataset_of(tmp_path)}")}
    assert tables == {"serper_places"}


# ── ZIPs ──


@pytest.fixture
def zip_settings(tmp_path: Path) -> Settings:
    return new_settings(
        home=tmp_path,
        zip_table=f"bigquery:{dataset_of(tmp_path)}.geo_zip_all",
        bigquery_project_id=PROJECT,
        bigquery_url=url_of(tmp_path),
    )


def load_zips(settings: Settings) -> ZipTable:
    table: ZipTable = reference_loaders(settings, FEATURES)["zips"]()
    return table


def test_zips_are_read_from_a_table__PL_4(tmp_path: Path, zip_settings: Settings) -> None:
    client, table = client_of(tmp_path), f"{PROJECT}.{dataset_of(tmp_path)}.geo_zip_all"
    client.create_dataset(f"{PROJECT}.{dataset_of(tmp_path)}")
    client.query(f"CREATE TABLE `{table}` (ZIP STRING, state STRING, lat FLOAT64, active BOOL, shape STRING)").result()
    rows = "('02139', 'ma', 42.36, true, 'x'), ('85001', 'AZ', NULL, false, 'y'), ('85003', 'AZ', NULL, NULL, 'z')"
    client.query(f"INSERT INTO `{table}` (ZIP, state, lat, active, shape) VALUES {rows}").result()
    zips = load_zips(zip_settings)
    assert zips.states == ("AZ", "MA")
    assert [each.zip for each in zips.of_state("AZ")] == ["85003"], "a ZIP that is not active is left out"
    assert zips.get("02139") == Zip("02139", "MA", lat=42.36)


def test_a_table_that_is_not_there_or_has_wrong_rows_is_reported(tmp_path: Path, zip_settings: Settings) -> None:
    with pytest.raises(Rejected, match="There is no table"):
        load_zips(zip_settings)
    client, table = client_of(tmp_path), f"{PROJECT}.{dataset_of(tmp_path)}.geo_zip_all"
    client.create_dataset(f"{PROJECT}.{dataset_of(tmp_path)}")
    client.query(f"CREATE TABLE `{table}` (zip INT64, state STRING)").result()
    client.query(f"INSERT INTO `{table}` (zip, state) VALUES (2139, 'MA')").result()
    with pytest.raises(Rejected, match=r"row 1: zip '2139' is not five digits .was a leading zero lost"):
        load_zips(zip_settings)


# ── trouble and settings ──


async def test_a_warehouse_that_does_not_answer_is_tried_again(rig: PlacesRig) -> None:
    nowhere = Warehouse(PROJECT, "raw_data", url="http://127.0.0.1:9", timeout=5.0)
    rows = LedgerRows(rig.ledger.database, {"places": mirror}, (Place, Sighting))
    await rig.submit(zips=("85001",), pages=1)
    with pytest.raises(Transient, match=r"BigQuery cannot be reached at http://127\.0\.0\.1:9"):
        await BigQuerySink(ROW, nowhere, rows).write(await log_of(rig))


def test_an_invalid_file_of_credentials_is_reported_without_its_content(tmp_path: Path) -> None:
    (tmp_path / "key.json").write_text('{"type": "service_account", "private_key": "canary-7431"}')
    warehouse = Warehouse(PROJECT, "raw_data", credentials=tmp_path / "key.json")
    with pytest.raises(Transient) as told:
        warehouse.known_jobs(mirror.jobs, ["a"])
    assert "canary" not in str(told.value)
    absent = Warehouse(PROJECT, "raw_data", credentials=tmp_path / "absent.json")
    with pytest.raises(Transient, match=r"absent\.json cannot be read: No such file or directory"):
        absent.known_jobs(mirror.jobs, ["a"])


def test_a_refused_statement_is_no_fault_of_a_change(tmp_path: Path) -> None:
    """Statements that meet another writer are refused in the same way."""
    with pytest.raises(Transient, match="BigQuery: "):
        list(warehouse_of(tmp_path).query("SELEC 1"))


@pytest.mark.parametrize(
    ("reason", "raised"), [("invalid", Permanent), ("invalidQuery", Transient), ("quota", Transient)]
)
def test_only_a_row_that_a_load_refuses_is_permanent(tmp_path: Path, reason: str, raised: type[Exception]) -> None:
    with pytest.raises(raised), warehouse_of(tmp_path)._errors(a_row_may_be_wrong=True):
        raise _refused(reason)
    with pytest.raises(Transient), warehouse_of(tmp_path)._errors():
        raise _refused(reason)


def _refused(reason: str) -> Exception:
    return exceptions.BadRequest("no", errors=[{"reason": reason}])  # type: ignore[no-untyped-call]


async def test_whole_jobs_come_in_groups_and_those_that_were_brought_stay__PL_15(
    rig: PlacesRig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ledger_rows, "TASKS_TOGETHER", 1)
    jobs = {str(await rig.submit(zips=(zip_,), pages=1)) for zip_ in ("85003", "85004", "85008")}
    sink, now = sink_of(rig, tmp_path), (await log_of(rig))[-1].id
    jobs.add(str(await rig.submit(zips=("85009",), pages=1)))
    merge, merged = sink._warehouse.merge, 0

    def fails_later(*given: Any) -> None:
        nonlocal merged
        merged += 1
        if merged > 4:
            raise Transient("away")
        merge(*given)

    monkeypatch.setattr(sink._warehouse, "merge", fails_later)
    with pytest.raises(Transient):
        await deliver(rig, sink, now)
    brought = {row["job_id"] for row in rows_of(tmp_path, "SELECT job_id FROM `{dataset}.serper_jobs`")}
    assert set() < brought < jobs
    assert brought == sink._known.keys()
    monkeypatch.setattr(sink._warehouse, "merge", merge)
    await deliver(rig, sink)
    assert mirrored(tmp_path) == await views(rig)


def service_with(tmp_path: Path, **given: Any) -> SinkService:
    settings = new_settings(home=tmp_path, **given)
    parts: dict[str, Any] = {"pipelines": {}, "mirrors": {}, "database": None}
    return cast("SinkService", SimpleNamespace(settings=settings, **parts))


def test_without_a_project_or_the_client_library_the_remedy_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(Rejected, match="FORAGER_BIGQUERY_PROJECT_ID"):
        build(service_with(tmp_path), ROW)
    assert isinstance(build(service_with(tmp_path, bigquery_project_id="mine"), ROW), BigQuerySink)
    monkeypatch.setitem(sys.modules, "forager.sinks.bigquery.warehouse", None)
    with pytest.raises(Rejected, match=r"forager-data\[bigquery\]"):
        build(service_with(tmp_path, bigquery_project_id="mine"), ROW)


def test_only_with_a_project_are_the_ends_of_queries_in_the_log(tmp_path: Path) -> None:
    assert not mirrors(new_settings(home=tmp_path))
    assert mirrors(new_settings(home=tmp_path, bigquery_project_id="mine"))


@pytest.mark.parametrize(
    "given",
    [
        {"bigquery_project_id": "a`b"},
        {"bigquery_project_id": "a; DROP"},
        {"bigquery_dataset": "a.b`"},
        {"bigquery_dataset": "../x"},
    ],
    ids=str,
)
def test_names_that_could_end_an_identifier_are_refused__S19(tmp_path: Path, given: dict[str, str]) -> None:
    with pytest.raises(ValidationError):
        new_settings(home=tmp_path, **given)


def _loadable(row: dict[str, Any]) -> dict[str, Any]:
    return {name: value.isoformat() if isinstance(value, datetime) else value for name, value in row.items()}


def _reopened(file: Any) -> Any:
    file.flush()
    return Path(file.name).open("rb")


def test_every_column_has_a_type_that_bigquery_has() -> None:
    known = {"STRING", "INT64", "FLOAT64", "BOOL", "TIMESTAMP", "DATE", "NUMERIC", "JSON", "STRUCT"}
    tables: Sequence[MirrorTable] = (mirror.jobs, mirror.tasks, *mirror.records.values())
    assert {column.type for table in tables for column in table.columns} <= known
