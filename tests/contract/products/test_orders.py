"""Lists of a large catalogue: complete, in order, and by an index: a page costs the same however large it is."""

import re
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

import pytest

from bench.support.catalogue import statements
from forager.core.database import Database, Dialect, Row
from forager.pipelines.products.reports.catalogue import ProductFilter, ProductReport, Sort, crawl_tasks, find_products
from tests.support.shop import OpenShop, Shop

PRODUCTS = 20_000
ORDERS: dict[Sort, str] = {
    "oldest": "id",
    "price": "price",
    "-price": "price",
    "rating": "rating",
    "-rating": "rating",
    "name": "product_name",
    "-name": "product_name",
    "updated": "updated_at",
    "-updated": "updated_at",
}


@pytest.fixture
async def shop(shop_of: OpenShop) -> Shop:
    shop = await shop_of(pages=1)
    database = shop.app.database
    for statement in statements(database.dialect if database.dialect == "sqlite" else "postgres", PRODUCTS):
        await (database.write(statement) if statement.startswith("INSERT") else database.fetch(statement))
    await database.write("UPDATE items SET rating = NULL, gone_at = 1 WHERE id % 1000 = 7")
    if database.dialect != "sqlite":
        await database.write("ANALYZE items")
    return shop


async def listed(database: Database, asked: ProductFilter, pages: int, limit: int) -> list[ProductReport]:
    found: list[ProductReport] = []
    cursor = None
    for _ in range(pages):
        page = await find_products(database, asked, cursor=cursor, limit=limit)
        found += page.items
        cursor = page.next_cursor
        if cursor is None:
            break
    return found


async def test_every_order_lists_each_product_once_over_all_pages__PR_18(shop: Shop) -> None:
    brand, more = "Brand 31", {"min_price": Decimal(5), "availability": "in_stock"}
    everything = {each.id: each for each in await listed(shop.app.database, ProductFilter(brand=brand), 99, 50)}
    assert everything
    for sort, field in ORDERS.items():
        for asked in ({"brand": brand}, {"brand": brand, **more}):
            found = await listed(shop.app.database, ProductFilter(sort=sort, **asked), 99, 2)
            values = [(getattr(each, field), each.id) for each in found]
            assert values == sorted(values, reverse=sort.startswith("-")), sort
        first = await listed(shop.app.database, ProductFilter(sort=sort, **more), 3, 40)
        values = [(getattr(each, field), each.id) for each in first]
        assert len(set(values)) == len(values) == 120, (sort, len(values))
        assert all(each.price and each.price >= 5 and each.availability == "in_stock" for each in first)
        assert not any(each.gone_at for each in first)
        if field != "product_name":  # a database compares texts by its own rules
            assert values == sorted(values, reverse=sort.startswith("-")), sort
    dear = await listed(shop.app.database, ProductFilter(sort="-price", max_price=Decimal(1_000)), 1, 20)
    assert {each.price for each in dear} == {max(each.price or 0 for each in dear)} or len(dear) == 20
    assert all(each.price is not None and Decimal(990) < each.price <= 1_000 for each in dear)
    best = await listed(shop.app.database, ProductFilter(sort="rating", min_rating=Decimal("4.9")), 1, 20)
    assert [each.rating for each in best] == [Decimal("4.90")] * 20, "the bound begins the walk along the index"


class Explaining:
    """A database that notes the plan of each read."""

    def __init__(self, inner: Database) -> None:
        self._inner = inner
        self.dialect: Dialect = inner.dialect
        self.plans: list[str] = []

    async def fetch(self, sql: str, values: Mapping[str, Any] | None = None) -> Sequence[Row]:
        self._note(await self._inner.fetch(f"{self._explain} {sql}", values))
        return await self._inner.fetch(sql, values)

    async def fetch_by_keys(self, sql: str, keys: Mapping[str, Sequence[str]]) -> Sequence[Row]:
        self._note(await self._inner.fetch_by_keys(f"{self._explain} {sql}", keys))
        return await self._inner.fetch_by_keys(sql, keys)

    @property
    def _explain(self) -> str:
        return "EXPLAIN QUERY PLAN" if self.dialect == "sqlite" else "EXPLAIN"

    def _note(self, steps: Sequence[Row]) -> None:
        self.plans.append("\n".join(str(step.get("detail") or step.get("QUERY PLAN")) for step in steps))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


@pytest.mark.parametrize("more", [{}, {"min_price": Decimal(5)}, {"currency": "EUR", "availability": "in_stock"}])
async def test_a_sorted_list_reads_no_more_than_a_part_of_its_index__PR_20(shop: Shop, more: dict[str, Any]) -> None:
    for sort, field in ORDERS.items():
        database = Explaining(shop.app.database)
        page = await find_products(database, ProductFilter(sort=sort, **more))
        assert len(page.items) == 20
        walked = database.plans[0]
        by_id = "SCAN items" if database.dialect == "sqlite" else "pk_items"  # SQLite's rows are in the order of id
        assert {"id": by_id, "updated_at": "ix_items_changed_at_id"}.get(field, f"ix_items_{field}_id") in walked, (
            walked
        )
        assert "Seq Scan on items" not in walked, (sort, walked)
        assert "TEMP B-TREE" not in walked, (sort, walked)


SERIES = {
    "sqlite": "(WITH RECURSIVE s(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM s WHERE n < {0}) SELECT n FROM s)",
    "postgresql": "(SELECT CAST(generate_series(1, {0}) AS bigint) AS n) s",
}
WALKED = re.compile(
    r"Seq Scan on (pages|open_keys|tasks)|SCAN (pages|open_keys|tasks|p|q|o)\b|TEMP B-TREE FOR ORDER BY"
)
"""A table that is read from one end to the other, or sorted, for one page."""


async def test_the_list_of_crawl_tasks_reads_only_the_pages_that_it_shows__PR_3__PR_20(shop_of: OpenShop) -> None:
    shop = await shop_of(pages=1)
    database, series = shop.app.database, SERIES[shop.app.database.dialect].format(PRODUCTS)
    await database.write(
        "INSERT INTO pages (id, url_hash, url, domain, version, first_seen_at, last_seen_at, times_seen, changed_at)"
        f" SELECT n, 'h' || n, 'https://a.example/' || n, 'a.example', 1, n, n, 1, n FROM {series}"
    )
    await database.write(
        f"INSERT INTO open_keys (kind, key, task_id) SELECT 'products.crawl', 'h' || n, n FROM {series} WHERE n % 2 = 0"
    )
    await database.write(
        "INSERT INTO tasks (id, job_id, lane_id, kind, key, state, body)"
        f" SELECT n, 1, 1, CASE n % 2 WHEN 0 THEN 'products.crawl' ELSE 'products.parse' END, 'h' || n, 4, :body"
        f" FROM {series}",
        {"body": b"{}"},
    )
    if database.dialect == "postgresql":
        for table in ("pages", "open_keys", "tasks"):
            await database.write(f"ANALYZE {table}")
    for asked in ({}, {"domain": "a.example"}, {"status": "failed"}):
        explaining = Explaining(database)
        page = await crawl_tasks(explaining, **asked, limit=20)
        assert len(page.items) == (0 if "status" in asked else 20)
        assert [plan for plan in explaining.plans if WALKED.search(plan)] == []
    found, cursor = set[str](), None
    for _ in range(PRODUCTS):
        page = await crawl_tasks(database, cursor=cursor, limit=1_000)
        found |= {each.url_hash for each in page.items}
        if (cursor := page.next_cursor) is None:
            break
    assert found == {f"h{number}" for number in range(1, PRODUCTS + 1)}, "each page and each task, over all parts"
