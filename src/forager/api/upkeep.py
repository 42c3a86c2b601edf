"""Retention on request: count or remove old data now, instead of waiting for the background loop."""

from dataclasses import asdict
from datetime import datetime
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema
from starlette.requests import Request
from starlette.responses import Response

from forager.api.examples import BLOBS, COLLECTED
from forager.app.application import App
from forager.core.clock import in_seconds
from forager.core.upkeep import Pruned
from forager.engine.archive import Moved
from forager.sdk.http.envelope import Envelope, answer
from forager.sdk.http.routes import JsonRoute, Router, example, failures

SECONDS = 5.0
"""Time limit of one request. If `more` is true in the response, call again."""


class PruneBody(BaseModel):
    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [{"dry_run": True}]})

    dry_run: bool = Field(default=False, description="Only count what would be removed.")


class PrunedReport(BaseModel):
    jobs: int = Field(description="Finished jobs.")
    tasks: int = Field(description="Their tasks.")
    messages: int = Field(description="Webhooks that were delivered or discarded.")
    rejected: int = Field(description="Rows that failed validation.")
    attempts: int = Field(description="Attempts of tasks in the log.")
    changes: int = Field(description="Changes that every sink has passed. In a dry run, a few of them may stay.")
    records: int = Field(description="Records of jobs that were removed.")
    more: bool = Field(description="True if old data is left because the time limit was reached: call again.")


SHOWN: dict[str, int] = {"jobs": 12, "tasks": 10_940, "messages": 37, "rejected": 0, "attempts": 211}
SHOWN |= {"changes": 0, "records": 0}


def retention_router(app: App) -> Router:
    router = Router(prefix="/api/v1", tags=["retention"], route_class=JsonRoute)

    @router.post(
        "/prune",
        summary="Remove old data",
        response_model=Envelope[PrunedReport],
        responses={200: example({**SHOWN, "more": False}), **failures(body=True)},
    )
    async def prune(request: Request, body: PruneBody) -> Response:
        """Removes everything that is older than the settings keep it. With `dry_run`, only counts it."""
        pruned = await app.prunable() if body.dry_run else await _prune(app)
        return answer(request, PrunedReport(**{name: getattr(pruned, name) for name in PrunedReport.model_fields}))

    return router


async def _prune(app: App) -> Pruned:
    sum_, ends = Pruned(more=True), app.clock.monotonic() + SECONDS
    while sum_.more and app.clock.monotonic() < ends:
        sum_ += await app.prune()
    return sum_


# The archive on request: count or move inactive records, and find one that was moved.


A_DAY, CENTURY = 86_400, 100 * 365 * 86_400


def _sensible(seconds: float) -> float:
    if not A_DAY <= seconds <= CENTURY:
        raise ValueError("must be at least a day and at most a century; write it with its unit, such as 180d")
    return seconds


Age = Annotated[
    float,
    BeforeValidator(in_seconds),
    AfterValidator(_sensible),
    WithJsonSchema({"type": "number", "minimum": A_DAY, "maximum": CENTURY}),
]


class ArchiveBody(BaseModel):
    model_config = ConfigDict(
        extra="forbid", json_schema_extra={"examples": [{"kind": "product", "inactive_for": "180d", "dry_run": True}]}
    )

    kind: str = Field(description="The kind of records, such as product.")
    inactive_for: Age = Field(
        description="Age since a record was last seen or changed: seconds, or text such as 180d; at least one day."
    )
    format: Literal["parquet", "jsonl"] = Field(default="parquet", description="The format of the files.")
    after: int = Field(
        default=0, ge=0, le=2**63 - 1, description="`after` of the previous answer, to go on from there."
    )
    dry_run: bool = Field(default=False, description="Only count what would be moved.")


class MovedReport(BaseModel):
    records: int = Field(description="Records that were moved, or would be.")
    files: int = Field(description="Files that were written.")
    after: int = Field(description="Position for the next call.")
    more: bool = Field(description="True if records are left because the time limit was reached: call again.")


class ArchivedReport(BaseModel):
    kind: str
    key: str
    version: int = Field(description="The version of the archived state.")
    at: datetime = Field(description="Time of the move.")
    place: str = Field(description="The folder or the address in S3.")
    path: str = Field(description="The file there.")


MOVED = {"records": 12_400, "files": 3, "after": 51_200, "more": False}
ARCHIVED = {
    "kind": "product",
    "key": "5d1c1e0a9ad9a7c1f0f2b7b4b3c9e3a2f3c1d0a4b5e6f708192a3b4c5d6e7f80",
    "version": 7,
    "at": "2026-03-14T12:00:00Z",
    "place": "s3://lake/archive",
    "path": "product/2026-03-14/9f2c41aa03b7d6e5.parquet",
}


def archive_router(app: App) -> Router:
    router = Router(prefix="/api/v1/archive", tags=["retention"], route_class=JsonRoute)

    @router.post(
        "",
        summary="Move inactive records to the archive",
        response_model=Envelope[MovedReport],
        responses={200: example(MOVED), **failures(body=True)},
    )
    async def move_records(request: Request, body: ArchiveBody) -> Response:
        """Writes records to files in `FORAGER_ARCHIVE`, verifies the files, then removes the records; their keys stay.
        With `dry_run`, only counts them."""
        if body.dry_run:
            moved = Moved(records=await app.archive.count(body.kind, body.inactive_for))
        else:
            moved = await app.archive.move(body.kind, body.inactive_for, body.format, after=body.after, seconds=SECONDS)
        return answer(request, asdict(moved))

    @router.get(
        "/{kind}/{key:path}",
        summary="Find an archived record",
        response_model=Envelope[ArchivedReport],
        responses={200: example(ARCHIVED), **failures(404, 422)},
    )
    async def find_archived(request: Request, kind: str, key: str) -> Response:
        """Names the file that holds the last archived state of a record."""
        return answer(request, asdict(await app.archive.find(kind, key)))

    return router


# Stored pages: how much there is, and the removal of what nothing refers to.


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
