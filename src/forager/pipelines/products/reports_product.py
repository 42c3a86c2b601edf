"""One product in full: its row, its pictures with their files, and how its price and stock changed."""

from collections.abc import Sequence
from decimal import Decimal
from typing import Any

from pydantic import Field

from forager.core.errors import NotFound
from forager.kit.queries import Database
from forager.kit.reports import Report
from forager.kit.service import Service
from forager.pipelines.products.reports import CENT, PricePoint, ProductReport, product_reports

MOST_CHANGES = 1_000


class ImageReport(Report):
    """A picture of a product, in the order of the page."""

    image_url: str
    image_path: str | None = Field(description="The stored file; null while it is not downloaded.")
    alt_text: str | None
    image_type: str = Field(description="primary, gallery or thumbnail.")
    position: int
    width: int | None
    height: int | None
    file_size: int | None = Field(description="Bytes.")


class ProductDetails(ProductReport):
    """A product with the ids of its shop and page, its pictures, and its price history."""

    domain_id: int | None = Field(description="The shop, as `GET /api/v1/admin/domains` lists it.")
    crawl_task_id: int | None = Field(description="Its row in the SQL view `crawl_tasks`.")
    images: list[ImageReport]  # type: ignore[assignment]  # the list has what the page says; this adds the files
    price_history: list[PricePoint] = Field(description="Newest first, as `…/history` lists it.")


async def one_product(service: Service, number: int) -> ProductDetails:
    """Raises `NotFound` if there is none with this id."""
    db = service.database
    rows = await db.fetch(_ONE, {"id": number})
    if not rows:
        raise NotFound(f"There is no product {number}.")
    product = (await product_reports(db, rows))[0]
    shown = product.model_dump(exclude={"images"})
    return ProductDetails(
        **shown,
        domain_id=rows[0]["domain_id"],
        crawl_task_id=rows[0]["crawl_task_id"],
        images=await _images_of(db, product),
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


async def _images_of(db: Database, product: ProductReport) -> list[ImageReport]:
    """Its pictures as the page lists them, each with what is known of the downloaded file."""
    rows = await db.fetch(
        "SELECT image_url, image_path, width, height, file_size FROM pictures"
        " WHERE picture_key >= :first AND picture_key < :last AND gone_at IS NULL",
        {"first": f"{product.url_hash}/", "last": f"{product.url_hash}0"},  # "0" follows "/": all keys of the product
    )
    files = {row["image_url"]: dict(row) for row in rows}
    unknown = dict.fromkeys(("image_path", "width", "height", "file_size"))
    return [
        ImageReport(
            **{**unknown, **files.get(image["url"], {}), "image_url": image["url"]},
            alt_text=image.get("alt"),
            image_type=image.get("type") or "gallery",
            position=position,
        )
        for position, image in enumerate(product.images)
    ]


_ONE = """
SELECT i.*, d.id AS domain_id, p.id AS crawl_task_id FROM items i
LEFT JOIN domains d ON d.domain_name = i.domain LEFT JOIN pages p ON p.url_hash = i.page_hash
WHERE i.id = :id
"""
