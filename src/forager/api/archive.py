"""The archive on request: count or move inactive records, and find one that was moved."""

from dataclasses import asdict
from datetime import datetime
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema
from starlette.requests import Request
from starlette.responses import Response

from forager.app import App
from forager.core.durations import in_seconds
from forager.engine.archive import Moved
from forager.kit.http.envelope import Envelope, answer
from forager.kit.http.json_route import JsonRoute
from forager.kit.http.openapi import example, failures
from forager.kit.http.routes import Router

SECONDS = 5.0
"""Time limit of one request. `more` in the response then asks for another."""
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
        description="How long a record was neither seen nor changed: seconds, or text such as 180d; at least one day."
    )
    format: Literal["parquet", "jsonl"] = Field(default="parquet", description="The format of the files.")
    after: int = Field(
        default=0, ge=0, le=2**63 - 1, description="`after` of the previous answer, to go on from there."
    )
    dry_run: bool = Field(default=False, description="Only count what would be moved.")


class MovedReport(BaseModel):
    records: int = Field(description="Records that were moved, or would be.")
    files: int = Field(description="Files that were written.")
    after: int = Field(description="Where the next call goes on.")
    more: bool = Field(description="Whether records are left because the time limit was reached: call again.")


class ArchivedReport(BaseModel):
    kind: str
    key: str
    version: int = Field(description="The version of the archived state.")
    at: datetime = Field(description="When it was moved.")
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
        """Writes records to files where `FORAGER_ARCHIVE` says, verifies the files, then removes the records; their
        keys stay. With `dry_run`, only counts them."""
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
