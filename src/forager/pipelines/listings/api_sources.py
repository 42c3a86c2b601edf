"""The routes about the sources of a listing: why they are one home, undoing that, and looking again now."""

from typing import Annotated
from uuid import UUID

from fastapi import APIRouter
from fastapi import Path as InPath
from pydantic import BaseModel, ConfigDict, Field
from starlette.requests import Request
from starlette.responses import Response

from forager.core.errors import Conflict
from forager.kit.http.envelope import Envelope, answer
from forager.kit.http.openapi import example, failures
from forager.kit.service import Service
from forager.pipelines.listings.api_examples import JOB_ID, SOURCE
from forager.pipelines.listings.pipeline import NAME
from forager.pipelines.listings.reports import one_listing
from forager.pipelines.listings.reports_sources import SourceReport, merged_source, sources_of

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
        """Which portals show the home, and on what evidence they were taken for the same one."""
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
        """Its pages are asked within seconds, if a worker runs. 409 for a listing that is not active."""
        await one_listing(service.database, listing_id, await service.ledger.now())
        due = {"id": listing_id, "now": await service.ledger.now_ms()}
        if not await service.database.write(_VERIFY_NOW, due):
            raise Conflict(f"The listing {listing_id} is not active any more. A scrape that shows it makes it so.")
        return answer(request, {"id": listing_id, "verification_status": "pending"}, status=202)
