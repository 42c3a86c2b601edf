"""The ClickHouse sink on the real engine: tables that widen, errors with a remedy, and the queries of its page."""

import re
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any, ClassVar

import pytest

from forager.core.change import Change
from forager.core.errors import Permanent, Transient
from forager.core.record import Record
from forager.core.sink import SinkRow
from forager.pipelines.listings.records import Listing
from forager.pipelines.places.records import Sighting
from forager.pipelines.products.records import Product
from forager.sinks.change_tables import RecordTables
from forager.sinks.clickhouse.client import ClickHouseClient, ClickHouseServer, quoted
from forager.sinks.clickhouse.sink import ClickHouseSink, require_version
from tests.support.clickhouse import database_of, rows_of, url_of

DAY = 86_400_000
START = int(datetime(2026, 1, 1, tzinfo=UTC).timestamp() * 1000)
PAGE = Path(__file__).parents[3] / "docs" / "clickhouse.md"

Open = Callable[..., ClickHouseSink]


class Shelf(Record):
    kind: ClassVar[str] = "shelf"
    table: ClassVar[str] = "shelves"
    key_field: ClassVar[str] = "uid"
    uid: str
    price: Decimal | None = None
    at: datetime | None = None


class WiderShelf(Shelf):
    width: int | None = None
    parts: list[str] | None = None


@pytest.fixture
async def open_sink(tmp_path: Path) -> AsyncIterator[Open]:
    opened: list[ClickHouseClient] = []

    def make(*records: type[Record], url: str | None = None) -> ClickHouseSink:
        client = ClickHouseClient(ClickHouseServer(url or url_of(tmp_path), database_of(tmp_path), timeout=30))
        opened.append(client)
        return ClickHouseSink(SinkRow("ch", "clickhouse"), client, RecordTables(records), age=0.02)

    yield make
    for client in opened:
        await client.close()


def change(number: int, key: str, body: dict[str, Any] | None, *, kind: str = "shelf", **more: Any) -> Change:
    about: dict[str, Any] = {"op": "changed", "version": number, "job": None, "pipeline": None, "at": START, **more}
    return Change(id=number, kind=kind, key=key, body=body, **about)


async def test_a_field_that_a_new_version_adds_is_a_new_column_and_old_rows_stay(
    open_sink: Open, tmp_path: Path
) -> None:
    await open_sink(Shelf).write([change(1, "a", {"uid": "a", "price": "12.5"})])
    wider = {"uid": "a", "price": "13", "width": 80, "parts": ["x"]}
    await open_sink(WiderShelf).write([change(2, "a", wider), change(3, "b", {"uid": "b", "width": 7})])
    columns = "uid, toString(price) AS price, width, parts"
    assert rows_of(tmp_path, f"SELECT {columns} FROM shelves_now ORDER BY uid") == [
        {"uid": "a", "price": "13", "width": 80, "parts": '["x"]'},
        {"uid": "b", "price": None, "width": 7, "parts": None},
    ]
    assert rows_of(tmp_path, f"SELECT {columns} FROM shelves_history FINAL WHERE change_id = 1") == [
        {"uid": "a", "price": "12.5", "width": None, "parts": None}
    ]


async def test_old_changes_that_come_late_never_replace_new_ones_over_months(open_sink: Open, tmp_path: Path) -> None:
    sink = open_sink(Shelf)
    old, new = (
        change(1, "a", {"uid": "a", "price": "1"}),
        change(2, "a", {"uid": "a", "price": "2"}, at=START + 40 * DAY),
    )
    for batch in ([new], [old], [old, new], [old]):
        await sink.write(batch)
    assert rows_of(tmp_path, "SELECT toString(price) AS price FROM shelves FINAL") == [{"price": "2"}]
    periods = "SELECT toString(price) AS price, valid_until IS NULL AS lasts FROM shelves_periods ORDER BY change_id"
    assert rows_of(tmp_path, periods) == [{"price": "1", "lasts": 0}, {"price": "2", "lasts": 1}]


async def test_values_that_do_not_fit_and_reasons_of_a_gone_record_go_to_the_rest(
    open_sink: Open, tmp_path: Path
) -> None:
    body = {"uid": "a", "price": "1.23456", "at": "0001-01-01T00:00:00Z", "gone": {"reason": "404"}, "colour": "red"}
    await open_sink(Shelf).write([change(1, "a", body, op="gone")])
    (row,) = rows_of(tmp_path, "SELECT price, at, is_gone, change_rest FROM shelves FINAL")
    assert (row["price"], row["at"], row["is_gone"]) == (None, None, True)
    for text in ("1.23456", "0001-01-01", "404", "red"):
        assert text in row["change_rest"]
    assert rows_of(tmp_path, "SELECT * FROM shelves_now") == []


async def test_a_replay_after_a_job_was_removed_keeps_what_was_written(open_sink: Open, tmp_path: Path) -> None:
    sink = open_sink(Shelf)
    await sink.write([change(1, "a", {"uid": "a", "price": "5"})])
    await sink.write([change(1, "a", None)])
    assert rows_of(tmp_path, "SELECT toString(price) AS price FROM shelves FINAL") == [{"price": "5"}]


async def test_a_dropped_table_is_created_again_at_the_next_try(open_sink: Open, tmp_path: Path) -> None:
    sink = open_sink(Shelf)
    await sink.write([change(1, "a", {"uid": "a"})])
    client = open_sink(Shelf)._client
    await client.run("DROP TABLE shelves")
    with pytest.raises(Transient):
        await sink.write([change(2, "b", {"uid": "b"})])
    await sink.write([change(2, "b", {"uid": "b"})])
    assert rows_of(tmp_path, "SELECT uid FROM shelves FINAL") == [{"uid": "b"}]


async def test_a_column_of_another_type_stops_the_sink_with_a_remedy(open_sink: Open, tmp_path: Path) -> None:
    sink = open_sink(Shelf)
    await sink.write([change(1, "a", {"uid": "a"})])
    await sink._client.run("ALTER TABLE shelves MODIFY COLUMN price Nullable(String)")
    with pytest.raises(Transient, match=r"shelves\.price .* is Nullable\(String\).*FORAGER_CLICKHOUSE_DATABASE"):
        await open_sink(Shelf).write([change(2, "a", {"uid": "a"})])


async def test_bad_data_blames_the_change_and_everything_else_is_tried_again(open_sink: Open) -> None:
    sink = open_sink(Shelf)
    await sink.write([change(1, "a", {"uid": "a"})])
    with pytest.raises(Permanent, match="ClickHouse"):
        await sink._client.insert("shelves", b'{"change_id": "not a number"}\n')
    with pytest.raises(Transient, match="cannot be reached"):
        await open_sink(Shelf, url="http://127.0.0.1:9").write([change(1, "a", {"uid": "a"})])
    with pytest.raises(ValueError, match="identifier"):
        quoted("a`b")


# ── the page ──


def _query(title: str) -> str:
    """The query of the page below the sentence that begins like this."""
    found = re.search(rf"^{re.escape(title)}.*?```sql\n(.*?)```", PAGE.read_text(), re.DOTALL | re.MULTILINE)
    assert found is not None, title
    return found[1]


def _product(number: int, key: str, days: int, price: str, **more: Any) -> Change:
    body = {"url_hash": key, "url": f"https://a.example/{key}", "domain": "a.example", "price": price, **more}
    return change(number, key, body, kind="product", at=START + days * DAY)


async def test_the_queries_of_the_page_give_what_they_promise(open_sink: Open, tmp_path: Path) -> None:
    sink = open_sink(Product, Listing, Sighting)
    listing = {"listing_key": "z:1", "market_id": "m", "zip": "02139", "city": "Boston", "beds_min": 1.0}
    sighting = {"place_uid": "p", "keyword": "cafe", "zip": "02139", "page": 2, "payload": {}, "api_status": 200}
    await sink.write(
        [
            _product(1, "x", 0, "100", brand="Oak"),
            _product(2, "y", 0, "200", brand="Oak"),
            _product(3, "x", 1, "50", brand="Oak", gtin="1"),
            change(4, "z:1", {**listing, "rent_min": 2000}, kind="listing", op="new"),
            change(5, "z:1", {**listing, "rent_min": 1900}, kind="listing", at=START + 2 * DAY),
            change(6, "z:1", {**listing, "rent_min": 1900}, kind="listing", at=START + 10 * DAY, op="gone"),
            change(7, "p", sighting, kind="sighting", scope="job"),
        ]
    )
    index = rows_of(tmp_path, _query("The price index by brand"))
    assert [(row["brand"], row["products"], row["price_index"]) for row in index] == [("Oak", 2, 100), ("Oak", 1, 33.3)]
    drops = _query("Price drops").replace("INTERVAL 30 DAY", "INTERVAL 100 YEAR")
    assert [(row["url_hash"], row["percent_off"]) for row in rows_of(tmp_path, drops)] == [("x", 50)]
    assert rows_of(tmp_path, _query("Time on market")) == [{"zip": "02139", "listings": 1, "median_days": 10}]
    (rent,) = rows_of(tmp_path, _query("Rent history"))
    assert (rent["city"], rent["listings"], rent["median_rent"]) == ("Boston", 1, 1900)
    (known,) = rows_of(tmp_path, _query("Coverage: how many records"))
    assert (known["products"], known["has_price"], known["has_gtin"]) == (2, 1, 0.5)
    (zips,) = rows_of(tmp_path, _query("Coverage of places"))
    assert (zips["zip"], zips["places"], zips["pages"]) == ("02139", 1, 2)


@pytest.mark.parametrize("version", ["18.16.1", "21.8.15.7", "21.11.1"])
def test_a_server_without_our_types_is_refused_with_the_version_that_has_them(version: str) -> None:
    with pytest.raises(Transient, match=rf"ClickHouse {version}.*21\.12 or newer"):
        require_version(version)


@pytest.mark.parametrize("version", ["21.12.1", "22.3", "26.1.2.3", "head"])
def test_newer_servers_and_versions_that_cannot_be_read_are_let_through(version: str) -> None:
    require_version(version)
