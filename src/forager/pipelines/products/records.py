"""Records of products: a page per URL, and the product on it.

The tables are called `pages` and `items`; the views `crawl_tasks` and `products` show them in the seed's words.
"""

import hashlib
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any, ClassVar, Self

import orjson
from pydantic import ConfigDict

from forager.core.record import Clear, Index, Record
from forager.extract.products.findings import FIELDS
from forager.extract.text.prices import Availability
from forager.pipelines.products.health import EVERYTHING
from forager.pipelines.products.wrappers import LEARNT

# Merges a quarantined field: the last good value stays, the new one is stored in `held`. Pure.


TOGETHER = {"price": ("price", "currency")}
"""A price and its currency are never taken from different visits."""


def reader_of(parser: str, version: int) -> str:
    """Return the name of a parser version in marks: `amazon/2`."""
    return f"{parser}/{version}"


def kept_values(now: "Product", before: "Product | None") -> dict[str, Any]:
    """Return what `derive` returns for a product with quarantined fields: their stored values, and the new ones in
    `held`.

    Only values of the parser versions in the marks are held back. Held values of a field that is no longer quarantined
    are dropped.
    """
    if before is None or not (before.quarantined or before.held):
        return {}
    names = _held_back(before.quarantined or {}, now)
    kept = {name: getattr(before, name) for name in names}
    held = {name: value for name, value in (before.held or {}).items() if name in names}
    for name in names:
        value = getattr(now, name)
        if value is not None and value != kept[name]:
            held[name] = {"value": str(value), "at": now.fetched_at.isoformat() if now.fetched_at else None}
    return {**kept, "held": held or None}


def _held_back(marks: Mapping[str, Sequence[str]], now: "Product") -> list[str]:
    if now.parser is None or now.parser_version is None:
        return []
    reader, evidence = reader_of(now.parser, now.parser_version), now.evidence or {}
    marked = {name for name, readers in marks.items() if reader in readers}
    held = FIELDS if EVERYTHING in marked else tuple(name for name in FIELDS if name in marked)
    if now.parser.endswith(LEARNT):  # what was held back of the parser alone still is, but for what was learnt since
        own = now.parser.removesuffix(LEARNT) + "/"
        before = {name for name, readers in marks.items() if any(each.startswith(own) for each in readers)}
        guessed = (name for name in FIELDS if evidence.get(name, {}).get("source") != "learnt")
        held = (*held, *(name for name in guessed if before & {EVERYTHING, name}))
    return list(dict.fromkeys(name for each in held for name in TOGETHER.get(each, (each,))))


# Computes the interval until a page is crawled again: shorter after a change or a failure, longer without one. Pure.


FACTOR = 8
"""The interval stays between frequency / 8 and frequency × 8."""
DAY = 86_400
"""The frequency of a page for which none was given, in seconds."""
SOONER = 4
"""A crawl that failed comes back after a quarter of the frequency."""
MOST_CONFIRMED = 9
"""304s in a row after which a page is fetched whole: some sites answer 304 for ever."""


def next_interval(frequency: int, interval: int, *, changed: bool) -> int:
    """Seconds until the next crawl, given the last interval and whether price or availability changed since."""
    return bounded(frequency, interval / 2 if changed else interval * 1.5)


def after_failure(frequency: int, interval: int | None) -> int:
    """Seconds until a page that could not be fetched is tried again."""
    return bounded(frequency, min(interval or frequency, frequency / SOONER))


def bounded(frequency: int, seconds: float) -> int:
    """At least one second, so that the next crawl never lies in the past."""
    return max(1, round(min(max(seconds, frequency / FACTOR), frequency * FACTOR)))


LOOKED_AT = ("price", "rating", "availability", "gone_at")
"""Columns by which lists are filtered. They are part of the index, so that only matching rows are read."""


class Product(Record):
    """A product as its page shows it. A field that a page no longer shows keeps its last value."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "url_hash": "5d1c1e0a9ad9a7c1f0f2b7b4b3c9e3a2f3c1d0a4b5e6f708192a3b4c5d6e7f80",
                    "url": "https://shop.example/p/oak-table-7",
                    "domain": "shop.example",
                    "product_name": "Oak Table Classic 7",
                    "price": "1299.00",
                    "currency": "EUR",
                    "availability": "in_stock",
                    "brand": "Harbour Works",
                    "category": "Tables",
                    "sku": "SKU-9A0000007",
                }
            ]
        }
    )

    kind: ClassVar[str] = "product"
    table: ClassVar[str] = "items"
    key_field: ClassVar[str] = "url_hash"
    # Each serves one filter of the product list, newest first, or one of its orders. They are few: every one is paid
    # for by each new product.
    indexes: ClassVar[tuple[Index, ...]] = (
        Index(("domain", "id", *LOOKED_AT)),
        Index(("brand", "id", *LOOKED_AT)),
        Index(("category", "id", *LOOKED_AT)),
        Index(("pictures_due_at", "id"), where="pictures_due_at IS NOT NULL"),
        Index(("price", "id")),
        Index(("rating", "id")),
        Index(("product_name", "id")),
        Index(("changed_at", "id")),
    )
    search: ClassVar[Mapping[str, str]] = {"product_name": "A", "brand": "B", "category": "B", "description": "D"}
    quiet: ClassVar[frozenset[str]] = frozenset(
        "page_hash evidence shown unseen fetched_at parser parser_version quarantined held pictures_due_at".split()
    )

    url_hash: str
    url: str
    domain: str
    product_name: str | None = None
    description: str | None = None
    price: Decimal | None = None
    currency: str | None = None
    availability: Availability | None = None
    rating: Decimal | None = None
    review_count: int | None = None
    brand: str | None = None
    category: str | None = None
    sku: str | None = None
    gtin: str | None = None
    images: list[dict[str, Any]] | None = None
    metadata: dict[str, Any] | None = None
    content_hash: str | None = None
    """Derived: over everything above but the key, as it is known after this crawl."""

    page_hash: str | None = None
    """The page of the product, by the hash of the requested URL."""
    evidence: dict[str, Any] | None = None
    """Source and confidence of each value, by field."""
    shown: list[str] | None = None
    """The fields that the last crawl showed."""
    unseen: dict[str, str] | None = None
    """Derived. Maps a field whose last value is kept to the time since which it was no longer shown."""
    fetched_at: datetime | None = None
    parser: str | None = None
    parser_version: int | None = None
    quarantined: dict[str, list[str]] | None = None
    """The parser versions whose values are held back, by field. The health check sets it for a whole domain."""
    held: dict[str, Any] | None = None
    """Derived. By field: the value that was found and held back, and when."""
    pictures_due_at: datetime | Clear | None = None
    """Derived: since when its pictures wait to be downloaded, because the list has changed."""

    def derive(self, before: Self | None) -> Mapping[str, Any]:
        kept = kept_values(self, before)
        whole = self.model_copy(update=kept) if kept else self
        derived = {**kept, "content_hash": content_hash(whole), "unseen": unseen(whole, before) or None}
        if self.fetched_at is not None and picture_urls(self) != (picture_urls(before) if before is not None else []):
            derived["pictures_due_at"] = self.fetched_at
        return derived


def unseen(product: Product, before: Product | None) -> dict[str, str]:
    """Return, by field, the time since which pages no longer show it, while its last value is kept."""
    if before is None or product.shown is None or product.fetched_at is None:
        return dict(product.unseen or {})
    known = [name for name in FIELDS if getattr(product, name) is not None and name not in product.shown]
    since = before.unseen or {}
    return {name: since.get(name, product.fetched_at.isoformat()) for name in known}


def content_hash(product: Product) -> str:
    """SHA-256 over what a customer sees: all attributes, the image URLs and the offers, but no time."""
    shown = {name: getattr(product, name) for name in FIELDS}
    images = picture_urls(product)
    whole = orjson.dumps(
        {**shown, "images": images, "metadata": product.metadata}, default=str, option=orjson.OPT_SORT_KEYS
    )
    return hashlib.sha256(whole).hexdigest()


def picture_urls(product: Product) -> list[str]:
    """Return the addresses of its pictures, in their order."""
    return [image["url"] for image in product.images or () if image.get("url")]


class CrawledPage(Record):
    """One URL that is crawled: what came of the last visit, and when the next one is due. Known by its hash."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "url_hash": "5d1c1e0a9ad9a7c1f0f2b7b4b3c9e3a2f3c1d0a4b5e6f708192a3b4c5d6e7f80",
                    "url": "https://shop.example/p/oak-table-7",
                    "domain": "shop.example",
                }
            ]
        }
    )

    kind: ClassVar[str] = "page"
    table: ClassVar[str] = "pages"
    key_field: ClassVar[str] = "url_hash"
    blobs: ClassVar[tuple[str, ...]] = ("html",)
    indexes: ClassVar[tuple[Index, ...]] = (
        Index(("next_crawl_at", "id"), where="next_crawl_at IS NOT NULL"),
        Index(("domain", "id")),
    )

    url_hash: str
    url: str
    domain: str

    # ── options of the crawl ──
    priority: int | None = None
    frequency: int | None = None
    """Seconds between two crawls, if it was set for the page itself."""
    usual_frequency: int | None = None
    """The same for the domain; the page's own beats it."""
    recrawl: bool | None = None
    """False: never again by itself."""
    max_retries: int | None = None
    render: str | None = None
    # ── the last visit ──
    outcome: str | None = None
    http_status: int | None = None
    crawled_at: datetime | None = None
    fetched_at: datetime | None = None
    """Time when the page was last fetched whole, not confirmed by a 304."""
    html: str | Clear | None = None
    """The stored page."""
    etag: str | Clear | None = None
    last_modified: str | Clear | None = None
    confirmed: int | None = None
    """304s in a row."""
    misses: int | None = None
    """Consecutive visits that found a page without its product (soft 404)."""
    product_url: str | None = None
    """The product that the page shows: another URL's, if it redirects."""
    offer: str | None = None
    """Price, currency and availability as the page showed them: whether they changed decides the next interval."""
    failed_at: datetime | Clear | None = None
    """Time of the last crawl that failed permanently, if none has succeeded since."""
    # ── the next one ──
    crawl_interval: int | None = None
    """Derived. Seconds until the next crawl, adapted to how often the page changes."""
    next_crawl_at: datetime | Clear | None = None
    """Derived from the two above."""

    quiet: ClassVar[frozenset[str]] = frozenset(
        "priority frequency usual_frequency recrawl max_retries render outcome http_status crawled_at fetched_at html"
        " etag last_modified confirmed misses product_url offer failed_at crawl_interval next_crawl_at".split()
    )

    def derive(self, before: Self | None) -> Mapping[str, Any]:
        """Adapt the interval once per visit; another frequency resets it. After a failure the page comes back sooner,
        and its interval stays."""
        if self.recrawl is False or self.crawled_at is None:
            return {"crawl_interval": None, "next_crawl_at": None}
        frequency = self.wanted_frequency()
        if isinstance(self.failed_at, datetime):
            wait = after_failure(frequency, self.crawl_interval)
            return {"next_crawl_at": self.failed_at + timedelta(seconds=wait)}
        held = before.crawl_interval if before is not None and before.wanted_frequency() == frequency else None
        interval = held or frequency
        if before is not None and held is not None and before.crawled_at != self.crawled_at:
            changed = before.offer is not None and before.offer != self.offer
            interval = next_interval(frequency, held, changed=changed)
        return {"crawl_interval": interval, "next_crawl_at": self.crawled_at + timedelta(seconds=interval)}

    def wanted_frequency(self) -> int:
        """Return the requested seconds between two crawls."""
        return self.frequency or self.usual_frequency or DAY
