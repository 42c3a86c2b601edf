"""Builds the products pipeline from its settings and the installed parsers."""

import asyncio
from collections import Counter
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import cache
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any
from uuid import uuid4

import structlog
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from forager.core.database import Row
from forager.core.errors import Busy, Conflict, FieldError, Rejected, StoreError
from forager.core.hosts import host_of, one_spelling
from forager.core.invalid import field_errors
from forager.core.pipeline import Lane, Pipeline
from forager.extract.html.document import Document
from forager.extract.products.findings import ProductFindings
from forager.extract.products.parser import ENTRY_POINTS, Parser, Parsers, shipped_parsers
from forager.pipelines.products import pipeline
from forager.pipelines.products.job import USUAL, CrawlJob, PageOfJob
from forager.pipelines.products.pictures import Downloads
from forager.pipelines.products.records import Product
from forager.pipelines.products.reports.domains import remember_parsed, submit_crawl
from forager.pipelines.products.reports.health import (
    audit_if_due,
    check_health,
    check_parsers_at_rest,
    forget_old,
    mark_new,
    wait_for_standing,
)
from forager.pipelines.products.settings import ProductsSettings
from forager.pipelines.products.steps import Crawler
from forager.pipelines.products.wrappers import WrapperSource
from forager.sdk.delivery import Indexed, IndexedField
from forager.sdk.feature import installed
from forager.sdk.queries import loads
from forager.sdk.service import Service
from forager.sdk.settings import SettingsTree


def build(settings: SettingsTree) -> Pipeline:
    own = settings.of(ProductsSettings)
    retry = replace(pipeline.RETRY, first=own.product_retry_delay_seconds)
    timeout = own.product_timeout_seconds
    downloads = Downloads(own.product_images_max, own.product_image_max_bytes, timeout)
    return pipeline.build(parsers_of(own), timeout=timeout, retry=retry, downloads=downloads)


def crawler_of(own: ProductsSettings, wrappers: WrapperSource) -> Crawler:
    """Return what reads pages, with the parsers of this installation and the wrappers of the store."""
    return Crawler(parsers_of(own), own.product_timeout_seconds, own.product_shadow_share, wrappers)


def parsers_of(own: ProductsSettings) -> Parsers:
    """Return the parsers of this installation, with the choices and candidates of the settings."""
    return parsers(own.product_parsers, own.product_parser_candidates)


def parsers(chosen: tuple[str, ...] = (), candidates: tuple[str, ...] = ()) -> Parsers:
    """Return the parsers of this installation. Raises `Rejected` for a choice that names none of them, and for a
    candidate that cannot be loaded."""
    tried = [candidate_of(each) for each in candidates]
    all_parsers = (*shipped_parsers(), *installed(ENTRY_POINTS), *tried)
    by_domain = {}
    for each in chosen:
        domain, _, name = each.partition("=")
        if not domain.strip() or not name.strip():
            raise _wrong(f"{each!r} should be a domain and a parser, as shop.example=amazon")
        by_domain[one_spelling(domain)] = name.strip()
    try:
        return Parsers.of(all_parsers, by_domain)
    except ValueError as error:
        raise _wrong(str(error)) from None


@dataclass(frozen=True, slots=True)
class ReadOfFile:
    """The `read` of a parser, by its file. It can be pickled: pages are read by another process, which cannot import a
    module that this one has loaded from a path."""

    path: str

    def __call__(self, document: Document) -> ProductFindings:
        return _parser_of(self.path).read(document)


@cache
def _parser_of(path: str) -> Parser:
    spec = spec_from_file_location(f"forager_candidate_{Path(path).stem}", Path(path).expanduser().resolve())
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} is not a Python file")
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    if not isinstance(module.parser, Parser):
        raise TypeError(f"its value `parser` is no Parser, but {type(module.parser).__name__}")
    return module.parser


def candidate_of(where: str) -> Parser:
    """Load a parser from a file with a value `parser`, or from `module:value`. Raises `Rejected`."""
    try:
        if where.endswith(".py"):
            found = replace(_parser_of(where), read=ReadOfFile(where))
        else:
            name, _, value = where.partition(":")
            found = getattr(import_module(name), value or "parser")
    except Exception as error:
        raise _wrong(f"{where} cannot be loaded: {error!r}", "product_parser_candidates") from error
    if not isinstance(found, Parser):
        raise _wrong(f"{where} has no Parser, but {type(found).__name__}", "product_parser_candidates")
    return replace(found, candidate=True)


def _wrong(message: str, field: str = "product_parsers") -> Rejected:
    return Rejected(f"{field}: {message}", fields=[FieldError(field, message)])


# Upkeep of products: checks parser health, records new shops, audits the data every week, and carries out requests that
# were made in SQL.


log = structlog.get_logger("forager.products")

EVERY = 15.0
"""Seconds between two checks."""
LEARN_EVERY = 60.0
"""Seconds between two searches for shops to learn from."""
REREAD_SECONDS = 20.0
"""Seconds that an ending command waits until stored pages are read with the new wrappers."""
INBOX_EVERY = 0.5
"""Seconds between two checks for requests in SQL."""
AT_ONCE = 10_000
"""Pages of one job that are submitted in SQL."""
REFUSED_KEPT = timedelta(days=30)
"""Time for which a refused request stays visible."""


async def upkeep(service: Service) -> None:
    """Repeat until cancelled. If the store is unavailable, try again at the next interval."""
    async with asyncio.TaskGroup() as loops:
        loops.create_task(_look_after(service))
        loops.create_task(_learn(service))
        if service.database.dialect == "postgresql":  # the embedded store has no triggers that write requests
            loops.create_task(_carry_out(service))


async def _look_after(service: Service) -> None:
    marked: dict[str, int] = {}
    while True:
        try:
            await check_health(service)
            await mark_new(service.database, marked)
            await remember_parsed(service.database, await service.ledger.now_ms())
            if await audit_if_due(service) is not None:
                await forget_old(service)
                await _forget_refused(service)
        except StoreError as error:
            log.warning("product_upkeep_failed", error=error.message)
        await service.clock.sleep(EVERY)


async def _learn(service: Service) -> None:
    """Learn from one shop after another, as long as any is due."""
    while True:
        try:
            while await learn(service) is not None:
                pass
        except (StoreError, Busy) as error:
            log.warning("wrapper_upkeep_failed", error=error.message)
        await service.clock.sleep(LEARN_EVERY)


async def learn(service: Service) -> str | None:
    """Learn from the pages of one shop, if one is due and the settings want it. Returns the shop."""
    from forager.pipelines.products.reports.wrappers import learn_if_due

    own = service.settings.of(ProductsSettings)
    if own.product_wrappers == "off":
        return None
    return await learn_if_due(service, parsers_of(own), adopts=own.product_wrappers == "adopt")


async def check_at_rest(service: Service) -> None:
    """Do what upkeep would do, once, before a one-shot command ends: stored pages of a shop that has taught something
    are read again before it, as far as that takes no longer than some seconds."""
    from forager.pipelines.products.reports.reparse import reparse_key

    await check_parsers_at_rest(service)
    if (domain := await learn(service)) is not None:
        await wait_for_standing(service, reparse_key(domain), REREAD_SECONDS)


# ── requests in SQL ──


async def _carry_out(service: Service) -> None:
    while True:
        try:
            while await take_requests(service):
                pass
        except (StoreError, Busy) as error:
            log.warning("sql_requests_waiting", error=error.message)
        await service.clock.sleep(INBOX_EVERY)


async def take_requests(service: Service) -> int:
    """Carry out requests that were made in SQL, oldest first. Returns their number.

    Each takes effect once, also if this process dies in between or several processes look at the same time: before a
    job is submitted, its rows are marked with its idempotency key, and they are deleted after it.
    """
    rows = await service.database.fetch(
        "SELECT id, kind, batch, body FROM sql_inbox WHERE error IS NULL ORDER BY id LIMIT :most", {"most": AT_ONCE}
    )
    for row in rows:
        if row["kind"] == "switch":
            await _switch(service, row)
    crawls = [row for row in rows if row["kind"] == "crawl"]
    batches = {row["batch"] for row in crawls if row["batch"] is not None}
    if fresh := [row for row in crawls if row["batch"] is None]:
        batches |= await _marked(service, fresh)
    for batch in sorted(batches):
        await _submit(service, batch)
    return len(rows)


async def _switch(service: Service, row: Row) -> None:
    asked = loads(row["body"])
    try:
        await service.switch_lane(asked["domain"], active=asked["active"])
    except Rejected as error:
        log.warning("sql_switch_refused", domain=asked["domain"], active=asked["active"], error=error.message)
        await service.database.write(
            "UPDATE domains SET is_active = :before, updated_at = updated_at + 1 WHERE domain_name = :name",
            {"before": not asked["active"], "name": asked["domain"]},
        )
    await service.database.write("DELETE FROM sql_inbox WHERE id = :id", {"id": row["id"]})


async def _marked(service: Service, rows: list[Row]) -> set[str]:
    """Refuse the pages that are invalid, and mark the others with the keys of their jobs: one for each priority."""
    priorities: set[int] = set()
    for row in rows:
        try:
            priorities.add(_page(row).get("priority") or USUAL)
        except ValidationError as error:
            await _refuse(service, "id = :id", {"id": row["id"]}, _told(error))
    batches = {f"sql/{uuid4()}": priority for priority in sorted(priorities)}
    for batch, priority in batches.items():
        await service.database.write(
            "UPDATE sql_inbox SET batch = :batch WHERE kind = 'crawl' AND batch IS NULL AND error IS NULL"
            " AND id <= :last AND coalesce(CAST(body ->> 'priority' AS bigint), :usual) = :priority",
            {"batch": batch, "last": rows[-1]["id"], "usual": USUAL, "priority": priority},
        )
    return set(batches)


async def _submit(service: Service, batch: str) -> None:
    rows = await service.database.fetch(
        "SELECT id, body FROM sql_inbox WHERE batch = :batch AND error IS NULL ORDER BY id", {"batch": batch}
    )
    if not rows:
        return
    pages: dict[str, dict[str, Any]] = {}
    for row in rows:
        try:
            page = _page(row)
        except ValidationError as error:  # it was committed while the others were marked
            await _refuse(service, "id = :id", {"id": row["id"]}, _told(error))
        else:
            pages[page["url"]] = page
    if pages:
        priority = next(iter(pages.values())).get("priority") or USUAL
        try:
            made = await submit_crawl(service, {"pages": list(pages.values()), "priority": priority}, key=batch)
            log.info("sql_crawl_submitted", job_id=str(made.job), pages=len(pages))
        except Conflict:
            log.info("sql_crawl_submitted_before", key=batch)
        except Rejected as error:
            log.warning("sql_crawl_refused", error=error.message)
            await _refuse(service, "batch = :batch AND error IS NULL", {"batch": batch}, error.message)
    await service.database.write("DELETE FROM sql_inbox WHERE batch = :batch AND error IS NULL", {"batch": batch})


def _page(row: Row) -> dict[str, Any]:
    """Return the page of a job that a request stands for. Raises `ValidationError`."""
    asked = loads(row["body"])
    wanted = {name: asked[name] for name in PageOfJob.model_fields if asked.get(name) is not None}
    return PageOfJob.model_validate(wanted).model_dump(mode="json", exclude_none=True)


async def _refuse(service: Service, where: str, values: dict[str, Any], error: str) -> None:
    await service.database.write(f"UPDATE sql_inbox SET error = :error WHERE {where}", {**values, "error": error})


def _told(error: ValidationError) -> str:
    return "; ".join(f"{each.field}: {each.message}" for each in field_errors(error))


async def _forget_refused(service: Service) -> None:
    before = await service.ledger.now_ms() - REFUSED_KEPT // timedelta(milliseconds=1)
    await service.database.write(
        "DELETE FROM sql_inbox WHERE error IS NOT NULL AND created_at < :before", {"before": before}
    )


# The document of a product in an external search index, with its public field names.


indexed = Indexed(
    Product,
    alias="products",
    number="product_id",
    fields=(
        IndexedField("product_id", "integer", "id"),
        IndexedField("product_name", "text", "product_name"),
        IndexedField("description", "text", "description"),
        IndexedField("brand", "keyword", "brand"),
        IndexedField("category", "keyword", "category"),
        IndexedField("domain_name", "keyword", "domain"),
        IndexedField("created_at", "date", "first_seen_at"),
        IndexedField("gone_at", "date", "gone_at"),
    ),
)


# Estimates the requests of a crawl to each shop, and their time at the pace in force. Fetches nothing.


class ShopPlan(BaseModel):
    """The part of a crawl that one shop gets."""

    domain: str
    pages: int | None = Field(
        description="Pages that are named, or known from earlier crawls of a sitemap or site. Null: unknown until the"
        " sitemap is read."
    )
    seconds_per_page: float = Field(description="At the pace in force for this shop.")
    seconds: float | None = Field(description="For all of these pages; null if their number is unknown.")


class CrawlPlan(BaseModel):
    """The pages that a crawl would fetch, and the time that it would take."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "pages": 40,
                    "more": False,
                    "at_most": None,
                    "seconds": 40.0,
                    "shops": [{"domain": "shop.example", "pages": 40, "seconds_per_page": 1.0, "seconds": 40.0}],
                }
            ]
        }
    )

    pages: int | None = Field(description="Pages that are known now; null: unknown until the sitemap is read.")
    more: bool = Field(description="True if a sitemap or links may add more pages than are known now.")
    at_most: int | None = Field(description="`max_pages` of the job: never more pages than this. Null: no limit.")
    seconds: float | None = Field(description="Time of the slowest shop: shops are crawled in parallel.")
    shops: list[ShopPlan]


async def price(service: Service, job: CrawlJob) -> CrawlPlan:
    """Count the pages by shop. A sitemap or a followed site counts its known pages. The number of pages of a sitemap
    that was never crawled is unknown: a plan fetches nothing."""
    counted = Counter(host_of(url) for url in job.every_url())
    explored = {host_of(job.sitemap)} if job.sitemap else set(counted) if job.follow else set()
    for host in explored:
        rows = await service.database.fetch("SELECT count(*) AS pages FROM pages WHERE domain = :d", {"d": host})
        counted[host] = max(counted[host], int(rows[0]["pages"]))
    most = job.max_pages
    unread = host_of(job.sitemap) if job.sitemap and not counted[host_of(job.sitemap)] else None
    shops = []
    for host, pages in sorted(counted.items()):
        bounded = None if host == unread else pages if most is None else min(pages, most)
        pace = seconds_per_page(service.lane_for(host))
        seconds = None if bounded is None else round(bounded * pace, 1)
        shops.append(ShopPlan(domain=host, pages=bounded, seconds_per_page=pace, seconds=seconds))
    known = [shop for shop in shops if shop.pages is not None]
    total = sum(shop.pages or 0 for shop in known)
    return CrawlPlan(
        pages=(total if most is None else min(total, most)) if known else None,
        more=bool(explored) and (most is None or total < most),
        at_most=most,
        seconds=max((shop.seconds or 0.0 for shop in known), default=None),
        shops=shops,
    )


def seconds_per_page(lane: Lane) -> float:
    """Return the time from one request to the next on average, as far as the lane's rules decide it."""
    by_rate = lane.per / lane.rate if lane.rate else 0.0
    by_gap = (lane.gap or 0.0) + (sum(lane.delay) / 2 if lane.delay else 0.0)
    return round(max(by_rate, by_gap), 3)
