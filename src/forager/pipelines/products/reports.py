"""The queries of the products pipeline: lists with filters, and their rows as people see them."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from typing import Any, Literal
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field

from forager.core.errors import FieldError, Rejected
from forager.core.hosts import one_spelling
from forager.extract.availability import Availability
from forager.extract.canonical import canonical_url, url_hash
from forager.kit.queries import (
    Database,
    Page,
    Row,
    Walk,
    at,
    checked_limit,
    decode_cursor,
    encode_cursor,
    loads,
    no_job,
    walk,
)
from forager.kit.reports import Report
from forager.pipelines.products.records import LOOKED_AT
from forager.pipelines.products.reports_domains import currencies_of
from forager.pipelines.products.reports_images import ImageReport, images_of

CENT = Decimal("0.01")
SCALE = 10_000
"""Money and ratings are stored as integers, so many to one."""


class ProductReport(Report):
    """A product as its page last showed it."""

    id: int
    domain_name: str
    url: str
    url_hash: str = Field(description="SHA-256 of the canonical URL: the key of the record.")
    product_name: str | None
    description: str | None
    price: Decimal | None
    currency: str | None = Field(description="ISO 4217; null if neither the page nor the domain says it.")
    availability: Availability | None
    rating: Decimal | None = Field(description="0 to 5.")
    review_count: int | None
    brand: str | None
    category: str | None
    sku: str | None
    gtin: str | None
    images: list[ImageReport] = Field(description="In the order of the page, with their files.")
    metadata: dict[str, Any] = Field(description="Offers and variants, the regular price, and what has no field.")
    evidence: dict[str, Any] = Field(description="By field: where its value was found, and how sure that is.")
    unseen: dict[str, str] = Field(description="By field: since when the page does not show it any more.")
    content_hash: str | None
    parser: str | None
    parser_version: int | None
    version: int = Field(description="Rises with every change.")
    created_at: datetime
    updated_at: datetime = Field(description="When its content last changed.")
    last_seen_at: datetime
    gone_at: datetime | None
    gone_reason: str | None = Field(description="Why it is gone, such as not_found.")


class ProductConditions(BaseModel):
    """What products must meet."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    domain: str | None = Field(default=None, description="Of this shop.", examples=["shop.example"])
    brand: str | None = Field(default=None, description="Exactly this brand.", examples=["Harbour Works"])
    category: str | None = Field(default=None, description="Exactly this category.", examples=["Tables"])
    availability: Availability | None = None
    min_price: Decimal | None = Field(default=None, ge=0, le=100_000_000)
    max_price: Decimal | None = Field(default=None, ge=0, le=100_000_000)
    min_rating: Decimal | None = Field(default=None, ge=0, le=5, description="Rated so, or better.")
    currency: str | None = Field(default=None, pattern="^[A-Z]{3}$", description="Prices in this currency.")
    gone: bool = Field(default=False, description="Also products that are gone.")


SORTS: Mapping[str, str] = {"price": "price", "rating": "rating", "name": "product_name", "updated": "changed_at"}
"""Column to sort by, for each name of an order."""
Sort = Literal["newest", "oldest", "price", "-price", "rating", "-rating", "name", "-name", "updated", "-updated"]


class ProductFilter(ProductConditions):
    """Which products, and in which order."""

    sort: Sort = Field(
        default="newest",
        description="`newest`, `oldest`, `price`, `rating`, `name` or `updated`; a minus sign reverses it: `-price` has"
        " the highest price first. Products without the value are left out.",
    )
    url: str | None = Field(default=None, max_length=2_048, description="The product that this page shows.")


class PricePoint(Report):
    """The price and availability of a product from one moment on."""

    at: datetime
    version: int
    price: Decimal | None
    currency: str | None
    availability: Availability | None
    gone: bool = False


async def find_products(
    db: Database, asked: ProductFilter, *, cursor: str | None = None, limit: int = 20
) -> Page[ProductReport]:
    """Newest first: one equality filter drives an index; the others are looked at along it, and only the products that
    meet all of them are read. In another order, every product that meets the filters is looked at."""
    if asked.url is not None:
        return Page(items=await _shown_by(db, asked.url), next_cursor=None)
    if asked.sort != "newest":
        return await _sorted(db, asked, cursor, limit)
    if asked == ProductFilter(gone=asked.gone):
        rows, following = await walk(db, _walk_for(asked, "*"), cursor, limit)
        return Page(items=await product_reports(db, rows), next_cursor=following)
    rows, following = await walk(db, _walk_for(asked, ", ".join(_columns_for(asked))), cursor, limit)
    products = await products_by_id(db, [row["id"] for row in rows])
    return Page(items=sorted(products, key=lambda each: -each.id), next_cursor=following)


async def _sorted(db: Database, asked: ProductFilter, cursor: str | None, limit: int) -> Page[ProductReport]:
    limit = checked_limit(limit)
    column, sign = SORTS.get(asked.sort.lstrip("-"), "id"), "<" if asked.sort.startswith("-") else ">"
    only, values = conditions(asked, "i")
    name, order = f"products by {asked.sort}", [column]
    if column != "id":
        only.append(f"i.{column} IS NOT NULL")
        order.append("id")
    if cursor is not None:
        *start, after = decode_cursor(name, ("value", "id"), cursor)
        values |= {"after": after, "start": _sort_value(column, start[0])}
        marks = ":after" if column == "id" else ":start, :after"
        only.append(f"({', '.join(f'i.{each}' for each in order)}) {sign} ({marks})")
    where = f" WHERE {' AND '.join(only)}" if only else ""
    way = "DESC" if sign == "<" else "ASC"
    rows = await db.fetch(
        f"SELECT i.id, i.{column} AS value FROM items i{where}"
        f" ORDER BY {', '.join(f'i.{each} {way}' for each in order)} LIMIT :page",
        {**values, "page": limit + 1},
    )
    shown = {each.id: each for each in await products_by_id(db, [row["id"] for row in rows[:limit]])}
    last = rows[limit - 1] if len(rows) > limit else None
    return Page(
        items=[shown[row["id"]] for row in rows[:limit]],
        next_cursor=None if last is None else encode_cursor(name, ("value", "id"), [str(last["value"]), last["id"]]),
    )


def _sort_value(column: str, text: str) -> str | int:
    if column == "product_name":
        return text
    try:
        return int(text)
    except ValueError:
        raise Rejected(
            "cursor: is not a cursor of this list.", fields=[FieldError("cursor", "start without one")]
        ) from None


async def products_by_id(db: Database, numbers: Sequence[int]) -> list[ProductReport]:
    """The products with these ids, in no particular order. Ids that do not exist are left out."""
    values = {f"id{place}": number for place, number in enumerate(numbers)}
    if not values:
        return []
    marks = ", ".join(f":{mark}" for mark in values)
    return await product_reports(db, await db.fetch(f"SELECT * FROM items WHERE id IN ({marks})", values))


async def turn_of_job(db: Database, job: UUID) -> int:
    """Where a job stands among those of the same lane; 0 is the fair turn. Raises `NotFound` if there is none."""
    rows = await db.fetch("SELECT turn FROM jobs WHERE public_id = :job", {"job": str(job)})
    if not rows:
        raise no_job(job)
    return int(rows[0]["turn"])


async def _shown_by(db: Database, url: str) -> list[ProductReport]:
    """The product of a page: its own, or the one to which it redirects."""
    try:
        key = url_hash(canonical_url(url))
    except ValueError:
        return []
    pages = await db.fetch("SELECT product_url FROM pages WHERE url_hash = :key", {"key": key})
    shown = pages[0]["product_url"] if pages else None
    rows = await db.fetch("SELECT * FROM items WHERE url_hash = :key", {"key": url_hash(shown) if shown else key})
    return await product_reports(db, rows)


_BY_INDEX = ("brand", "category", "domain")
"""The narrowest first."""
_EQUAL = (*_BY_INDEX, "availability", "currency")
_BOUNDS = (("min_price", "price", ">="), ("max_price", "price", "<="), ("min_rating", "rating", ">="))


def conditions(asked: ProductConditions, row: str, but: str | None = None) -> tuple[list[str], dict[str, Any]]:
    """The filter as SQL on a row of `items`, without the field `but`, and its values."""
    only: list[str] = []
    values: dict[str, Any] = {}
    for name in _EQUAL:
        value = getattr(asked, name)
        if value is not None:
            values[name] = one_spelling(value) if name == "domain" else value
            only += [] if name == but else [f"{row}.{name} = :{name}" if name != "currency" else _in_currency(row)]
    for name, column, sign in _BOUNDS:
        value = getattr(asked, name)
        if value is not None:
            values[name] = int(value * SCALE)
            only.append(f"{row}.{column} {sign} :{name}")
    if not asked.gone:
        only.append(f"{row}.gone_at IS NULL")
    return only, values


def _in_currency(row: str) -> str:
    """As `product_reports` shows it: the domain's currency beats none, and one by a shared sign."""
    return (
        f"(CASE WHEN {row}.currency IS NULL OR {row}.evidence -> 'currency' ->> 'source' = 'sign' THEN"
        f" coalesce((SELECT d.currency FROM domains d WHERE d.domain_name = {row}.domain), {row}.currency)"
        f" ELSE {row}.currency END) = :currency"
    )


def _columns_for(asked: ProductFilter) -> list[str]:
    """What a walk needs in order to apply the filters. Those that are always here are part of its index."""
    more = [name for name in _BY_INDEX if getattr(asked, name) is not None]
    if asked.currency is not None:
        more += ["currency", "evidence", *([] if "domain" in more else ["domain"])]
    return ["id", *LOOKED_AT, *more]


def _walk_for(asked: ProductFilter, columns: str) -> Walk:
    driving = next((name for name in _BY_INDEX if getattr(asked, name) is not None), None)
    only, values = conditions(asked, "w", but=driving)
    where = (f"{driving} = :{driving}",) if driving else ()
    source = f"SELECT {columns} FROM items"
    return Walk("products", source, ("id",), where, descending=True, only=tuple(only), values=values)


async def product_reports(db: Database, rows: Sequence[Row]) -> list[ProductReport]:
    """Rows of `items` as people see them. If an operator has set the currency of a domain, its prices have that one
    unless their page names another; a sign that several countries share, such as `$`, names none."""
    usual = await currencies_of(db, [row["domain"] for row in rows if _is_currency_open(row)])
    images = await images_of(db, rows)
    return [_report(row, usual, images[row["url_hash"]]) for row in rows]


def _report(row: Row, currencies: Mapping[str, str], images: list[ImageReport]) -> ProductReport:
    stored = {name: row[name] for name in _AS_STORED}
    if _is_currency_open(row):
        stored["currency"] = currencies.get(row["domain"]) or row["currency"]
    return ProductReport(
        **stored,
        domain_name=row["domain"],
        price=_money(row["price"]),
        rating=_money(row["rating"]),
        images=images,
        **{name: loads(row[name]) or {} for name in ("metadata", "evidence", "unseen")},
        created_at=at(row["first_seen_at"]),
        updated_at=at(row["changed_at"]),
        last_seen_at=at(row["last_seen_at"]),
        gone_at=at(row["gone_at"]),
    )


def _is_currency_open(row: Row) -> bool:
    if row["price"] is None or row["currency"] is None:
        return row["price"] is not None
    return bool(((loads(row["evidence"]) or {}).get("currency") or {}).get("source") == "sign")


def _money(scaled: int | None) -> Decimal | None:
    return None if scaled is None else (Decimal(scaled) / SCALE).quantize(CENT)


_AS_STORED = (
    "id",
    "url",
    "url_hash",
    "product_name",
    "description",
    "currency",
    "availability",
    "review_count",
    "brand",
    "category",
    "sku",
    "gtin",
    "content_hash",
    "parser",
    "parser_version",
    "version",
    "gone_reason",
)
