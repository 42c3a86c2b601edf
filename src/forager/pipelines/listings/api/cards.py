"""Data for the cards and the map of listings: points, and rents over time of many listings at once."""

from typing import Annotated, Any

from fastapi import Query
from pydantic import BaseModel, ConfigDict, Field
from starlette.requests import Request
from starlette.responses import Response

from forager.pipelines.listings.api.examples import HISTORY
from forager.pipelines.listings.reports import listings as reports
from forager.pipelines.listings.reports.listings import BadgeReport, ListingFilter, RentPoint
from forager.pipelines.listings.reports.markets import require_market
from forager.sdk.http.envelope import Envelope, answer
from forager.sdk.http.routes import Router, example, failures
from forager.sdk.reports import Report
from forager.sdk.service import Service

MOST_POINTS = 1_000
MOST_RENTS = 100
CHANGES_READ = 200
_KEYS = "SELECT id, listing_key FROM listings WHERE id IN ({ids})"


class MapQuery(ListingFilter):
    model_config = ConfigDict(extra="forbid", frozen=True)


class ListingPoint(Report):
    """A listing on a map."""

    id: int
    title: str | None
    address: str | None
    latitude: float
    longitude: float
    rent_min: int | None
    freshness_confidence: int
    badge: BadgeReport | None


class ListingMap(Report):
    points: list[ListingPoint]
    without_place: int = Field(description="Listings that match and have no coordinates.")
    more: bool = Field(description="True if further listings match; narrow the search to see them.")


class RentsQuery(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    id: list[Annotated[int, Field(ge=1, lt=1 << 63)]] = Field(
        min_length=1, max_length=MOST_RENTS, description="Ids of listings."
    )


class ListingRents(Report):
    id: int
    rents: list[RentPoint] = Field(description="Newest first.")


def add_cards(router: Router, service: Service) -> None:
    """Add the routes. They must come before the route of a single listing, whose path also matches theirs."""

    @router.get(
        "/api/v1/listings/map",
        summary="Show where listings are",
        response_model=Envelope[ListingMap],
        responses={200: example(_MAP), **failures()},
    )
    async def show_listing_map(request: Request, asked: Annotated[MapQuery, Query()]) -> Response:
        """The same filters as the search; at most 1,000 listings, those that the search has first."""
        await require_market(service.database, asked.market)
        found = await reports.find_listings(
            service.database, asked, await service.ledger.now(), cursor=None, limit=MOST_POINTS
        )
        points = [_point(each) for each in found.items if each.latitude is not None and each.longitude is not None]
        missing = len(found.items) - len(points)
        return answer(request, ListingMap(points=points, without_place=missing, more=found.next_cursor is not None))

    @router.get(
        "/api/v1/listings/rents",
        summary="Show how the rents of several listings changed",
        response_model=Envelope[list[ListingRents]],
        responses={200: example([{"id": 7, "rents": HISTORY["rents"]}]), **failures()},
    )
    async def show_listing_rents(request: Request, asked: Annotated[RentsQuery, Query()]) -> Response:
        """Rents of up to 100 listings. Ids without a listing are left out."""
        now = await service.ledger.now()
        rows = await service.database.fetch(_KEYS.format(ids=", ".join(str(each) for each in asked.id)))
        rents: list[ListingRents] = []
        for row in rows:
            listing = await reports.one_listing(service.database, row["id"], now)
            changes = await service.reports.history("listing", row["listing_key"], limit=CHANGES_READ)
            rents.append(ListingRents(id=row["id"], rents=reports.history_of(listing, changes.items).rents))
        return answer(request, rents)


def _point(listing: reports.ListingReport) -> ListingPoint:
    return ListingPoint(**{name: getattr(listing, name) for name in ListingPoint.model_fields})


_MAP: dict[str, Any] = {
    "points": [
        {
            "id": 7,
            "title": "Mill House",
            "address": "40 Mill Rd",
            "latitude": 42.3655,
            "longitude": -71.1043,
            "rent_min": 2450,
            "freshness_confidence": 92,
            "badge": {"color": "green", "text": "Recently verified"},
        }
    ],
    "without_place": 0,
    "more": False,
}
