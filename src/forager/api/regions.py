"""Routes for regions: list them, pin a lane to one, remove a pin."""

from datetime import datetime
from typing import Annotated, Any

from fastapi import Path
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field
from starlette.requests import Request
from starlette.responses import Response

from forager.app.application import App
from forager.core.clock import in_seconds
from forager.core.errors import NotFound
from forager.core.regions import Pin, checked_region
from forager.ledger.tables.regions import RegionReport
from forager.sdk.http.envelope import Envelope, answer
from forager.sdk.http.routes import JsonRoute, Router, example, failures

PIN: dict[str, Any] = {"lane": "example.com", "region": "eu", "fail_over_seconds": 600.0}
REGION: dict[str, Any] = {
    "name": "eu",
    "workers": 2,
    "seen_at": "2026-05-09T08:30:00Z",
    "lanes": 3,
    "owned": 2,
    "waiting": 0,
    "pins": [PIN],
    "failed_over": [],
}


class NewPin(BaseModel):
    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={"examples": [{"lane": "example.com", "region": "eu", "fail_over": "10m"}]},
    )

    lane: str = Field(min_length=1, max_length=260, description="A domain, or the name of an API's lane.")
    region: str = Field(max_length=32, description="Lower-case letters, digits and hyphens, such as eu.")
    fail_over: Annotated[float, BeforeValidator(in_seconds), Field(gt=0, le=31_536_000)] | None = Field(
        default=None,
        description="Seconds, or a text such as 10m, without a worker of the region after which others take the lane;"
        " null: never.",
    )


class PinReport(BaseModel):
    lane: str
    region: str
    fail_over_seconds: float | None = Field(description="Null: no other worker ever takes it.")


class RegionView(BaseModel):
    name: str
    workers: int = Field(description="Its workers that are alive.")
    seen_at: datetime | None = Field(description="Time at which one of them was last seen.")
    lanes: int = Field(description="Lanes that only its workers take now.")
    owned: int = Field(description="Pinned lanes that a worker has.")
    waiting: int = Field(description="Pinned lanes that have work and no worker.")
    pins: list[PinReport]
    failed_over: list[str] = Field(description="Pinned lanes that others may take now: the region has no worker.")


class Unpinned(BaseModel):
    unpinned: str


def regions_router(app: App) -> Router:
    router = Router(prefix="/api/v1/regions", tags=["lanes"], route_class=JsonRoute)

    @router.get(
        "",
        summary="List regions",
        response_model=Envelope[list[RegionView]],
        responses={200: example([REGION]), **failures()},
    )
    async def list_regions(request: Request) -> Response:
        """Every region that has or had workers, or that a lane is pinned to. Regions need PostgreSQL."""
        return answer(request, [_view(each) for each in await app.regions.list()])

    @router.post(
        "/pins",
        summary="Pin a lane to a region",
        response_model=Envelope[PinReport],
        responses={200: example(PIN), **failures(body=True)},
    )
    async def pin_lane(request: Request, body: NewPin) -> Response:
        """Only workers of the region send to it from now on. The pin of a domain also holds for its sub-domains, unless
        they have one of their own. An earlier pin of the same lane is replaced."""
        return answer(request, _pin(await app.regions.pin(body.lane, checked_region(body.region), body.fail_over)))

    @router.delete(
        "/pins/{lane}",
        summary="Unpin a lane",
        response_model=Envelope[Unpinned],
        responses={200: example({"unpinned": "example.com"}), **failures(404)},
    )
    async def unpin_lane(
        request: Request,
        lane: Annotated[str, Path(min_length=1, max_length=260, description="Its name.", examples=["example.com"])],
    ) -> Response:
        """Every worker may send to it again."""
        if not await app.regions.unpin(lane):
            raise NotFound(f"The lane {lane!r} is not pinned. See `forager regions list`.")
        return answer(request, {"unpinned": lane})

    return router


def _view(region: RegionReport) -> dict[str, Any]:
    return {
        "name": region.name,
        "workers": region.workers,
        "seen_at": region.seen_at,
        "lanes": region.lanes,
        "owned": region.owned,
        "waiting": region.waiting,
        "pins": [_pin(pin) for pin in region.pins],
        "failed_over": list(region.failed_over),
    }


def _pin(pin: Pin) -> dict[str, Any]:
    return {"lane": pin.lane, "region": pin.region, "fail_over_seconds": pin.after}
