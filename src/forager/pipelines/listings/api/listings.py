"""The routes of listings: search, one listing, its history; and the admin routes of markets and data sources."""

from decimal import Decimal
from typing import Annotated, Any
from uuid import UUID

from fastapi import APIRouter, Query
from fastapi import Path as InPath
from pydantic import BaseModel, ConfigDict, Field
from starlette.requests import Request
from starlette.responses import Response

from forager.core.errors import Conflict, FieldError, Rejected
from forager.core.table import Effect
from forager.pipelines.listings.api.cards import add_cards
from forager.pipelines.listings.api.examples import DATA_SOURCE, HISTORY, JOB_ID, LISTING, SOURCE
from forager.pipelines.listings.api.markets import add_markets, add_scraping
from forager.pipelines.listings.pipeline import NAME
from forager.pipelines.listings.records import DataSource
from forager.pipelines.listings.reports import listings as reports
from forager.pipelines.listings.reports.listings import (
    ListingFilter,
    ListingHistory,
    ListingReport,
    SourceReport,
    merged_source,
    one_listing,
    sources_of,
)
from forager.pipelines.listings.reports.markets import DataSourceReport, list_sources, one_source, require_market
from forager.sdk.http.envelope import Envelope, ResultPage, answer, page
from forager.sdk.http.routes import JsonRoute, PageQuery, Router, example, failures
from forager.sdk.http.streams import TaskWaiter
from forager.sdk.queries import change_row
from forager.sdk.service import Service

# The admin routes of data sources: the limits of an upstream, and how much of them is used.


SourceId = Annotated[str, InPath(min_length=1, max_length=64)]
Runs = Annotated[int, Field(ge=0, le=1_000_000, strict=True)]
Dollars = Annotated[Decimal, Field(ge=0, le=1_000_000, decimal_places=4)]


class LimitsBody(BaseModel):
    """The fields to change; a field that is left out stays as it is. Null takes a limit away."""

    model_config = ConfigDict(
        extra="forbid", json_schema_extra={"examples": [{"max_requests_per_day": 60, "max_usd_per_month": "40"}]}
    )

    is_enabled: bool | None = Field(None, description="False: no run is started.")
    max_requests_per_hour: Runs | None = Field(None, description="Runs that may be started in a UTC hour.")
    max_requests_per_day: Runs | None = Field(None, description="Runs that may be started in a UTC day.")
    max_usd_per_month: Dollars | None = Field(None, description="US dollars that runs of a UTC month may cost.")


def add_limits(router: APIRouter, service: Service, prefix: str, *, documented: bool) -> None:
    """Add the routes under this prefix. They exist under two; the document shows one of them."""

    @router.get(prefix, summary="List data sources", include_in_schema=documented, **_SOURCES)
    async def list_data_sources(request: Request) -> Response:
        """With their limits, and what was used of them in this hour, this day and this month (UTC)."""
        return answer(request, await list_sources(service.database, await service.ledger.now()))

    @router.get(f"{prefix}/{{source_id}}", summary="Show a data source", include_in_schema=documented, **_SOURCE)
    async def show_data_source(request: Request, source_id: SourceId) -> Response:
        return answer(request, await one_source(service.database, source_id, await service.ledger.now()))

    @router.put(f"{prefix}/{{source_id}}", summary="Limit a data source", include_in_schema=documented, **_SOURCE)
    async def limit_data_source(request: Request, source_id: SourceId, body: LimitsBody) -> Response:
        """Holds for the next run. A scrape that a limit refuses is skipped, and the next dispatch tries again."""
        changes = {name: getattr(body, name) for name in body.model_fields_set}
        if changes.get("is_enabled", True) is None:
            raise Rejected("is_enabled must not be null.", fields=[FieldError("is_enabled", "must not be null")])
        await one_source(service.database, source_id, await service.ledger.now())
        if changes:
            await change_row(service.database, Effect(DataSource, {"id": source_id}, set=changes))
        return answer(request, await one_source(service.database, source_id, await service.ledger.now()))


_SOURCES: dict[str, Any] = {
    "response_model": Envelope[list[DataSourceReport]],
    "responses": {200: example([DATA_SOURCE]), **failures()},
}
_SOURCE: dict[str, Any] = {
    "response_model": Envelope[DataSourceReport],
    "responses": {200: example(DATA_SOURCE), **failures(404, body=True)},
}


# The routes about the sources of a listing: why they were merged, undoing a merge, and verifying it now.


ListingId = Annotated[int, InPath(ge=1, lt=1 << 63)]
_VERIFY_NOW = "UPDATE listings SET verify_at = :now WHERE id = :id AND gone_at IS NULL RETURNING id"


class SplitBody(BaseModel):
    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [{"source": "rent.example:8kd02ns"}]})

    source: str = Field(min_length=1, max_length=500, description="Key or id of the source, as `why` shows it.")


class SplitStarted(BaseModel):
    job_id: UUID


class VerifyStarted(BaseModel):
    id: int
    verification_status: str


def add_sources(router: APIRouter, service: Service) -> None:
    @router.get(
        "/api/v1/listings/{listing_id}/why",
        summary="Show the sources of a listing",
        response_model=Envelope[list[SourceReport]],
        responses={200: example([SOURCE]), **failures(404)},
    )
    async def show_listing_sources(request: Request, listing_id: ListingId) -> Response:
        """Return the portals that show the listing, and the evidence for which they were merged."""
        listing = await one_listing(service.database, listing_id, await service.ledger.now())
        return answer(request, await sources_of(service.database, listing.listing_key))

    @router.post(
        "/api/v1/listings/{listing_id}/split",
        status_code=202,
        summary="Undo a wrong merge",
        response_model=Envelope[SplitStarted],
        responses={202: example({"job_id": JOB_ID}, description="The job is on disk."), **failures(404, body=True)},
    )
    async def split_listing(request: Request, listing_id: ListingId, body: SplitBody) -> Response:
        """The source is a listing of its own with its next sighting; it is never merged into this one again."""
        listing = await one_listing(service.database, listing_id, await service.ledger.now())
        source = await merged_source(service.database, listing.listing_key, body.source)
        split = {"source_key": source.source_key, "listing_key": listing.listing_key}
        made = await service.submit(NAME, {"action": "split", "split": split})
        return answer(request, {"job_id": made.job}, status=202)

    @router.post(
        "/api/v1/listings/{listing_id}/verify",
        status_code=202,
        summary="Verify a listing now",
        response_model=Envelope[VerifyStarted],
        responses={202: example({"id": 7, "verification_status": "pending"}), **failures(404, 409)},
    )
    async def verify_listing(request: Request, listing_id: ListingId) -> Response:
        """Its pages are fetched within seconds, if a worker runs. 409 for a listing that is not active."""
        await one_listing(service.database, listing_id, await service.ledger.now())
        due = {"id": listing_id, "now": await service.ledger.now_ms()}
        if not await service.database.write(_VERIFY_NOW, due):
            raise Conflict(f"The listing {listing_id} is not active any more. A scrape that shows it makes it so.")
        return answer(request, {"id": listing_id, "verification_status": "pending"}, status=202)


MOST_CHANGES = 1_000


class ListingsQuery(PageQuery, ListingFilter):
    model_config = ConfigDict(extra="forbid", frozen=True)

    limit: int = Field(default=20, ge=1, le=1_000, description="Maximum items per page.")

    def asked(self) -> ListingFilter:
        return ListingFilter(**self.model_dump(exclude=set(PageQuery.model_fields)))


def routes(service: Service, _: TaskWaiter) -> Router:
    router = Router(tags=[NAME], route_class=JsonRoute)
    add_markets(router, service, "/api/v1/admin/markets", documented=True)
    add_markets(router, service, "/api/admin/markets", documented=False)
    add_scraping(router, service, "/api/v1/admin/scraping", documented=True)
    add_scraping(router, service, "/api/admin/scraping", documented=False)
    add_limits(router, service, "/api/v1/admin/data-sources", documented=True)
    add_limits(router, service, "/api/admin/data-sources", documented=False)
    add_cards(router, service)
    _add_listings(router, service)
    add_sources(router, service)
    return router


def _add_listings(router: Router, service: Service) -> None:
    @router.get(
        "/api/v1/listings",
        summary="Find listings",
        response_model=ResultPage[ListingReport],
        responses={200: example([LISTING], next_cursor=None), **failures()},
    )
    async def find_listings(request: Request, asked: Annotated[ListingsQuery, Query()]) -> Response:
        """Active ones with a confidence of at least 40. Conditions on rent, beds, baths and area hold for one unit. A
        page may be short and still have a next one."""
        await require_market(service.database, asked.market)
        listings = await reports.find_listings(
            service.database, asked.asked(), await service.ledger.now(), cursor=asked.cursor, limit=asked.limit
        )
        return page(request, listings.items, listings.next_cursor)

    @router.get(
        "/api/v1/listings/{listing_id}",
        summary="Show a listing",
        response_model=Envelope[ListingReport],
        responses={200: example(LISTING), **failures(404)},
    )
    async def show_listing(request: Request, listing_id: ListingId) -> Response:
        """Active or not, with its confidence at this moment."""
        return answer(request, await reports.one_listing(service.database, listing_id, await service.ledger.now()))

    @router.get(
        "/api/v1/listings/{listing_id}/history",
        summary="Show how the rent of a listing changed",
        response_model=Envelope[ListingHistory],
        responses={200: example(HISTORY), **failures(404)},
    )
    async def show_listing_history(request: Request, listing_id: ListingId) -> Response:
        """Newest first, with its days on the market; of more than 1,000 changes, the newest ones."""
        listing = await reports.one_listing(service.database, listing_id, await service.ledger.now())
        changes = await service.reports.history("listing", listing.listing_key, limit=MOST_CHANGES)
        return answer(request, reports.history_of(listing, changes.items))
