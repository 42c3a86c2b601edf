"""A pipeline's own tables, records and plain ones: its migrations make what its classes declare."""

from pathlib import Path

import pytest

from forager.ledger.catalog import Catalog
from forager.ledger.schema.connect import Store, in_transaction
from forager.ledger.schema.migrate import check, create, downgrade, upgrade
from tests.migration.catalogs import names, snapshot
from tests.migration.conftest import Query
from tests.migration.shop import shop


@pytest.fixture
def catalog() -> Catalog:
    return Catalog([shop])


def test_the_migrations_of_a_pipeline_make_the_tables_that_its_classes_declare(store: Store, catalog: Catalog) -> None:
    create(store, catalog)
    fresh = in_transaction(store, snapshot)
    other = store.with_name("other.db") if isinstance(store, Path) else store
    if other == store:
        downgrade(store, catalog, "base")
    upgrade(other, catalog)
    migrated = in_transaction(other, snapshot)
    assert fresh["tables"].keys() >= {"shops", "shop_offers"}
    for part in fresh:
        assert migrated[part] == fresh[part], part


def test_what_operators_wrote_outlives_an_upgrade_and_goes_with_its_pipeline(
    store: Store, catalog: Catalog, query: Query
) -> None:
    upgrade(store, catalog)
    query("INSERT INTO shops (id, city) VALUES ('nyc', 'New York')")
    upgrade(store, catalog)
    ((tier, failures, budget, enabled, age),) = query(
        "SELECT tier, failures, budget, is_enabled, created_at FROM shops"
    )
    assert (tier, failures, budget, bool(enabled)) == ("cool", 0, 25_000, True)
    assert isinstance(age, int)
    assert age > 1_700_000_000_000
    check(store, catalog)
    downgrade(store, catalog, "shop@base")
    assert not in_transaction(store, names) & {"shops", "shop_offers"}
