"""Routes of the sites pipeline: plan, start and show crawls and maps; pages and addresses of a site."""

from typing import Annotated, Any
from uuid import UUID

from fastapi import Body, Query
from fastapi import Path as InPath
from pydantic import AwareDatetime, BaseModel, ConfigDict, Field
from starlette.requests import Request
from starlette.responses import Response

from forager.core.errors import FieldError, Rejected
from forager.core.hosts import checked_host
from forager.pipelines.sites import reports
from forager.pipelines.sites.job import LONGEST_URL
from forager.pipelines.sites.pipeline import NAME
from forager.pipelines.sites.reports import AddressReport, CrawlReport, SitePageReport, SitePlan, SiteReport
from forager.sdk.http.envelope import Envelope, ResultPage, answer, page
from forager.sdk.http.routes import (
    REPEATED,
    IdempotencyKey,
    JsonRoute,
    PageQuery,
    Router,
    body_of,
    checked_key,
    example,
    failures,
)
from forager.sdk.http.streams import TaskWaiter
from forager.sdk.service import Service

JobBody = Annotated[dict[str, Any], Body()]
SiteName = Annotated[
    str, InPath(max_length=260, description="Host of the site, as docs.example.", examples=["docs.example"])
]


class SiteJobCreated(BaseModel):
    job_id: UUID
    site: str
    mode: str
    status: str = Field(examples=["running"])


class SitePagesQuery(PageQuery):
    """Filters of the list of pages."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    content: bool = Field(default=False, description="Include the content of each page.")
    duplicates: bool = Field(default=True, description="Include near-duplicates of other pages.")
    changed_since: AwareDatetime | None = Field(
        default=None, description="Only pages that are new or changed since.", examples=["2026-03-14T12:00:00Z"]
    )


class CrawlsQuery(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    limit: int = Field(default=100, ge=1, le=1_000, description="Crawls to return.")


def routes(service: Service, _: TaskWaiter) -> Router:
    router = Router(prefix="/api/v1/sites", tags=["sites"], route_class=JsonRoute)
    _add_starts(router, service)
    _add_reading(router, service)
    return router


def _add_starts(router: Router, service: Service) -> None:
    job_body = body_of(service.pipelines[NAME])

    @router.post(
        "/crawls",
        status_code=202,
        summary="Crawl a site",
        response_model=Envelope[SiteJobCreated],
        responses={202: _CREATED, **failures(409, body=True)},
        openapi_extra=job_body,
    )
    async def crawl_site(request: Request, body: JobBody, idempotency_key: IdempotencyKey = None) -> Response:
        """Returns as soon as the job is stored. With `mode` = `map`, only the addresses of the site are gathered."""
        made = await service.submit(NAME, body, key=checked_key(idempotency_key))
        job = await service.reports.job(made.job)
        data = {
            "job_id": made.job,
            "site": reports.site_of_params(job.params),
            "mode": job.params.get("mode", "crawl"),
            "status": "running",
        }
        return answer(request, data, status=202, headers=None if made.created else REPEATED)

    @router.post(
        "/plan",
        summary="Plan a crawl",
        response_model=Envelope[SitePlan],
        responses={200: example(_PLAN), **failures(body=True)},
        openapi_extra=job_body,
    )
    async def plan_site(request: Request, body: JobBody) -> Response:
        """Returns pages and time at the pace in force. Fetches nothing."""
        return answer(request, await service.estimate(NAME, body))

    @router.get(
        "",
        summary="List crawls and maps",
        response_model=Envelope[list[CrawlReport]],
        responses={200: example([_CRAWL]), **failures()},
    )
    async def list_site_crawls(request: Request, asked: Annotated[CrawlsQuery, Query()]) -> Response:
        """Newest first, each with its exact counters."""
        return answer(request, await reports.list_crawls(service.database, limit=asked.limit))


def _add_reading(router: Router, service: Service) -> None:
    @router.get(
        "/page",
        summary="Show a page",
        response_model=Envelope[SitePageReport],
        responses={200: example(_PAGE), **failures(404)},
    )
    async def show_site_page(
        request: Request,
        url: Annotated[str, Query(min_length=1, max_length=LONGEST_URL, examples=["https://docs.example/guide/start"])],
    ) -> Response:
        """Found by its address, with its content."""
        return answer(request, await reports.one_page(service.database, url))

    @router.get(
        "/{site}",
        summary="Show a site",
        response_model=Envelope[SiteReport],
        responses={200: example(_SITE), **failures(404)},
    )
    async def show_site(request: Request, site: SiteName) -> Response:
        """Counts its pages and lists its newest crawls."""
        return answer(request, await reports.one_site(service.database, _host(site)))

    @router.get(
        "/{site}/pages",
        summary="List the pages of a site",
        response_model=ResultPage[SitePageReport],
        responses={200: example([_PAGE], next_cursor=None), **failures()},
    )
    async def list_site_pages(request: Request, site: SiteName, asked: Annotated[SitePagesQuery, Query()]) -> Response:
        """In the order of their discovery. A page may be short, or even empty, and still have a next one."""
        listed = await reports.list_pages(
            service.database,
            _host(site),
            content=asked.content,
            duplicates=asked.duplicates,
            changed_since=asked.changed_since,
            cursor=asked.cursor,
            limit=asked.limit,
        )
        return page(request, listed.items, listed.next_cursor)

    @router.get(
        "/{site}/map",
        summary="List the addresses of a site",
        response_model=ResultPage[AddressReport],
        responses={200: example([_ADDRESS], next_cursor=None), **failures()},
    )
    async def list_site_addresses(request: Request, site: SiteName, asked: Annotated[PageQuery, Query()]) -> Response:
        """As maps have found them in sitemaps and links."""
        listed = await reports.list_addresses(service.database, _host(site), cursor=asked.cursor, limit=asked.limit)
        return page(request, listed.items, listed.next_cursor)


def _host(site: str) -> str:
    try:
        return checked_host(site)
    except ValueError as error:
        raise Rejected("The site is not valid.", fields=[FieldError("site", str(error))]) from None


_TIMES: dict[str, Any] = {"first_seen_at": "2026-03-14T12:00:01Z", "last_seen_at": "2026-03-14T12:00:09Z"}
_CREATED = example(
    {
        "job_id": "0f1c9b52-6a7e-4d0e-8e63-0a2f3c5b7d11",
        "site": "docs.example",
        "mode": "crawl",
        "status": "running",
    }
)
_PLAN = SitePlan.model_config["json_schema_extra"]["examples"][0]  # type: ignore[index]
_ADDRESS = {"url": "https://docs.example/guide/start", "source": "sitemap", **_TIMES}
_PAGE = {
    "url": "https://docs.example/guide/start",
    "site": "docs.example",
    "title": "Getting started",
    "language": "en",
    "page_kind": "article",
    "form": "markdown",
    "content": "# Getting started\n\nInstall it, then run it.",
    "fields": None,
    "sources": None,
    "content_hash": "5f0c…",
    "duplicate_of": None,
    "links_out": 12,
    "links_in": 3,
    "status": 200,
    "depth": 1,
    "bytes": 18_200,
    **_TIMES,
    "changed_at": "2026-03-14T12:00:01Z",
    "gone_at": None,
}
_CRAWL = {
    "crawl": "5a1f0c3de0b94a7d8f4b6a2e9c1d7e30",
    "site": "docs.example",
    "url": "https://docs.example/",
    "mode": "crawl",
    "options": {"url": "https://docs.example/", "limit": 500},
    "pages": 420,
    "bytes": 7_600_000,
    "unchanged": 0,
    "duplicates": 6,
    "trapped": 31,
    "addresses": 0,
    "job_id": "0f1c9b52-6a7e-4d0e-8e63-0a2f3c5b7d11",
    "state": "completed",
    "started_at": "2026-03-14T12:00:00Z",
    "ended_at": "2026-03-14T12:07:00Z",
}
_SITE = {"site": "docs.example", "pages": 420, "addresses": 433, "duplicates": 6, "gone": 0, "crawls": [_CRAWL]}
