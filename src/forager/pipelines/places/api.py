"""Routes of the places pipeline, as its specification prescribes: price a job, create it, read the results."""

from typing import Annotated, Any, Literal
from uuid import UUID

from fastapi import Body, Query
from pydantic import BaseModel, ConfigDict, Field
from starlette.requests import Request
from starlette.responses import Response

from forager.pipelines.places import reports, reports_map
from forager.pipelines.places.estimate import PlacesPlan
from forager.pipelines.places.job import Keyword, State, ZipCode
from forager.pipelines.places.pipeline import NAME
from forager.pipelines.places.records import Place
from forager.pipelines.places.reports import PlaceFilter, PlaceReport
from forager.pipelines.places.reports_map import COLUMNS, Coverage, PlacePoints
from forager.sdk.http.envelope import Envelope, ResultPage, answer, page
from forager.sdk.http.routes import (
    REPEATED,
    IdempotencyKey,
    JsonRoute,
    PageQuery,
    Router,
    body_of,
    change_example,
    checked_key,
    example,
    example_of,
    failures,
    record_example,
)
from forager.sdk.http.streams import TaskWaiter
from forager.sdk.reports import ChangeReport
from forager.sdk.service import Service

JobBody = Annotated[dict[str, Any], Body()]


class PlacesJobCreated(BaseModel):
    """The answer to a creation. The job runs in the background; `GET /api/v1/jobs/{job_id}` returns its state."""

    job_id: UUID
    status: Literal["running", "completed"] = Field(
        description="`running`, also for a repeat; `completed` for a dry run. See the job for its current state."
    )
    total_queries: int = Field(description="Queries of the job: ZIPs times pages. A dry run has none.")
    plan: PlacesPlan | None = Field(default=None, description="The price, for a dry run.")


class PointsQuery(PlaceFilter):
    """Filters of the list of places. They are normalised and validated like the parameters of a job."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    zip: ZipCode | None = Field(
        default=None,
        description="Exactly this ZIP, five digits: places that a job saw first in this ZIP.",
        examples=["85001"],
    )
    keyword: Keyword | None = Field(
        default=None, description="Seen for exactly this keyword; `A` to `Z` in any case.", examples=["bars"]
    )
    state: State | None = Field(
        default=None, description="Seen in this state: two letters, in any case.", examples=["AZ"]
    )

    def asked(self) -> PlaceFilter:
        return PlaceFilter(**self.model_dump(exclude=set(PageQuery.model_fields)))


class PlacesQuery(PageQuery, PointsQuery):
    """The filters, and a page of the list."""

    model_config = ConfigDict(extra="forbid", frozen=True)


def routes(service: Service, _: TaskWaiter) -> Router:
    router = Router(prefix="/api/v1/places", tags=["places"], route_class=JsonRoute)
    job_body = body_of(service.pipelines[NAME])

    @router.post(
        "/jobs",
        status_code=202,
        summary="Create a places job",
        response_model=Envelope[PlacesJobCreated],
        responses={202: _CREATED, **failures(409, body=True)},
        openapi_extra=job_body,
    )
    async def create_places_job(request: Request, body: JobBody, idempotency_key: IdempotencyKey = None) -> Response:
        """Returns as soon as the job is durably stored. A repeated request with the same `Idempotency-Key` returns the
        same job."""
        made = await service.submit(NAME, body, key=checked_key(idempotency_key))
        data: dict[str, Any] = {"job_id": made.job, "status": "running", "total_queries": made.total}
        if made.total == 0:
            data |= {"status": "completed", "plan": (await service.reports.job(made.job)).estimate}
        warnings = await service.warnings(NAME, body)
        return answer(request, data, status=202, headers=None if made.created else REPEATED, warnings=warnings)

    @router.post(
        "/plan",
        summary="Price a places job",
        response_model=Envelope[PlacesPlan],
        responses={200: example(_PLAN), **failures(body=True)},
        openapi_extra=job_body,
    )
    async def plan_places_job(request: Request, body: JobBody) -> Response:
        """Returns queries, worst and expected credits, cost, time, and the binding limit. Sends nothing to the upstream
        and spends nothing."""
        return answer(request, await service.estimate(NAME, body))

    @router.get(
        "",
        summary="Find places",
        response_model=ResultPage[PlaceReport],
        responses={200: example([_PLACE], next_cursor=None), **failures(404)},
    )
    async def find_places(request: Request, asked: Annotated[PlacesQuery, Query()]) -> Response:
        """Sorted by discovery; with `zip`, by `place_uid`. A page may be short, or even empty, and still have a next
        one."""
        listed = await reports.find_places(service.database, asked.asked(), cursor=asked.cursor, limit=asked.limit)
        return page(request, listed.items, listed.next_cursor)

    @router.get(
        "/map",
        summary="Show where places are",
        response_model=Envelope[PlacePoints],
        responses={200: example(_POINTS), **failures(404)},
    )
    async def show_places_map(request: Request, asked: Annotated[PointsQuery, Query()]) -> Response:
        """The same filters as the list; at most 20,000 points, each a list of values in the order of `columns`."""
        return answer(request, await reports_map.points(service.database, asked.asked()))

    @router.get(
        "/coverage",
        summary="Show how far the ZIPs of a job were read",
        response_model=Envelope[Coverage],
        responses={200: example(_COVERAGE), **failures(404)},
    )
    async def show_coverage(
        request: Request,
        job: Annotated[UUID | None, Query(description="Job id (default: the newest job).")] = None,
    ) -> Response:
        """A ZIP whose every allowed page was full is `cut_off`: more pages would find more places there."""
        return answer(request, await reports_map.coverage(service.database, job))

    @router.get(
        "/{place_uid}",
        summary="Show a place",
        response_model=Envelope[PlaceReport],
        responses={200: example(_PLACE), **failures(404)},
    )
    async def show_place(request: Request, place_uid: str) -> Response:
        """Found by its `place_uid`, or by a cid with which it was seen."""
        return answer(request, await reports.one_place(service.database, place_uid))

    @router.get(
        "/{place_uid}/history",
        summary="Show how a place changed",
        response_model=ResultPage[ChangeReport],
        responses={200: example([_CHANGE], next_cursor=None), **failures(404)},
    )
    async def show_place_history(request: Request, place_uid: str, asked: Annotated[PageQuery, Query()]) -> Response:
        """Newest first."""
        place = await reports.one_place(service.database, place_uid)
        changes = await service.reports.history("place", place.place_uid, cursor=asked.cursor, limit=asked.limit)
        return page(request, changes.items, changes.next_cursor)

    return router


_PLACE = {
    "keyword": "bars",
    "zip": "85004",
    "city": "Phoenix",
    **{name: value for name, value in record_example(Place).items() if name in PlaceReport.model_fields},
}
_POINTS = {
    "columns": list(COLUMNS),
    "points": [[_PLACE[name] for name in COLUMNS]],
    "without_place": 0,
    "more": False,
}
_COVERAGE = {
    "job_id": "0f1c9b52-6a7e-4d0e-8e63-0a2f3c5b7d11",
    "zips": [{"zip": "85001", "pages": 3, "read": 2, "full": 1, "places": 14, "failed": 0, "state": "complete"}],
}
_CHANGE = change_example(Place)
_PLAN = example_of(PlacesPlan)
_CREATED = example(
    {"job_id": "0f1c9b52-6a7e-4d0e-8e63-0a2f3c5b7d11", "status": "running", "total_queries": 915},
    description="The job is stored and runs.",
)
