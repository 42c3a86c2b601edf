"""PostgreSQL and DuckDB as destinations: tables that widen, late changes, odd values, and refusals with a remedy."""

from collections.abc import AsyncIterator, Callable
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any, ClassVar

import duckdb
import pytest

from forager.app.config import new_settings
from forager.core.change import Change
from forager.core.errors import Permanent, Rejected, Transient
from forager.core.record import Record
from forager.core.sink import Sink, SinkRow
from forager.sinks.change_tables import RecordTables
from forager.sinks.duckdb import wiring as duckdb_wiring
from forager.sinks.duckdb.sink import DuckDBSink
from forager.sinks.postgres import wiring as postgres_wiring
from forager.sinks.postgres.sink import PostgresSink
from tests.support import postgres_target

Open = Callable[..., Sink]
Read = Callable[[str], list[tuple[Any, ...]]]


class Crate(Record):
    kind: ClassVar[str] = "crate"
    table: ClassVar[str] = "crates"
    key_field: ClassVar[str] = "uid"
    uid: str
    price: Decimal | None = None
    at: datetime | None = None


class WiderCrate(Crate):
    width: int | None = None
    parts: list[str] | None = None


@pytest.fixture(params=["postgres", "duckdb"])
def target(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
async def open_sink(target: str, tmp_path: Path) -> AsyncIterator[Open]:
    opened: list[PostgresSink] = []

    def make(*records: type[Record]) -> Sink:
        tables, row = RecordTables(records), SinkRow("out", target)
        if target == "duckdb":
            return DuckDBSink(row, tmp_path / "out.duckdb", tables)
        opened.append(PostgresSink(row, postgres_target.url_of(tmp_path), "forager", tables))
        return opened[-1]

    yield make
    for each in opened:
        await each.close()


@pytest.fixture
def read(target: str, tmp_path: Path) -> Read:
    def query(sql: str) -> list[tuple[Any, ...]]:
        if target == "postgres":
            return [tuple(row.values()) for row in postgres_target.rows_of(tmp_path, sql)]
        with duckdb.connect(str(tmp_path / "out.duckdb"), read_only=True) as db:
            return db.execute(sql).fetchall()

    return query


def change(number: int, key: str, body: dict[str, Any] | None, **more: Any) -> Change:
    about: dict[str, Any] = {"op": "changed", "version": number, "job": None, "pipeline": None, "at": 0, **more}
    return Change(id=number, kind="crate", key=key, body=body, **about)


async def test_a_field_that_a_new_version_adds_is_a_new_column(open_sink: Open, read: Read) -> None:
    await open_sink(Crate).write([change(1, "a", {"uid": "a", "price": "12.5"})])
    wider = [change(2, "a", {"uid": "a", "width": 80, "parts": ["x"]}), change(3, "b", {"uid": "b"})]
    await open_sink(WiderCrate).write(wider)
    assert read("SELECT uid, price, width, CAST(parts AS VARCHAR) FROM crates_now ORDER BY uid") == [
        ("a", None, 80, '["x"]'),
        ("b", None, None, None),
    ]
    assert read("SELECT price, width FROM crates_history WHERE change_id = 1") == [(Decimal("12.5"), None)]


async def test_an_old_version_of_forager_still_writes_to_a_wider_table(open_sink: Open, read: Read) -> None:
    await open_sink(WiderCrate).write([change(1, "a", {"uid": "a", "width": 7})])
    await open_sink(Crate).write([change(2, "b", {"uid": "b"})])
    assert read("SELECT uid, width FROM crates_now ORDER BY uid") == [("a", 7), ("b", None)]


async def test_old_changes_that_come_late_never_replace_new_ones(open_sink: Open, read: Read) -> None:
    sink = open_sink(Crate)
    old, new = change(1, "a", {"uid": "a", "price": "1"}), change(2, "a", {"uid": "a", "price": "2"})
    for batch in ([new], [old], [old, new], [old]):
        await sink.write(batch)
    assert read("SELECT price FROM crates") == [(Decimal(2),)]
    assert read("SELECT change_id, price FROM crates_history ORDER BY 1") == [(1, Decimal(1)), (2, Decimal(2))]
    assert read("SELECT change_id FROM changes ORDER BY 1") == [(1,), (2,)]


async def test_odd_values_arrive_or_go_to_the_rest_and_a_gone_record_leaves_the_view(
    open_sink: Open, read: Read
) -> None:
    body = {"uid": "a", "price": "1.23456", "at": "2026-01-02T03:04:05.678Z", "gone": {"why": "nul \0 here"}}
    await open_sink(Crate).write([change(1, "a", body, op="gone")])
    ((price, at, gone, rest),) = read('SELECT price, "at", is_gone, CAST(change_rest AS VARCHAR) FROM crates')
    assert (price, gone) == (None, True)
    assert at == datetime.fromisoformat("2026-01-02T03:04:05.678Z")
    assert "1.23456" in rest
    assert "nul " in rest
    assert read("SELECT * FROM crates_now") == []


async def test_a_replay_after_a_job_was_removed_keeps_what_was_written(open_sink: Open, read: Read) -> None:
    sink = open_sink(Crate)
    await sink.write([change(1, "a", {"uid": "a", "price": "5"})])
    await sink.write([change(1, "a", None)])
    assert read("SELECT price FROM crates") == [(Decimal(5),)]


async def test_a_dropped_table_is_created_again(open_sink: Open, read: Read, target: str, tmp_path: Path) -> None:
    sink = open_sink(Crate)
    await sink.write([change(1, "a", {"uid": "a"})])
    if target == "duckdb":
        (tmp_path / "out.duckdb").unlink()
    else:
        postgres_target.server().execute("DROP TABLE forager.crates CASCADE", postgres_target.url_of(tmp_path))
        with pytest.raises(Transient):
            await sink.write([change(2, "b", {"uid": "b"})])
    await sink.write([change(2, "b", {"uid": "b"})])
    assert read("SELECT uid FROM crates") == [("b",)]


async def test_a_column_of_another_type_stops_the_sink_with_a_remedy(
    open_sink: Open, target: str, tmp_path: Path
) -> None:
    await open_sink(Crate).write([change(1, "a", {"uid": "a"})])
    drop, add = "DROP COLUMN price", "ADD COLUMN price VARCHAR"
    if target == "duckdb":
        with duckdb.connect(str(tmp_path / "out.duckdb")) as db:
            db.execute("DROP VIEW crates_now")
            db.execute(f"ALTER TABLE crates {drop}")
            db.execute(f"ALTER TABLE crates {add}")
    else:
        for statement in ("DROP VIEW forager.crates_now", f"ALTER TABLE forager.crates {drop}, {add}"):
            postgres_target.server().execute(statement, postgres_target.url_of(tmp_path))
    with pytest.raises(Transient, match=r"crates\.price .*(?:FORAGER_POSTGRES_SINK_SCHEMA|replay)"):
        await open_sink(Crate).write([change(2, "a", {"uid": "a"})])


async def test_a_key_that_postgresql_cannot_index_blames_its_change(tmp_path: Path) -> None:
    sink = PostgresSink(SinkRow("out", "postgres"), postgres_target.url_of(tmp_path), "forager", RecordTables([Crate]))
    key = "".join(f"{number:x}" for number in range(9_000))
    with pytest.raises(Permanent, match="refuses a row"):
        await sink.write([change(1, key, {"uid": key})])
    await sink.close()


async def test_a_server_that_is_away_and_a_file_that_is_read_are_tried_again(tmp_path: Path) -> None:
    away = PostgresSink(SinkRow("out", "postgres"), "postgresql://a@127.0.0.1:9/x", "forager", RecordTables([Crate]))
    with pytest.raises(Transient, match="cannot be used now"):
        await away.write([change(1, "a", {"uid": "a"})])
    (tmp_path / "out.duckdb").mkdir()
    with pytest.raises(Transient, match=r"out\.duckdb"):
        await DuckDBSink(SinkRow("out", "duckdb"), tmp_path / "out.duckdb", RecordTables([Crate])).write(
            [change(1, "a", {"uid": "a"})]
        )


class Service:
    """The part of the application that `build` reads."""

    pipelines: ClassVar[dict[str, Any]] = {}

    def __init__(self, **settings: Any) -> None:
        self.settings = new_settings(**settings)

    def at_close(self, close: Any) -> None: ...


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({}, "FORAGER_POSTGRES_SINK_URL"),
        (
            {"postgres_sink_url": "postgresql://a:b@db/x", "database_url": "postgresql://c:d@db:5432/x"},
            "database of the ledger",
        ),
    ],
)
def test_a_postgres_sink_needs_a_database_that_is_not_the_ledgers(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(Rejected, match=message):
        postgres_wiring.build(Service(**settings), SinkRow("out", "postgres"))  # type: ignore[arg-type]


def test_a_duckdb_sink_needs_a_folder_that_it_can_write_to(tmp_path: Path) -> None:
    with pytest.raises(Rejected, match="FORAGER_DUCKDB_FOLDER"):
        duckdb_wiring.build(Service(), SinkRow("out", "duckdb"))  # type: ignore[arg-type]
    (tmp_path / "file").write_text("")
    with pytest.raises(Rejected, match="cannot be written"):
        duckdb_wiring.check(Service(duckdb_folder=tmp_path / "file"), SinkRow("out", "duckdb"))  # type: ignore[arg-type]
