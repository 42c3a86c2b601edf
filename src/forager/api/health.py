"""Whether Forager lives and may be sent work. Open to monitors, so the reason of a trouble is for who has the key."""

from typing import Any, Literal

from fastapi import APIRouter
from pydantic import BaseModel, Field
from starlette.requests import Request
from starlette.responses import Response

from forager import __version__
from forager.api.auth import ServiceKey
from forager.api.envelope import Envelope, answer, encoded, request_id
from forager.api.examples import HEALTH
from forager.api.feed import Feeds
from forager.api.openapi import example
from forager.api.vital import VitalSigns
from forager.app import App

TROUBLE = "the store does not take work; the log says why"


class HealthReport(BaseModel):
    status: Literal["ok", "red"]
    store: str = Field(description="ok, full or unavailable")
    worker: Literal["alive", "stopped"]
    trouble: str | None = Field(description="Why no work is leased; in full for callers with the key.")
    queue_depth: int | None = Field(description="Tasks of open jobs that wait.")
    active: int = Field(description="Tasks in flight in this process.")
    open_jobs: dict[str, int] | None = Field(description="Jobs that have not ended, by state.")
    dead_letters: int | None = Field(description="Failed tasks that are not discarded; counted to 1,000 only.")
    version: str


class Readiness(BaseModel):
    ready: bool
    reason: str | None


class UnhealthyEnvelope(BaseModel):
    """The one error that has data: what a monitor needs to know."""

    success: Literal[False]
    data: HealthReport | Readiness
    error: str
    meta: dict[str, Any]


def health_router(app: App, vital: VitalSigns, feeds: Feeds, key: ServiceKey) -> APIRouter:
    router = APIRouter(tags=["operation"])
    red: dict[int | str, dict[str, Any]] = {503: {"model": UnhealthyEnvelope, "description": "It does not work now."}}

    @router.get(
        "/health",
        summary="Whether everything works",
        response_model=Envelope[HealthReport],
        responses={200: example(HEALTH), **red},
    )
    async def show_health(request: Request) -> Response:
        """503 when the store does not answer or takes no work, or when no worker lives in this process."""
        signs = await vital.take()
        trouble = app.worker.stats.trouble
        figures = signs.figures
        ok = signs.store == "ok" and trouble is None and app.worker.alive
        report = {
            "status": "ok" if ok else "red",
            "store": signs.store,
            "worker": "alive" if app.worker.alive else "stopped",
            "trouble": trouble if trouble is None or key.accepts(request.scope) else TROUBLE,
            "queue_depth": figures.queued if figures else None,
            "active": app.worker.in_flight,
            "open_jobs": figures.open_jobs if figures else None,
            "dead_letters": figures.dead_letters if figures else None,
            "version": __version__,
        }
        return answer(request, report) if ok else _red(request, report, "Something does not work: see data.")

    @router.get(
        "/readiness",
        summary="Whether it may be sent requests",
        response_model=Envelope[Readiness],
        responses={200: example({"ready": True, "reason": None}), **red},
    )
    async def show_readiness(request: Request) -> Response:
        signs = await vital.take()
        reason = "shutting down" if feeds.closing.is_set() else None
        reason = reason or (None if signs.store == "ok" else f"the store is {signs.store}")
        report = {"ready": reason is None, "reason": reason}
        return answer(request, report) if reason is None else _red(request, report, f"Not ready: {reason}.")

    return router


def _red(request: Request, data: dict[str, Any], message: str) -> Response:
    about = {"request_id": request_id(request.scope), "code": "red"}
    said = {"success": False, "data": data, "error": message, "meta": about}
    return Response(encoded(said), 503, {"Retry-After": "5"}, "application/json")
