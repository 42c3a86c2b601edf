"""Stores of the products pipeline that were made before its first migration had all of its columns."""

import pytest

from forager.config import new_settings
from forager.features import FEATURES
from forager.ledger.catalog import Catalog
from forager.ledger.schema.connect import Store, in_transaction
from forager.ledger.schema.migrate import check, downgrade, upgrade
from forager.wiring import build_pipelines
from tests.migration.catalogs import Snapshot, snapshot
from tests.migration.conftest import Query

EARLY = (
    "DROP INDEX ix_items_pictures_due_at_id",
    "ALTER TABLE items DROP COLUMN pictures_due_at",
    "ALTER TABLE items DROP COLUMN held",
    "ALTER TABLE items DROP COLUMN quarantined",
    "ALTER TABLE pages DROP COLUMN failed_at",
    "ALTER TABLE pages RENAME COLUMN product_url TO product_hash",
    "CREATE INDEX ix_items_price_id ON items (price, id)",
    (
        "INSERT INTO pages (url_hash, url, version, first_seen_at, last_seen_at, times_seen, changed_at)"
        " VALUES ('ab', 'https://shop.example/', 1, 5, 5, 1, 5)"
    ),
)
"""What takes the tables back to the first version of that migration, and a page of then."""


@pytest.fixture
def catalog() -> Catalog:
    return Catalog([each for each in build_pipelines(new_settings(), FEATURES) if each.name == "products"])


def test_an_early_store_gets_the_columns_that_it_lacks_and_a_later_one_stays_as_it_is__PR_20(
    store: Store, catalog: Catalog, query: Query
) -> None:
    upgrade(store, catalog)
    fresh = in_transaction(store, snapshot)
    downgrade(store, catalog, "products@products_0005")
    later = in_transaction(store, snapshot)
    downgrade(store, catalog, "products@products_0004")
    for view in ("images", "products", "crawl_tasks", "error_logs"):
        query(f"DROP VIEW IF EXISTS {view}")
    assert _shapes(in_transaction(store, snapshot)) == _shapes(later)
    for statement in EARLY:
        query(statement)
    assert _shapes(in_transaction(store, snapshot)) != _shapes(later)
    upgrade(store, catalog)
    check(store, catalog)
    assert _shapes(in_transaction(store, snapshot)) == _shapes(fresh)
    assert query("SELECT url, product_url, failed_at FROM pages") == [("https://shop.example/", None, None)]


def _shapes(found: Snapshot) -> dict[str, object]:
    """Columns of the two tables, whatever their order, and the names of all indexes."""
    columns = {name: sorted(map(repr, found["tables"][name]["columns"])) for name in ("pages", "items")}
    objects = found.get("objects") or [("index", name, "") for name, _ in found["indexes"]]
    return {**columns, "indexes": sorted(name for kind, name, _ in objects if kind == "index")}
