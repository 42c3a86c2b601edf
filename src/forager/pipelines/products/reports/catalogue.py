"""The queries of the products pipeline: lists with filters, and their rows as people see them."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any, Literal
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field

from forager.core.database import Database, Row
from forager.core.errors import NotFound
from forager.core.hosts import one_spelling
from forager.core.states import Reason
from forager.core.storage import page_path
from forager.extract.products.findings import MOST_IMAGES
from forager.extract.text.prices import Availability
from forager.extract.text.urls import canonical_url, url_hash
from forager.pipelines.products.job import StoredPage
from forager.pipelines.products.pictures import picture_key
from forager.pipelines.products.records import LOOKED_AT
from forager.pipelines.products.reports.domains import currencies_of
from forager.pipelines.products.tasks import Crawl
from forager.sdk.queries import QueryPage, Walk, at, checked_limit, decode_cursor, encode_cursor, loads, no_job, walk
from forager.sdk.reports import JobReport, Report
from forager.sdk.service import Service

# The pictures of products as every list and every single product shows them: in one shape.


_FILE = ("width", "height", "file_size")
_FILES = f"""
SELECT product_hash, image_url, image_path, {", ".join(_FILE)} FROM pictures
WHERE picture_key IN :keys AND gone_at IS NULL
"""


class ImageReport(Report):
    """A picture of a product, in the order of the page."""

    image_url: str
    image_path: str | None = Field(description="The stored file in this API; null while it is not downloaded.")
    alt_text: str | None
    image_type: str = Field(description="primary, gallery or thumbnail.")
    position: int
    width: int | None
    height: int | None
    file_size: int | None = Field(description="Bytes.")


async def images_of(db: Database, rows: Sequence[Row]) -> dict[str, list[ImageReport]]:
    """Return the pictures of these rows of `items` by the product's hash, in the order of the page, each with its
    downloaded file. All files are read by one statement, by their keys."""
    listed: dict[str, list[dict[str, Any]]] = {row["url_hash"]: loads(row["images"]) or [] for row in rows}
    keys = [picture_key(key, place) for key, images in listed.items() for place in range(min(len(images), MOST_IMAGES))]
    stored = await db.fetch_by_keys(_FILES, {"keys": keys}) if keys else ()
    files = {(row["product_hash"], row["image_url"]): row for row in stored}
    return {
        key: [
            _image_report(image, position, files.get((key, image["url"])))
            for position, image in enumerate(images)
            if image.get("url")
        ]
        for key, images in listed.items()
    }


def _image_report(image: Mapping[str, Any], position: int, file: Row | None) -> ImageReport:
    return ImageReport(
        image_url=image["url"],
        alt_text=image.get("alt"),
        image_type=image.get("type") or "gallery",
        position=position,
        image_path=None if file is None else page_path(file["image_path"]),
        **{name: None if file is None else file[name] for name in _FILE},
    )


CENT = Decimal("0.01")
SCALE = 10_000
"""Scale of stored money and ratings (integers)."""


class ProductReport(Report):
    """A product as its page last showed it."""

    id: int
    domain_name: str
    url: str
    url_hash: str = Field(description="SHA-256 of the canonical URL: the key of the record.")
    product_name: str | None
    description: str | None
    price: Decimal | None
    currency: str | None = Field(description="ISO 4217; null if neither the page nor the domain has one.")
    availability: Availability | None
    rating: Decimal | None = Field(description="0 to 5.")
    review_count: int | None
    brand: str | None
    category: str | None
    sku: str | None
    gtin: str | None
    images: list[ImageReport] = Field(description="In the order of the page, with their files.")
    metadata: dict[str, Any] = Field(description="Offers and variants, the regular price, and what has no field.")
    evidence: dict[str, Any] = Field(description="Source and confidence of each value, by field.")
    unseen: dict[str, str] = Field(description="Time since which the page does not show a field, by field.")
    content_hash: str | None
    parser: str | None
    parser_version: int | None
    version: int = Field(description="Rises with every change.")
    created_at: datetime
    updated_at: datetime = Field(description="Time of the last change of its content.")
    last_seen_at: datetime
    gone_at: datetime | None
    gone_reason: str | None = Field(description="Why it is gone, such as not_found.")


class ProductConditions(BaseModel):
    """Conditions for products."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    domain: str | None = Field(default=None, description="Only of this shop.", examples=["shop.example"])
    brand: str | None = Field(default=None, description="Exactly this brand.", examples=["Harbour Works"])
    category: str | None = Field(default=None, description="Exactly this category.", examples=["Tables"])
    availability: Availability | None = None
    min_price: Decimal | None = Field(default=None, ge=0, le=100_000_000)
    max_price: Decimal | None = Field(default=None, ge=0, le=100_000_000)
    min_rating: Decimal | None = Field(default=None, ge=0, le=5, description="Rated so, or better.")
    currency: str | None = Field(default=None, pattern="^[A-Z]{3}$", description="Prices in this currency.")
    gone: bool = Field(default=False, description="Include products that are gone.")


SORTS: Mapping[str, str] = {"price": "price", "rating": "rating", "name": "product_name", "updated": "changed_at"}
"""Column to sort by, for each name of an order."""
Sort = Literal["newest", "oldest", "price", "-price", "rating", "-rating", "name", "-name", "updated", "-updated"]


class ProductFilter(ProductConditions):
    """Filters and sort order of a list of products."""

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
) -> QueryPage[ProductReport]:
    """Newest first: one equality filter drives an index; the others are checked along it, and only the products that
    meet all of them are read. Another order walks its own index in the same way; with an equality filter, all products
    that meet this one are sorted."""
    if asked.url is not None:
        return QueryPage(items=await _shown_by(db, asked.url), next_cursor=None)
    if asked.sort != "newest":
        return await _sorted(db, asked, cursor, limit)
    if asked == ProductFilter(gone=asked.gone):
        rows, following = await walk(db, _walk_for(asked, "*"), cursor, limit)
        return QueryPage(items=await product_reports(db, rows), next_cursor=following)
    rows, following = await walk(db, _walk_for(asked, ", ".join(_columns_for(asked))), cursor, limit)
    products = await products_by_id(db, [row["id"] for row in rows])
    return QueryPage(items=sorted(products, key=lambda each: -each.id), next_cursor=following)


async def _sorted(db: Database, asked: ProductFilter, cursor: str | None, limit: int) -> QueryPage[ProductReport]:
    rows, following = await walk(db, _walk_in_order(asked), cursor, limit)
    shown = {each.id: each for each in await products_by_id(db, [row["id"] for row in rows])}
    return QueryPage(items=[shown[row["id"]] for row in rows if row["id"] in shown], next_cursor=following)


def _walk_in_order(asked: ProductFilter) -> Walk:
    """Return the walk along the index of an order, which a bound on its column shortens. With an equality filter, the
    index of that one finds all products that meet it, and they are sorted: the index of the order would be walked for
    long until it came to them."""
    column, descending = SORTS.get(asked.sort.lstrip("-"), "id"), asked.sort.startswith("-")
    only, values = conditions(asked, "w")
    by = column if column in ("id", "product_name") else "by_number"
    number = f", {column} AS by_number" if by == "by_number" else ""
    columns = ", ".join(dict.fromkeys([*_columns_for(asked), column]))
    where = [] if column == "id" else [f"w.{by} IS NOT NULL"]
    where += [f"w.{by} {sign} :{name}" for name, bound, sign in _BOUNDS if bound == column and name in values]
    if any(getattr(asked, name) is not None for name in _BY_INDEX):
        where, only = [*where, *only], []
    source = f"SELECT * FROM (SELECT {columns}{number} FROM items) w"
    order = ("id",) if by == "id" else (by, "id")
    of = f"products by {asked.sort}"
    return Walk(of, source, order, tuple(where), descending=descending, only=tuple(only), values=values)


async def products_by_id(db: Database, numbers: Sequence[int]) -> list[ProductReport]:
    """Return the products with these ids, in no particular order. Ids that do not exist are left out."""
    values = {f"id{place}": number for place, number in enumerate(numbers)}
    if not values:
        return []
    marks = ", ".join(f":{mark}" for mark in values)
    return await product_reports(db, await db.fetch(f"SELECT * FROM items WHERE id IN ({marks})", values))


async def turn_of_job(db: Database, job: UUID) -> int:
    """Return a job's turn among the jobs of the same lane; 0 is the fair turn. Raises `NotFound` for an unknown job."""
    rows = await db.fetch("SELECT turn FROM jobs WHERE public_id = :job", {"job": str(job)})
    if not rows:
        raise no_job(job)
    return int(rows[0]["turn"])


async def _shown_by(db: Database, url: str) -> list[ProductReport]:
    """Return the product of a page: its own, or the one to which it redirects."""
    try:
        key = url_hash(canonical_url(url))
    except ValueError:
        return []
    pages = await db.fetch("SELECT product_url FROM pages WHERE url_hash = :key", {"key": key})
    shown = pages[0]["product_url"] if pages else None
    rows = await db.fetch("SELECT * FROM items WHERE url_hash = :key", {"key": url_hash(shown) if shown else key})
    return await product_reports(db, rows)


_BY_INDEX = ("brand", "category", "domain")
"""Filters that an index serves, the most selective one first."""
_EQUAL = (*_BY_INDEX, "availability", "currency")
_BOUNDS = (("min_price", "price", ">="), ("max_price", "price", "<="), ("min_rating", "rating", ">="))


def conditions(asked: ProductConditions, row: str, but: str | None = None) -> tuple[list[str], dict[str, Any]]:
    """Return the filter as SQL on a row of `items`, without the field `but`, and its values."""
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
    """Return the columns that a walk needs to apply the filters. Those that are always returned are part of its
    index."""
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
    """Return rows of `items` as people see them. If an operator has set the currency of a domain, its prices have that
    one unless their page names another; a sign that several countries share, such as `$`, names none."""
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


# Queries about pages: the list of crawl tasks, and the stored values of pages that are crawled again.


AT_ONCE = 1_000
"""Pages that are read by one query: a statement has a limited number of parameters."""
WINDOW = 5_000
"""Maximum URLs that are read for one page of the list of crawl tasks."""
Status = Literal["pending", "queued", "crawling", "downloaded", "parsing", "completed", "failed"]
_ORDER = ("part", "id")
_TOP = 1 << 62
_COLUMNS = ("priority", "frequency", "recrawl", "max_retries", "render", "misses", "product_url")


async def stored_pages(db: Database, urls: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Map each canonical URL to its `StoredPage` without the defaults; a page that was never crawled has only these."""
    pages: dict[str, dict[str, Any]] = {url: {} for url in urls}
    by_hash = {url_hash(url): url for url in pages}
    hashes = sorted(by_hash)
    for start in range(0, len(hashes), AT_ONCE):
        values = {f"hash{place}": each for place, each in enumerate(hashes[start : start + AT_ONCE])}
        marks = ", ".join(f":{mark}" for mark in values)
        rows = await db.fetch(f"SELECT url_hash, {', '.join(_COLUMNS)} FROM pages WHERE url_hash IN ({marks})", values)
        for row in rows:
            known = {name: row[name] for name in _COLUMNS if row[name] is not None}
            pages[by_hash[row["url_hash"]]] = StoredPage(**known).model_dump(exclude_defaults=True)
    return pages


class SolePage(Report):
    """The page of an ended job of one page, and what came of it."""

    url: str
    job_id: UUID = Field(description="The job that crawls the page: another one, if that had the page already.")
    job_state: str
    pages: int = Field(description="Tasks of that job.")
    outcome: Literal["product", "gone", "no_product"] | None = Field(description="null: the page was not crawled.")
    http_status: int | None
    error: str | None = Field(description="Why the page was not crawled.")
    product: ProductReport | None


async def sole_page(service: Service, job: JobReport) -> SolePage | None:
    """Return the page of a job; None if it has not ended, or has other tasks than the crawl of one page.

    A page is open in one job at a time. A second job ends at once, after it has made the page of the first one due, so
    the first one decides what came of it.
    """
    tasks = [] if job.finished_at is None or job.total != 1 else (await service.reports.tasks(job.id, limit=1)).items
    if not tasks or tasks[0].kind != Crawl.kind or tasks[0].url is None:
        return None
    task, url = tasks[0], tasks[0].url
    if task.reason == Reason.JOINED:
        with suppress(NotFound):  # removed since: the job stands for itself again
            task = await service.reports.task(UUID(task.facts["joined"]))
            job = await service.reports.job(task.job)
    product, outcome, status = None, None, None
    if task.state == "completed":
        product = next(iter(await _shown_by(service.database, url)), None)
        rows = await service.database.fetch(
            "SELECT outcome, http_status FROM pages WHERE url_hash = :key", {"key": url_hash(url)}
        )
        status = rows[0]["http_status"] if rows else None
        is_gone = bool(rows) and rows[0]["outcome"] == "gone"
        outcome = "product" if product is not None else "gone" if is_gone else "no_product"
    return SolePage(
        url=url,
        job_id=job.id,
        job_state=job.state,
        pages=job.total,
        outcome=outcome,
        http_status=status,
        error=task.error,
        product=product,
    )


class CrawlTaskReport(Report):
    """A URL that is crawled, and the state of its newest task: a row of the SQL view `crawl_tasks`."""

    id: int = Field(description="Negative until its first crawl, which gives it the id of its page.")
    domain_id: int | None = Field(description="The shop, as `GET /api/v1/admin/domains` lists it.")
    url: str
    url_hash: str = Field(description="SHA-256 of the canonical URL.")
    status: Status = Field(description="completed: crawled, and not due again yet.")
    priority: int = Field(description="1 is the highest, 10 the lowest.")
    scheduled_at: datetime | None = Field(description="Due time, past or future.")
    started_at: datetime | None
    completed_at: datetime | None
    retry_count: int
    max_retries: int
    error_message: str | None
    crawl_frequency: int = Field(description="Seconds between two crawls.")
    next_crawl_at: datetime | None
    html_path: str | None = Field(description="The stored page in this API; null if none is stored.")
    created_at: datetime | None
    updated_at: datetime | None


async def crawl_tasks(
    db: Database,
    *,
    status: str | None = None,
    domain: str | None = None,
    cursor: str | None = None,
    limit: int = 100,
) -> QueryPage[CrawlTaskReport]:
    """Return the URLs, the one that was queued last first; those of one shop by page, newest first.

    There are two parts, because a URL that was never crawled has no page, and a page whose job was pruned has no task:
    all that have a task and then the other pages, or all pages of a shop and then its URLs without one. A status is not
    stored, so a filter reads a bounded number of URLs: a page may be short, even empty, and still have a next one.
    """
    wanted = checked_limit(limit)
    parts = ("task", "rest") if domain is None else ("page", "new")
    name_of_list = "crawl tasks" if domain is None else f"crawl tasks of {one_spelling(domain)}"
    part, start = decode_cursor(name_of_list, _ORDER, cursor) if cursor else (parts[0], _TOP)
    shop = None if domain is None else await _domain_id(db, domain)
    values: dict[str, Any] = {} if domain is None else {"domain": one_spelling(domain)}
    found: list[CrawlTaskReport] = []
    for name in parts[parts.index(part) if part in parts else 0 :]:
        looked_at, most = 0, AT_ONCE if status or name in ("rest", "new") else min(AT_ONCE, wanted + 1)
        while looked_at < WINDOW:
            rows = await db.fetch(_KEYS[name], {**(values if name == "page" else {}), "start": start, "most": most})
            keys = {row["key"]: row["id"] for row in rows if not row["other"]}
            shown = {row["url_hash"]: row for row in await _rows_of(db, list(keys))}
            for key, number in keys.items():
                row = shown.get(key)
                if row is None or (status or row["status"]) != row["status"] or (domain and row["domain_id"] != shop):
                    continue
                if len(found) == wanted:
                    return QueryPage(items=found, next_cursor=encode_cursor(name_of_list, _ORDER, [name, number + 1]))
                found.append(_crawl_task(row))
            if len(rows) < most:
                break
            start, looked_at = rows[-1]["id"], looked_at + len(rows)
        else:
            return QueryPage(items=found, next_cursor=encode_cursor(name_of_list, _ORDER, [name, start]))
        start = _TOP
    return QueryPage(items=found, next_cursor=None)


async def _rows_of(db: Database, keys: Sequence[str]) -> Sequence[Row]:
    """Return the rows of `crawl_tasks` with these keys. SQLite uses the indexes of the tables below the view only for a
    list of values: with a subquery it would read all pages."""
    if not keys:
        return ()
    if db.dialect != "sqlite":
        return await db.fetch_by_keys("SELECT * FROM crawl_tasks WHERE url_hash IN :keys", {"keys": keys})
    values = {f"key{place}": key for place, key in enumerate(keys)}
    marks = ", ".join(f":{mark}" for mark in values)
    return await db.fetch(f"SELECT * FROM crawl_tasks WHERE url_hash IN ({marks})", values)


_HAS_PAGE = "EXISTS (SELECT 1 FROM pages p WHERE p.url_hash = o.key)"
_HAS_TASK = "EXISTS (SELECT 1 FROM open_keys o WHERE o.kind = 'products.crawl' AND o.key = p.url_hash)"
# With a cast, the kind chooses no index: the tasks are walked in their order, past the few of other kinds.
_OPEN = """
SELECT o.task_id AS id, o.key, {other} AS other FROM open_keys o
WHERE CAST(o.kind AS TEXT) = 'products.crawl' AND o.task_id < :start ORDER BY o.task_id DESC LIMIT :most
"""
_PAGES = """
SELECT p.id, p.url_hash AS key, {other} AS other FROM pages p
WHERE {only}p.id < :start ORDER BY p.id DESC LIMIT :most
"""
_KEYS = {
    "task": _OPEN.format(other="1 = 0"),
    "rest": _PAGES.format(other=_HAS_TASK, only=""),
    "page": _PAGES.format(other="1 = 0", only="p.domain = :domain AND "),
    "new": _OPEN.format(other=_HAS_PAGE),
}


async def _domain_id(db: Database, domain: str) -> int | None:
    rows = await db.fetch("SELECT id FROM domains WHERE domain_name = :name", {"name": one_spelling(domain)})
    return rows[0]["id"] if rows else None


def _crawl_task(row: Row) -> CrawlTaskReport:
    every = row["crawl_frequency"]
    seconds = int(every.total_seconds()) if isinstance(every, timedelta) else int(every.split()[0])
    return CrawlTaskReport(**{**row, "crawl_frequency": seconds})


# One product in full: its row, its pictures with their files, and how its price and stock changed.


MOST_CHANGES = 1_000


class ProductDetails(ProductReport):
    """A product with the ids of its shop and page, and its price history."""

    domain_id: int | None = Field(description="The shop, as `GET /api/v1/admin/domains` lists it.")
    crawl_task_id: int | None = Field(description="Its row in the SQL view `crawl_tasks`.")
    price_history: list[PricePoint] = Field(description="Newest first, as `…/history` lists it.")


async def one_product(service: Service, number: int) -> ProductDetails:
    """Return a product. Raises `NotFound` for an unknown id."""
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
    """Return the price history, newest first, at most the newest 1,000 changes. Raises `NotFound` for an unknown id."""
    rows = await service.database.fetch("SELECT url_hash FROM items WHERE id = :id", {"id": number})
    if not rows:
        raise NotFound(f"There is no product {number}.")
    return await price_history(service, rows[0]["url_hash"])


async def price_history(service: Service, key: str) -> list[PricePoint]:
    changes = await service.reports.history("product", key, limit=MOST_CHANGES)
    return price_points(changes.items)


def price_points(changes: Sequence[Any]) -> list[PricePoint]:
    """Keep the changes of a product, newest first, at which price, currency, availability or its end changed."""
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
