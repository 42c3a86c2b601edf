"""The archive through the API, in S3 as Parquet: products leave the store and the search, and are found in their
file."""

import io
from decimal import Decimal
from pathlib import Path
from typing import Any

from pyarrow import parquet

from forager.api import create_api
from forager.app.application import App
from forager.app.compose import open_app
from forager.app.config import new_settings
from forager.core.ledger import Settlement, Want
from forager.core.states import TaskState
from forager.pipelines.products.records import Product
from forager.storage.s3 import S3
from tests.support.api import KEY, client_of
from tests.support.elastic_standin import StandIn
from tests.support.rig import HandClock
from tests.support.s3 import address_of, s3_settings, s3_values

PATH = "/api/v1/archive"
ASKED = {"kind": "product", "inactive_for": "180d"}


def product(name: str) -> Product:
    return Product(
        url_hash=name,
        url=f"https://shop.example/{name}",
        domain="shop.example",
        product_name=f"Oak table {name}",
        price=Decimal("12.90"),
        metadata={"colour": "oak"},
    )


async def _store(app: App, *products: Product) -> None:
    """Products that a task found, delivered to every sink."""
    await app.submit("places", {"keyword": "bars", "zips": ["85001"]})
    session = await app.ledger.begin("by hand")
    (lane,) = await app.ledger.take_lanes(session, 10)
    (lease,) = (await app.ledger.settle_and_lease(session, [], [Want(lane.id, 1)])).leases
    await app.ledger.settle_and_lease(session, [Settlement(lease, TaskState.COMPLETED, records=products)], [])
    await app.ledger.end(session)
    (last,) = await app.database.fetch("SELECT change FROM tail")
    for sink in app.deliveries:
        await app.sinks.advance(sink, last["change"])


async def test_products_leave_the_store_for_parquet_in_s3_and_are_found_there__PR_14(tmp_path: Path) -> None:
    clock, address = HandClock(), address_of(tmp_path)
    settings = new_settings(home=tmp_path, archive=str(address), **s3_values())
    async with open_app(settings, clock=clock) as app, client_of(create_api(app, key=KEY)) as client:
        await _store(app, product("a"), product("b"))
        clock.pass_(200 * 86_400)
        await _store(app, product("c"))
        found = (await client.get("/api/v1/products/search", params={"q": "oak"})).json()["data"]
        assert found["total"] == 3
        would = (await client.post(PATH, json={**ASKED, "dry_run": True})).json()["data"]
        assert would == {"records": 2, "files": 0, "after": 0, "more": False}
        moved = await client.post(PATH, json=ASKED)
        assert moved.json()["data"] == {"records": 2, "files": 1, "after": 2, "more": False}
        listed = (await client.get("/api/v1/products")).json()["data"]
        assert [each["product_name"] for each in listed] == ["Oak table c"]
        found = (await client.get("/api/v1/products/search", params={"q": "oak"})).json()["data"]
        assert [each["product"]["product_name"] for each in found["hits"]] == ["Oak table c"]
        (left,) = await app.database.fetch("SELECT count(*) AS n FROM search_items")
        assert left["n"] == 1, "the index forgets them, too"
        where = (await client.get(f"{PATH}/product/b")).json()["data"]
        assert (where["place"], where["version"]) == (str(address), 1)
        assert (await client.get(f"{PATH}/product/c")).status_code == 404
    rows = parquet.read_table(io.BytesIO(S3(address, s3_settings()).get(where["path"]))).to_pylist()
    assert [(row["url_hash"], row["price"], row["metadata"], row["rest"]) for row in rows] == [
        (name, Decimal("12.9000"), '{"colour":"oak"}', None) for name in ("a", "b")
    ]
    assert [row["last_seen_at"] for row in rows] == [row["first_seen_at"] for row in rows]


async def test_archived_products_leave_the_cluster_too_at_the_latest_when_it_is_back(tmp_path: Path) -> None:
    clock, cluster = HandClock(), StandIn()
    settings = new_settings(home=tmp_path, archive=tmp_path / "archive", elasticsearch_url=cluster.url)
    async with open_app(settings, clock=clock) as app, client_of(create_api(app, key=KEY)) as client:
        await _store(app, product("a"), product("b"))
        clock.pass_(200 * 86_400)
        await _store(app, product("c"))
        assert (await client.get("/api/v1/products/search", params={"q": "oak"})).json()["data"]["total"] == 3
        cluster.down = True
        failed = await client.post(PATH, json={**ASKED, "format": "jsonl"})
        assert (failed.status_code, "run again" in failed.text) == (503, True)
        assert len((await client.get("/api/v1/products")).json()["data"]) == 1, "they are in the archive"
        cluster.down = False
        assert {each["_id"] for each in _documents(cluster)} == {"a", "b", "c"}
        moved = await client.post(PATH, json=ASKED)
        assert moved.json()["data"]["records"] == 0
        assert {each["_id"] for each in _documents(cluster)} == {"c"}, "the next run finishes the one before"
        assert len(list((tmp_path / "archive" / "manifests").iterdir())) == 1
        tables = await app.database.fetch("SELECT name FROM sqlite_master WHERE name = 'search_items'")
        assert not tables, "the store has no index of its own"


def _documents(cluster: StandIn) -> list[dict[str, Any]]:
    (index,) = cluster.indexes.values()
    return list(index.rows())


async def test_without_an_archive_or_with_less_than_a_day_nothing_moves(tmp_path: Path) -> None:
    async with open_app(new_settings(home=tmp_path)) as app, client_of(create_api(app, key=KEY)) as client:
        refused = await client.post(PATH, json=ASKED)
        assert (refused.status_code, "FORAGER_ARCHIVE" in refused.text) == (422, True)
        for wrong in ({"inactive_for": "1h"}, {"kind": "sighting"}, {"inactive_for": 0}, {"format": "csv"}):
            assert (await client.post(PATH, json={**ASKED, **wrong})).status_code == 422, wrong
