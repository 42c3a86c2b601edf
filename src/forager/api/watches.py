"""Watches: how many records of each are due, how late the oldest is; pause and resume."""

from datetime import datetime
from typing import Annotated, Any, Literal
from uuid import UUID

from fastapi import Path
from pydantic import BaseModel, Field
from starlette.requests import Request
from starlette.responses import Response

from forager.api.examples import WATCH
from forager.app import App
from forager.core.watch import WatchStatus
from forager.kit.http.envelope import Envelope, answer
from forager.kit.http.json_route import JsonRoute
from forager.kit.http.openapi import example, failures
from forager.kit.http.routes import Router

WatchName = Annotated[str, Path(max_length=100, description="The watch's name.", examples=["product.next_at"])]


class WatchReport(BaseModel):
    name: str
    pipeline: str
    record: str = Field(description="The kind of its records.")
    field: str = Field(description="The field that holds the due time.")
    state: Literal["active", "paused"]
    due: int = Field(description="Records whose time has come, counted to 10,000.")
    late_seconds: float = Field(description="Seconds since the oldest of these came due.")
    oldest_due: datetime | None
    next_due: datetime | None = Field(description="The earliest due time that is still to come.")
    dispatched: int = Field(description="Records that were turned into tasks so far.")
    last_at: datetime | None = Field(description="When that happened last.")
    error: str | None = Field(description="The error of its rule in the last page, with the record's key.")
    error_at: datetime | None
    job_id: UUID | None = Field(description="Its standing job, which has one task per record; null before the first.")


def watches_router(app: App) -> Router:
    router = Router(prefix="/api/v1/watches", tags=["watches"], route_class=JsonRoute)

    @router.get(
        "",
        summary="List watches",
        response_model=Envelope[list[WatchReport]],
        responses={200: example([WATCH]), **failures()},
    )
    async def list_watches(request: Request) -> Response:
        """The watches that the pipelines declare, sorted by name."""
        return answer(request, [_report(status) for status in await app.watches.statuses()])

    @router.get("/{watch}", summary="Show a watch", **_ONE)
    async def show_watch(request: Request, watch: WatchName) -> Response:
        return answer(request, _report(await app.watches.status(watch)))

    @router.post("/{watch}/pause", summary="Pause a watch", **_ONE)
    async def pause_watch(request: Request, watch: WatchName) -> Response:
        """It creates no tasks until it is resumed; its due records wait. Tasks that it has created go on."""
        await app.watches.pause(watch, paused=True)
        return answer(request, _report(await app.watches.status(watch)))

    @router.post("/{watch}/resume", summary="Resume a watch", **_ONE)
    async def resume_watch(request: Request, watch: WatchName) -> Response:
        """It goes on within seconds, with the records that came due meanwhile."""
        await app.watches.pause(watch, paused=False)
        return answer(request, _report(await app.watches.status(watch)))

    return router


def _report(status: WatchStatus) -> WatchReport:
    return WatchReport(
        name=status.name,
        pipeline=status.pipeline,
        record=status.record,
        field=status.due_field,
        state="paused" if status.paused else "active",
        due=status.due,
        late_seconds=status.late,
        oldest_due=status.oldest_due,
        next_due=status.next_due,
        dispatched=status.dispatched,
        last_at=status.last_at,
        error=status.error,
        error_at=status.error_at,
        job_id=status.job,
    )


_ONE: dict[str, Any] = {
    "response_model": Envelope[WatchReport],
    "responses": {200: example(WATCH), **failures(404)},
}
