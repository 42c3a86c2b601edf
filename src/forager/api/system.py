"""`GET /api/v1/system`: workers, the store, and every setting in force with its origin."""

import asyncio
import os
from collections import Counter
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any, Literal

from fastapi import Query
from pydantic import BaseModel, ConfigDict, Field
from starlette.requests import Request
from starlette.responses import Response

from forager import __version__
from forager.api.dead import HARMLESS
from forager.api.overview_report import (
    CHECK,
    LOG_LINE,
    SYSTEM,
    BrowsersBrief,
    BrowserVisit,
    SettingInForce,
    StoreBrief,
    SystemCheck,
    SystemLogLine,
    SystemReport,
    WorkerBrief,
)
from forager.app.application import App
from forager.app.series import store_size
from forager.core.errors import NotFound
from forager.logging import MOST_REMEMBERED, recent_lines
from forager.sdk.http.envelope import Envelope, answer
from forager.sdk.http.routes import JsonRoute, Router, example, failures
from forager.settings.loading import Declared, as_text, declared, gather
from forager.settings.tree import Settings

LANES_LOOKED_AT = 200
_THUMBNAIL: dict[str, Any] = {
    "description": "The picture.",
    "content": {"image/jpeg": {"schema": {"type": "string", "format": "binary"}, "example": "…"}},
}
HIDDEN = "••••"
Level = Literal["debug", "info", "warning", "error"]
LEVELS: tuple[Level, ...] = ("debug", "info", "warning", "error")


def system_router(app: App) -> Router:
    router = Router(prefix="/api/v1", tags=["operation"], route_class=JsonRoute)

    @router.get(
        "/system",
        summary="Show workers, store and settings",
        response_model=Envelope[SystemReport],
        responses={200: example(SYSTEM), **failures()},
    )
    async def show_system(request: Request) -> Response:
        """Sessions that work on this store, its size, and every setting with its value and origin. Secrets are
        hidden."""
        lanes = await app.reports.lanes(limit=LANES_LOOKED_AT)
        owned = Counter(lane.owner for lane in lanes.items)
        now = await app.ledger.now()
        workers = [
            WorkerBrief(
                name=each.name, started_at=each.started_at, alive=each.lease_until > now, lanes=owned[each.name]
            )
            for each in await app.reports.sessions()
        ]
        told = SystemReport(
            version=__version__,
            workers=workers,
            store=await store_of(app),
            browsers=_browsers(app),
            settings=settings_in_force(app.settings, os.environ, Path.cwd()),
        )
        return answer(request, told)

    @router.get(
        "/system/checks",
        summary="Run the checks of `forager doctor`",
        response_model=Envelope[list[SystemCheck]],
        responses={200: example([CHECK]), **failures()},
    )
    async def check_system(request: Request) -> Response:
        """Python, store, schema, keys, disk, services and packages of the process that answers, each with its remedy.
        Changes nothing."""
        from forager.app.checks import examine  # the checks load most of the application: only when they are wanted

        found = await asyncio.to_thread(examine, lambda: app.settings)
        return answer(request, [SystemCheck(**{name: getattr(each, name) for name in CHECK}) for each in found])

    @router.get(
        "/system/browsers/{number}/thumbnail",
        summary="Show what a browser shows now",
        response_class=Response,
        responses={200: _THUMBNAIL, **failures(404)},
    )
    async def show_thumbnail(number: int) -> Response:
        """A small picture of an open page, drawn when it is requested. 404 once the page is closed."""
        visit = app.browsers.visits.get(number)
        picture = await visit.thumbnail() if visit is not None else None
        if picture is None:
            raise NotFound("This page is not open in a browser any more.")
        return Response(picture, media_type="image/jpeg", headers={**HARMLESS, "Cache-Control": "no-store"})

    @router.get(
        "/system/log",
        summary="Show the newest log lines",
        response_model=Envelope[list[SystemLogLine]],
        responses={200: example([LOG_LINE]), **failures()},
    )
    async def show_log(request: Request, asked: Annotated[LogQuery, Query()]) -> Response:
        """Log lines of the answering process, newest first, from memory, without secrets."""
        least = LEVELS.index(asked.level)
        lines = [line for line in map(_line, reversed(recent_lines())) if _rank(line.level) >= least]
        return answer(request, lines[: asked.limit])

    return router


class LogQuery(BaseModel):
    model_config = ConfigDict(extra="forbid")

    level: Level = Field(default="info", description="This level and above.")
    limit: int = Field(default=100, ge=1, le=MOST_REMEMBERED, description="Lines to return.")


def _browsers(app: App) -> BrowsersBrief | None:
    if not app.browsers.is_installed:
        return None
    pool = app.browsers.stats()
    return BrowsersBrief(
        in_use=pool.in_use,
        idle=pool.available,
        launchable=pool.launchable,
        waiting=pool.waiting,
        pages=pool.pages_processed,
        visits=[
            BrowserVisit(url=visit.url, since=visit.since, thumbnail=f"/api/v1/system/browsers/{number}/thumbnail")
            for number, visit in app.browsers.visits.items()
        ],
    )


def _rank(level: str) -> int:
    return LEVELS.index(level) if level in LEVELS else len(LEVELS)


def _line(event: Mapping[str, Any]) -> SystemLogLine:
    about = {"timestamp", "level", "event", "logger"}
    fields = {name: value for name, value in event.items() if name not in about and value is not None}
    return SystemLogLine(
        at=str(event.get("timestamp", "")),
        level=str(event.get("level", "info")),
        event=str(event.get("event", "")),
        fields=fields,
    )


async def store_of(app: App) -> StoreBrief:
    """Return what the store is, how large it is on disk, and how much it grows."""
    is_server = bool(app.settings.database_url)
    return StoreBrief(
        kind="PostgreSQL" if is_server else "SQLite",
        where="FORAGER_DATABASE_URL" if is_server else str(app.settings.home),
        bytes=await store_size(app.database, app.settings.home),
        grown_day=await app.series.grown(timedelta(days=1)),
        grown_week=await app.series.grown(timedelta(days=7)),
    )


def settings_in_force(settings: Settings, env: Mapping[str, str], folder: Path) -> list[SettingInForce]:
    """Return every setting with its value as text and its source. Values that may contain a password are hidden."""
    known = declared(type(settings))
    given, _ = gather([each.name for each in known], {}, env, folder)
    sources = {slot.partition(".")[0]: value.found_in for slot, value in given.items()}
    return [_in_force(each, getattr(settings, each.name.field), sources.get(each.name.field)) for each in known]


def _in_force(setting: Declared, value: object, source: str | None) -> SettingInForce:
    default = (value is None or value in ((), {})) if setting.default is None else as_text(value) == setting.default
    text = as_text(value)
    return SettingInForce(
        name=setting.name.variable,
        group=setting.group,
        value=HIDDEN if text and setting.name.hidden else text,
        origin=source or ("default" if default else "command"),
        help=setting.about,
    )
