"""Parquet files: types come from the class, a field can be added, nothing that does not fit is lost."""

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any, ClassVar, Literal

import pyarrow
import pyarrow.dataset
from pydantic import BaseModel

from forager.app.config import new_settings
from forager.app.wiring import build_pipelines
from forager.core.record import Clear, Record
from forager.core.sink import SinkRow
from forager.sinks.files.manifest import Parquet, all_manifests
from forager.sinks.files.sink import FilesSink
from forager.storage.folder import Folder
from tests.contract.sinks.test_files import DAY, JOB, change
from tests.support.docs_code import module_on


class Seller(BaseModel):
    name: str
    since: date | None = None


class Offer(Record):
    kind: ClassVar[str] = "offer"
    table: ClassVar[str] = "offers"
    key_field: ClassVar[str] = "uid"

    uid: str
    price: Decimal | None = None
    seen_at: datetime | Clear | None = None
    day: date | None = None
    state: Literal["new", "used"] | None = None
    stock: int | None = None
    score: float | None = None
    is_open: bool | None = None
    tags: list[str] | None = None
    prices: tuple[Decimal, ...] | None = None
    seller: Seller | None = None
    raw: dict[str, Any] | None = None


class LaterOffer(Offer):
    brand: str | None = None


def sink_in(folder: Path, record: type[Record] = Offer) -> FilesSink:
    return FilesSink(SinkRow("files", "files"), Folder(folder), Parquet({"offer": record}), "parquet")


def read(folder: Path) -> list[dict[str, Any]]:
    """Return the rows that a reader finds, with the code of the guide."""
    table: Any = module_on("sinks.md", "def read_parquet", "read_parquet").read_parquet(folder, "offer")
    rows: list[dict[str, Any]] = table.sort_by("change_id").to_pylist()
    return rows


WHOLE = {
    "uid": "k1",
    "price": "1299.9",
    "seen_at": "2026-03-14T12:00:00.250000Z",
    "day": "2026-03-14",
    "state": "new",
    "stock": 3,
    "score": 1,
    "is_open": True,
    "tags": ["a", "b"],
    "prices": ["1", "2.5"],
    "seller": {"name": "Still", "since": "2020-01-02"},
    "raw": {"any": [1, {"x": None}]},
}


async def test_money_times_and_nested_values_have_their_types__PR_21(tmp_path: Path) -> None:
    await sink_in(tmp_path).write([change(1, "offer", body=WHOLE), change(2, "offer", body={"uid": "k2"})])
    row, empty = read(tmp_path)
    assert {name: value for name, value in row.items() if not name.startswith("change_")} == {
        **WHOLE,
        "price": Decimal("1299.9000"),
        "seen_at": datetime(2026, 3, 14, 12, 0, 0, 250_000, UTC),
        "day": date(2026, 3, 14),
        "prices": [Decimal("1.0000"), Decimal("2.5000")],
        "seller": {"name": "Still", "since": date(2020, 1, 2)},
        "raw": '{"any":[1,{"x":null}]}',
    }
    assert row["change_at"] == datetime.fromtimestamp(DAY / 1000, UTC)
    assert (row["change_id"], row["change_key"], row["change_job"], row["change_rest"]) == (1, "k1", str(JOB), None)
    assert [empty[name] for name in WHOLE if name != "uid"] == [None] * (len(WHOLE) - 1)


async def test_a_field_that_is_added_is_a_new_column_and_null_in_older_files(tmp_path: Path) -> None:
    await sink_in(tmp_path).write([change(1, "offer")])
    await sink_in(tmp_path, LaterOffer).write([change(2, "offer", body={"uid": "k2", "brand": "Harbour"})])
    assert [(row["uid"], row["brand"]) for row in read(tmp_path)] == [("k1", None), ("k2", "Harbour")]


async def test_what_has_no_column_or_does_not_fit_it_is_kept_apart_and_refuses_nothing(tmp_path: Path) -> None:
    odd = {"price": "1.00001", "stock": 2**63, "state": 7, "seen_at": "soon", "tags": "a", "seller": {"other": 1}}
    odd |= {"gone": {"reason": "404"}, "is_open": "yes", "day": "2026-13-01"}
    await sink_in(tmp_path).write([change(1, "offer", body={"uid": "k1", **odd})])
    (row,) = read(tmp_path)
    assert json.loads(row["change_rest"]) == odd
    assert [row[name] for name in odd if name != "gone"] == [None] * (len(odd) - 1)


def test_every_record_that_ships_has_a_table() -> None:
    records = [record for pipeline in build_pipelines(new_settings()) for record in pipeline.records]
    encode = Parquet({record.kind: record for record in records})
    for record in records:
        schema = pyarrow.parquet.read_schema(pyarrow.BufferReader(encode(record.kind, [change(1, record.kind)])))
        assert set(record.model_fields) < set(schema.names)
    assert len(records) > 5


async def test_files_that_no_manifest_names_are_not_read(tmp_path: Path) -> None:
    await sink_in(tmp_path).write([change(1, "offer")])
    (part,) = next(all_manifests(Folder(tmp_path))).parts
    (tmp_path / part.path).with_name("000000000002-00000000.parquet").write_bytes((tmp_path / part.path).read_bytes())
    assert len(read(tmp_path)) == 1
