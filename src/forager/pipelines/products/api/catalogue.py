"""The catalogue: list products with filters, show one, and how its price and stock changed."""

from typing import Annotated, Any
from uuid import UUID

from fastapi import APIRouter, Query
from fastapi import Path as InPath
from pydantic import BaseModel, ConfigDict, Field, StrictBool
from starlette.requests import Request
from starlette.responses import Response

from forager.core.errors import NotFound
from forager.core.ledger import PartsReceived
from forager.pipelines.products.api.admin import add_admin
from forager.pipelines.products.api.examples import DETAILS, POINT, PRODUCT, SEARCH
from forager.pipelines.products.api.health import add_health
from forager.pipelines.products.api.wrappers import add_wrappers
from forager.pipelines.products.job import MOST_IN_PART, CrawlJob, CrawlJobInParts
from forager.pipelines.products.pipeline import NAME
from forager.pipelines.products.records import Product
from forager.pipelines.products.reports import catalogue, domains
from forager.pipelines.products.reports.catalogue import (
    PricePoint,
    ProductConditions,
    ProductDetails,
    ProductFilter,
    ProductReport,
    history_of,
    one_product,
)
from forager.pipelines.products.reports.changes import CatalogueFacets, ProductChange, facets, latest_changes
from forager.pipelines.products.reports.search import SearchReport, search_products
from forager.sdk.http.envelope import Envelope, ResultPage, answer, page
from forager.sdk.http.routes import REPEATED, JsonRoute, KeyUntilEnd, PageQuery, Router, checked_key, example, failures
from forager.sdk.http.streams import TaskWaiter
from forager.sdk.service import Service

# Routes for lists of pages of any size: they arrive in parts, and are crawled as one job.


URL = "https://shop.example/p/oak-table-7"


class UrlsReceived(BaseModel):
    job_id: UUID
    total: int = Field(description="Number of different pages received. The next part begins at this position.")
    status: str = Field(
        description="`receiving` while more parts are expected; `queued` once the last one is stored.",
        examples=["receiving"],
    )


class FirstUrls(CrawlJobInParts):
    """A crawl, and the first of its pages."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"urls": [URL], "more": True, "source": "tables.txt", "frequency": 21_600}]}
    )

    urls: list[str] = Field(min_length=1, max_length=MOST_IN_PART, description="Pages.")
    more: StrictBool = Field(default=False, description="True if more parts follow. The last one starts the job.")


class NextUrls(BaseModel):
    """Further pages of a crawl."""

    model_config = ConfigDict(
        extra="forbid", json_schema_extra={"examples": [{"urls": [URL], "first": 1, "more": False}]}
    )

    urls: list[str] = Field(min_length=1, max_length=MOST_IN_PART, description="Pages.")
    first: int = Field(
        strict=True, ge=0, le=10**9, description="Position of the first of these pages: the `total` of the last answer."
    )
    more: StrictBool = Field(default=False, description="True if more parts follow. The last one starts the job.")


def add_parts(router: APIRouter, service: Service) -> None:
    """Add the routes."""

    @router.post(
        "/admin/crawl-jobs/in-parts",
        status_code=202,
        summary="Crawl any number of pages",
        response_model=Envelope[UrlsReceived],
        responses={202: _RECEIVED, **failures(409, body=True)},
    )
    async def create_crawl_job_in_parts(
        request: Request, body: FirstUrls, idempotency_key: KeyUntilEnd = None
    ) -> Response:
        """A list that is too long for one request is sent in parts: `more` keeps the job open for them, and nothing is
        fetched before the last part. A job of which no part has arrived for a minute is removed.

        The `Idempotency-Key` names the job until it has ended: the same request returns the job and how much of it was
        received, so that an interrupted sender can continue."""
        key, about = checked_key(idempotency_key), body.model_dump(mode="json", exclude={"urls", "more"})
        part = _part(about, body.urls)
        stored = await service.open_job(NAME, about, part, key=key, more=body.more)
        await _remember(service, part)
        return _answered(request, stored, created=stored.created)

    @router.post(
        "/admin/crawl-jobs/{job_id}/urls",
        status_code=202,
        summary="Add pages to a crawl job in parts",
        response_model=Envelope[UrlsReceived],
        responses={202: _RECEIVED, **failures(404, 409, body=True)},
    )
    async def add_crawl_urls(request: Request, job_id: UUID, body: NextUrls) -> Response:
        """Only for a job that was created with `more`. Pages that it has already are left out, so a part can be sent
        again if its answer was lost. Returns 409 if an earlier part is missing."""
        job = await service.reports.job(job_id)
        if job.pipeline != NAME:
            raise NotFound(f"There is no crawl job {job_id}.")
        part = _part(job.params, body.urls)
        added = await service.add_part(job_id, NAME, part, body.first, more=body.more)
        await _remember(service, part)
        return _answered(request, added, created=True)


def _part(about: dict[str, Any], urls: list[str]) -> dict[str, Any]:
    """Return these pages as a job of their own, with the options of the whole one."""
    return {**{name: value for name, value in about.items() if name in CrawlJob.model_fields}, "urls": urls}


async def _remember(service: Service, part: dict[str, Any]) -> None:
    """Make a row for each shop that has none yet."""
    await domains.remember_domains(service.database, part["urls"], await service.ledger.now_ms())


def _answered(request: Request, stored: PartsReceived, *, created: bool) -> Response:
    data = {"job_id": stored.job, "total": stored.total, "status": "receiving" if stored.is_open else "queued"}
    return answer(request, data, status=202, headers=None if created else REPEATED)


_RECEIVED = example(
    {"job_id": "0f1c9b52-6a7e-4d0e-8e63-0a2f3c5b7d11", "total": 10_000, "status": "receiving"},
    description="These pages are on disk.",
)


ProductId = Annotated[int, InPath(ge=1, lt=1 << 63)]
REBUILT_AT_ONCE = 20_000


class ProductsQuery(PageQuery, ProductFilter):
    model_config = ConfigDict(extra="forbid", frozen=True)

    limit: int = Field(default=20, ge=1, le=1_000, description="Maximum items per page.")

    def asked(self) -> ProductFilter:
        return ProductFilter(**self.model_dump(exclude=set(PageQuery.model_fields)))


class SearchQuery(PageQuery, ProductConditions):
    model_config = ConfigDict(extra="forbid", frozen=True)

    limit: int = Field(default=20, ge=1, le=1_000, description="Maximum items per page.")
    q: str = Field(min_length=1, max_length=400, description="Words to look for; all of them must be there.")

    def asked(self) -> ProductConditions:
        return ProductConditions(**self.model_dump(exclude={*PageQuery.model_fields, "q"}))


class Reindexed(BaseModel):
    left: int = Field(description="Products that are not in the index yet: call again until it is 0.")


def routes(service: Service, _: TaskWaiter) -> Router:
    router = Router(prefix="/api/v1", tags=[NAME], route_class=JsonRoute)
    add_admin(router, service)
    add_parts(router, service)
    add_health(router, service)
    add_wrappers(router, service)
    _add_search(router, service)
    _add_views(router, service)
    _add_catalogue(router, service)
    return router


def _add_search(router: Router, service: Service) -> None:
    index = service.search_index(Product)

    @router.get(
        "/products/search",
        summary="Search products",
        response_model=Envelope[SearchReport],
        responses={200: example(SEARCH), **failures()},
    )
    async def search(request: Request, asked: Annotated[SearchQuery, Query()]) -> Response:
        """Best first, by the words of name, brand, category and description. If the words as written find little, a
        word of five letters or more also matches with one wrong letter."""
        await domains.require_shop(service.database, asked.domain)
        hits = await search_products(
            service.database, index, asked.q, asked.asked(), cursor=asked.cursor, limit=asked.limit
        )
        return answer(request, hits)

    @router.post(
        "/products/search/rebuild",
        summary="Rebuild the search index",
        response_model=Envelope[Reindexed],
        responses={200: example({"left": 0}), **failures(409)},
    )
    async def rebuild(request: Request, go_on: bool = False) -> Response:
        """Fills the index from the stored products, part by part: repeat with `go_on=true` until nothing is left. An
        external index stays searchable meanwhile, and a second rebuild beside the first is refused."""
        return answer(request, {"left": await index.rebuild(REBUILT_AT_ONCE, go_on=go_on)})


class FacetsQuery(ProductConditions):
    model_config = ConfigDict(extra="forbid", frozen=True)


def _add_views(router: Router, service: Service) -> None:
    """Add the parts of a catalogue page that are not products."""

    @router.get(
        "/products/facets",
        summary="Count products by brand, category, availability and shop",
        response_model=Envelope[CatalogueFacets],
        responses={200: example({"total": 1, "facets": SEARCH["facets"]}), **failures()},
    )
    async def show_facets(request: Request, asked: Annotated[FacetsQuery, Query()]) -> Response:
        """Counts over the newest 50,000 products that meet the filters. A search has its own facets."""
        return answer(request, await facets(service.database, ProductConditions(**asked.model_dump())))

    @router.get(
        "/products/changes",
        summary="Show what changed in the catalogue",
        response_model=Envelope[list[ProductChange]],
        responses={200: example([_CHANGE]), **failures()},
    )
    async def show_changes(
        request: Request,
        limit: Annotated[int, Query(ge=1, le=200, description="Maximum changes.")] = 50,
    ) -> Response:
        """Newest first, each field as it was before and as it is now. Products that are new are not among them."""
        return answer(request, await latest_changes(service, limit))


_CHANGE = {
    "id": 514,
    "product_id": 42,
    "product_name": PRODUCT["product_name"],
    "domain_name": PRODUCT["domain_name"],
    "currency": "EUR",
    "op": "changed",
    "at": "2026-03-14T12:00:00Z",
    "fields": [{"field": "price", "before": "1464.10", "now": "1127.35"}],
}


def _add_catalogue(router: Router, service: Service) -> None:
    @router.get(
        "/products",
        summary="Find products",
        response_model=ResultPage[ProductReport],
        responses={200: example([PRODUCT], next_cursor=None), **failures()},
    )
    async def find_products(request: Request, asked: Annotated[ProductsQuery, Query()]) -> Response:
        """Newest first, or as `sort` has it. A page may be short, even empty, and still have a next one. An unknown
        shop is refused."""
        await domains.require_shop(service.database, asked.domain)
        found = await catalogue.find_products(service.database, asked.asked(), cursor=asked.cursor, limit=asked.limit)
        return page(request, found.items, found.next_cursor)

    @router.get(
        "/products/{product_id}",
        summary="Show a product",
        response_model=Envelope[ProductDetails],
        responses={200: example(DETAILS), **failures(404)},
    )
    async def show_product(request: Request, product_id: ProductId) -> Response:
        """With its images and its price history, and by field where the value was found and how sure that is."""
        return answer(request, await one_product(service, product_id))

    @router.get(
        "/products/{product_id}/history",
        summary="Show how the price and stock of a product changed",
        response_model=Envelope[list[PricePoint]],
        responses={200: example([POINT]), **failures(404)},
    )
    async def show_product_history(request: Request, product_id: ProductId) -> Response:
        """Newest first; of a product with more than 1,000 changes, the newest ones."""
        return answer(request, await history_of(service, product_id))
