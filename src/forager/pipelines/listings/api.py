"""The routes of listings: search, one listing, its history; and the admin routes of markets and data sources."""

from typing import Annotated

from fastapi import Path as InPath
from fastapi import Query
from pydantic import ConfigDict, Field
from starlette.requests import Request
from starlette.responses import Response

from forager.kit.http.envelope import Envelope, Page, answer, page
from forager.kit.http.json_route import JsonRoute
from forager.kit.http.openapi import example, failures
from forager.kit.http.params import PageQuery
from forager.kit.http.routes import Router
from forager.kit.http.task_waiter import TaskWaiter
from forager.kit.service import Service
from forager.pipelines.listings import reports
from forager.pipelines.listings.api_examples import HISTORY, LISTING
from forager.pipelines.listings.api_limits import add_limits
from forager.pipelines.listings.api_markets import add_markets, add_scraping
from forager.pipelines.listings.api_sources import add_sources
from forager.pipelines.listings.pipeline import NAME
from forager.pipelines.listings.reports import ListingFilter, ListingHistory, ListingReport

ListingId = Annotated[int, InPath(ge=1, lt=1 << 63)]
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
    _add_listings(router, service)
    add_sources(router, service)
    return router


def _add_listings(router: Router, service: Service) -> None:
    @router.get(
        "/api/v1/listings",
        summary="Find listings",
        response_model=Page[ListingReport],
        responses={200: example([LISTING], next_cursor=None), **failures()},
    )
    async def find_listings(request: Request, asked: Annotated[ListingsQuery, Query()]) -> Response:
        """Active ones with a confidence of at least 40. Conditions on rent, beds, baths and area hold for one unit. A
        page may be short and still have a next one."""
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
