"""Stored pages: how much there is, and the removal of what nothing refers to."""

from dataclasses import asdict

from pydantic import BaseModel, ConfigDict, Field
from starlette.requests import Request
from starlette.responses import Response

from forager.api.examples import BLOBS, COLLECTED
from forager.app import App
from forager.kit.http.envelope import Envelope, answer
from forager.kit.http.json_route import JsonRoute
from forager.kit.http.openapi import example, failures
from forager.kit.http.routes import Router


class BlobReport(BaseModel):
    pages: int = Field(description="Pages stored.")
    size: int | None = Field(description="Bytes of the pages as they were received; null in S3.")
    stored: int = Field(description="Bytes on disk.")
    unused: int = Field(description="Bytes on disk that no longer belong to any page.")
    segments: int = Field(description="Files that hold them.")


class Collect(BaseModel):
    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [{"dry_run": True}]})

    dry_run: bool = Field(default=False, description="Count what would be removed, and remove nothing.")


class CollectedReport(BaseModel):
    pages: int = Field(description="Pages removed.")
    kept: int = Field(description="Pages kept, because something refers to them or they were stored recently.")
    freed: int = Field(description="Bytes returned to the disk.")
    segments: int = Field(description="Files removed.")
    dry_run: bool


def blobs_router(app: App) -> Router:
    router = Router(prefix="/api/v1/blobs", tags=["stored pages"], route_class=JsonRoute)

    @router.get(
        "",
        summary="Show how much is stored",
        response_model=Envelope[BlobReport],
        responses={200: example(BLOBS), **failures()},
    )
    async def show_blobs(request: Request) -> Response:
        """Counts the pages in the data folder of this process."""
        return answer(request, asdict(await app.stored_pages.stat()))

    @router.post(
        "/gc",
        summary="Remove stored pages that nothing refers to",
        response_model=Envelope[CollectedReport],
        responses={200: example(COLLECTED), **failures(409, 422)},
    )
    async def collect_blobs(request: Request, body: Collect | None = None) -> Response:
        """Also runs every six hours by itself. A page is kept while a record or an unfinished task refers to it, or if
        it was stored recently."""
        return answer(request, asdict(await app.stored_pages.collect(dry_run=body is not None and body.dry_run)))

    return router
