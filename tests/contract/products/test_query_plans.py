"""Every query of the product list, the search and the scheduler walks an index."""

from collections.abc import Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from forager.core.database import Database, Dialect, Row
from forager.pipelines.products.records import Product
from forager.pipelines.products.reports.catalogue import ProductFilter, find_products
from forager.sdk.search import index_of
from tests.support.shop import open_shop


class Explaining:
    """A database that also notes how each read would be answered."""

    def __init__(self, inner: Database) -> None:
        self._inner = inner
        self.dialect: Dialect = inner.dialect
        self.steps: list[str] = []

    async def fetch(self, sql: str, values: Mapping[str, Any] | None = None) -> Sequence[Row]:
        self.steps += [row["detail"] for row in await self._inner.fetch(f"EXPLAIN QUERY PLAN {sql}", values)]
        return await self._inner.fetch(sql, values)

    async def fetch_tuples(self, sql: str, values: Mapping[str, Any] | None = None) -> Sequence[Any]:
        return await self._inner.fetch_tuples(sql, values)

    async def fetch_by_keys(self, sql: str, keys: Mapping[str, Sequence[str]]) -> Sequence[Row]:
        return await self._inner.fetch_by_keys(sql, keys)

    async def fetch_by_words(self, sql: str, values: Mapping[str, Any] | None = None) -> Sequence[Row]:
        return await self.fetch(sql, values)

    async def fetch_fresh(self, sql: str, values: Mapping[str, Any] | None = None) -> Sequence[Row]:
        return await self.fetch(sql, values)

    async def write(self, sql: str, values: Mapping[str, Any] | None = None) -> Sequence[Row]:
        return await self._inner.write(sql, values)


LISTS = {
    "": "SCAN items",  # by its id, newest first
    "brand": "SEARCH items USING COVERING INDEX ix_items_brand_id_",
    "category": "SEARCH items USING COVERING INDEX ix_items_category_id_",
    "domain": "SEARCH items USING COVERING INDEX ix_items_domain_id_",
}


@pytest.mark.parametrize("driving", LISTS)
async def test_a_list_walks_the_index_of_its_filter__PR_20(tmp_path: Path, driving: str) -> None:
    more = {"min_price": Decimal(5), "max_price": Decimal(50), "availability": "in_stock", "min_rating": Decimal(4)}
    async with open_shop(tmp_path / "home", pages=2) as shop:
        for others in ({}, more):
            database = Explaining(shop.app.database)
            await find_products(database, ProductFilter(**others, **({driving: "x"} if driving else {})))
            assert LISTS[driving] in " ".join(database.steps)
        due = await shop.app.database.fetch(
            "EXPLAIN QUERY PLAN SELECT id FROM pages WHERE next_crawl_at IS NOT NULL AND next_crawl_at <= 5"
            " ORDER BY next_crawl_at LIMIT 1000"
        )
        assert [row["detail"] for row in due] == [
            "SEARCH pages USING COVERING INDEX ix_pages_next_crawl_at_id (next_crawl_at>? AND next_crawl_at<?)"
        ]


async def test_a_search_is_planned_for_its_words_and_by_the_full_text_index__PR_20(
    tmp_path: Path, app_postgres_url: str
) -> None:
    rare = "SELECT id FROM search_items WHERE document @@ to_tsquery('english', :word) ORDER BY id DESC LIMIT 100"
    modes = "SELECT current_setting('plan_cache_mode') AS plans, current_setting('enable_bitmapscan') AS bitmaps"
    async with open_shop(tmp_path / "home", app_postgres_url, pages=1) as shop:
        database = shop.app.database
        await index_of(Product, database).search("oak")  # creates the index
        await database.write(
            "INSERT INTO search_items (id, document)"
            " SELECT n, to_tsvector('english', 'common rare' || n || :more) FROM generate_series(1, 20000) n",
            {"more": " ".join(f" word{n}" for n in range(30))},
        )
        await database.write("SELECT gin_clean_pending_list('ix_search_items_document')")
        await database.write("ANALYZE search_items")
        steps = await database.fetch_by_words(f"EXPLAIN {rare}", {"word": "rare77"})
        assert "Bitmap Index Scan on ix_search_items_document" in str(steps)
        steps = await database.fetch_by_words(f"EXPLAIN {rare}", {"word": "common"})
        assert "Index Scan Backward using search_items_pkey" in str(steps)
        assert await database.fetch_by_words(modes) == [{"plans": "force_custom_plan", "bitmaps": "on"}]
        assert await database.fetch(modes) == [{"plans": "auto", "bitmaps": "off"}]  # they hold for one search
