"""One product in full: its row, its pictures with their files, and how its price and stock changed."""

from collections.abc import Sequence
from decimal import Decimal
from typing import Any

from pydantic import Field

from forager.core.errors import NotFound
from forager.kit.service import Service
from forager.pipelines.products.reports import CENT, PricePoint, ProductReport, product_reports

MOST_CHANGES = 1_000


class ProductDetails(ProductReport):
    """A product with the ids of its shop and page, and its price history."""

    domain_id: int | None = Field(description="The shop, as `GET /api/v1/admin/domains` lists it.")
    crawl_task_id: int | None = Field(description="Its row in the SQL view `crawl_tasks`.")
    price_history: list[PricePoint] = Field(description="Newest first, as `…/history` lists it.")


async def one_product(service: Service, number: int) -> ProductDetails:
    """Raises `NotFound` if there is none with this id."""
    db = service.database
    rows = await db.fetch(_ONE, {"id": number})
    if not rows:
        raise NotFound(f"There is no product {number}.")
    product = (await product_reports(db, rows))[0]
    return ProductDetails(
        **product.model_dump(),
        domain_id=rows[0]["domain_id"],
        crawl_task_id=rows[0]["crawl_task_id"],
        price_history=await price_history(service, product.url_hash),
    )


async def history_of(service: Service, number: int) -> list[PricePoint]:
    """Newest first; of a product with more than 1,000 changes, the newest ones. Raises `NotFound` if there is none with
    this id."""
    rows = await service.database.fetch("SELECT url_hash FROM items WHERE id = :id", {"id": number})
    if not rows:
        raise NotFound(f"There is no product {number}.")
    return await price_history(service, rows[0]["url_hash"])


async def price_history(service: Service, key: str) -> list[PricePoint]:
    changes = await service.reports.history("product", key, limit=MOST_CHANGES)
    return price_points(changes.items)


def price_points(changes: Sequence[Any]) -> list[PricePoint]:
    """Those of a product's changes, newest first, at which price, currency, availability or its end changed."""
    points: list[PricePoint] = []
    for change in reversed(changes):
        body = change.body or {}
        point = PricePoint(
            at=change.at,
            version=change.version,
            price=None if body.get("price") is None else Decimal(body["price"]).quantize(CENT),
            currency=body.get("currency"),
            availability=body.get("availability"),
            gone=change.op == "gone",
        )
        if not points or _offer(points[-1]) != _offer(point):
            points.append(point)
    return points[::-1]


def _offer(point: PricePoint) -> tuple[Any, ...]:
    return point.price, point.currency, point.availability, point.gone


_ONE = """
SELECT i.*, d.id AS domain_id, p.id AS crawl_task_id FROM items i
LEFT JOIN domains d ON d.domain_name = i.domain LEFT JOIN pages p ON p.url_hash = i.page_hash
WHERE i.id = :id
"""
