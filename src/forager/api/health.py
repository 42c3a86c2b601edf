"""Health and readiness. Both routes are open to monitors, so details of a problem are shown only to callers with the
key."""

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Literal

from pydantic import BaseModel, Field
from starlette.requests import Request
from starlette.responses import Response

from forager import __version__
from forager.api.auth import ServiceKey
from forager.api.events import Feeds
from forager.api.examples import HEALTH
from forager.app.application import App
from forager.core.errors import StoreError, StoreFull
from forager.core.proxies import Proxy
from forager.core.recheck import RecheckStatus
from forager.core.sink import SinkStatus
from forager.fetch.browser.pool import PoolStats
from forager.ledger.reports import Health, QueueLoad
from forager.sdk.feature import Figure
from forager.sdk.http.envelope import Envelope, answer, encoded, request_id
from forager.sdk.http.routes import Router, example

# The state of the store, which health and metrics share. It is read at most once a second, however often these routes
# are called: they are open without a key, so they must stay cheap.


FRESH = 1.0
PATIENCE = 2.0


@dataclass(frozen=True, slots=True)
class Vital:
    store: str
    """`ok`, or what is wrong with it in one word."""
    figures: Health | None
    circuits: Mapping[str, str] = field(default_factory=dict)
    """Lanes whose breaker is not closed."""
    proxies: Sequence[Proxy] = ()
    sinks: Sequence[SinkStatus] = ()
    rechecks: Sequence[RecheckStatus] = ()
    features: Sequence[Figure] = ()
    """Figures of the pipelines' own counters."""
    time: datetime | None = None
    """The moment of these figures, by the store's clock."""
    queues: Mapping[str, QueueLoad] = field(default_factory=dict)
    """Lanes that have work and no owner."""
    sessions: Mapping[str, int] = field(default_factory=dict)
    """Living sessions by the queue that they serve …"""
    shifts: Mapping[str, int] = field(default_factory=dict)
    """… and those of them that are Celery shifts."""


class VitalSigns:
    def __init__(self, app: App) -> None:
        self._app = app
        self._last = Vital("unknown", None)
        self._taken_at: float | None = None
        self._taking = asyncio.Lock()

    async def take(self) -> Vital:
        async with self._taking:
            now = self._app.clock.monotonic()
            if self._taken_at is None or now - self._taken_at >= FRESH:
                self._last = await self._ask()
                self._taken_at = now
            return self._last

    async def _ask(self) -> Vital:
        """Ask the store. One that answers the first question in time works, even if the others take longer on a busy
        machine: then their last answers stand."""
        app = self._app
        figures: Health | None = None
        try:
            async with asyncio.timeout(PATIENCE):
                figures = await app.reports.health()
            async with asyncio.timeout(PATIENCE):
                time = await app.ledger.now()
                now = round(time.timestamp() * 1000)
                sinks = await app.roster.statuses()
                rechecks = await app.rechecks.statuses()
                circuits, proxies = await app.reports.circuits(now), await app.proxies.list()
                features, queues = await _figures(app), await app.reports.waiting_by_queue(now)
                sessions, shifts = await app.reports.sessions_by_queue(now), await app.reports.shifts_by_queue(now)
                return Vital(
                    "ok", figures, circuits, proxies, sinks, rechecks, features, time, queues, sessions, shifts
                )
        except StoreFull:
            return Vital("full", None)
        except TimeoutError:
            return Vital("unavailable", None) if figures is None else replace(self._last, store="ok", figures=figures)
        except StoreError:
            return Vital("unavailable", None)


async def _figures(app: App) -> list[Figure]:
    counting = [each.figures.load() for each in app.features.values() if each.figures is not None]
    return [figure for count in counting for figure in await count(app)]


TROUBLE = "no work is leased or handed out; see the log"


class PoolReport(BaseModel):
    """Browsers of this process."""

    total: int
    available: int
    in_use: int
    pages_processed: int
    recycled_count: int


class ProxyFigures(BaseModel):
    healthy: bool
    success_count: int
    failure_count: int


class HealthReport(BaseModel):
    status: Literal["ok", "degraded", "red"] = Field(
        description="`red`: Forager does not work. `degraded`: it works, but a sink has failed for 5 minutes, or a key"
        " is refused."
    )
    store: str = Field(description="ok, full or unavailable")
    worker: Literal["alive", "stopped", "elsewhere"] = Field(
        description="elsewhere: this process serves the API only (`forager up --api-only`)."
    )
    trouble: str | None = Field(
        description="Why no work is leased, or handed to Celery; in full for callers with the key."
    )
    queue_depth: int | None = Field(description="Tasks of open jobs that wait.")
    active: int = Field(description="Tasks in flight in this process.")
    active_workers: int | None = Field(description="Tasks in flight in all processes of this store.")
    avg_duration: float | None = Field(description="Seconds per attempt, over the last hundred of this process.")
    pool: PoolReport
    proxies: dict[str, ProxyFigures] = Field(description="Proxies by id; addresses are never shown.")
    circuits: dict[str, int] = Field(description="Lanes whose circuit breaker is open or half_open, by state.")
    circuit_domains: dict[str, str] | None = Field(description="Their names; only for callers with the key.")
    stalled_sinks: int = Field(
        description="Sinks that fail and have delivered nothing for 5 minutes, or are full for a day: `degraded`."
    )
    stalled_sink_errors: dict[str, str] | None = Field(
        description="Their last errors, by name; only for callers with the key."
    )
    refused_keys: int = Field(description="Keys of ours that a service refuses: `degraded`.")
    refused_key_errors: dict[str, str] | None = Field(
        description="The reasons, by the name of the setting; only for callers with the key."
    )
    open_jobs: dict[str, int] | None = Field(description="Jobs that have not ended, by state.")
    dead_letters: int | None = Field(description="Failed tasks that are not discarded, counted up to 1,000.")
    version: str


class Readiness(BaseModel):
    ready: bool
    reason: str | None


class UnhealthyEnvelope(BaseModel):
    """An error envelope that also has data: the figures that a monitor needs."""

    success: Literal[False]
    data: HealthReport | Readiness
    error: str
    meta: dict[str, Any]


def health_router(app: App, vital: VitalSigns, feeds: Feeds, key: ServiceKey) -> Router:
    router = Router(tags=["operation"])
    red: dict[int | str, dict[str, Any]] = {
        503: {"model": UnhealthyEnvelope, "description": "Forager does not work now."}
    }

    @router.get(
        "/health",
        summary="Check that everything works",
        response_model=Envelope[HealthReport],
        responses={200: example(HEALTH), **red},
    )
    async def show_health(request: Request) -> Response:
        """Returns 503 if the store does not answer or accepts no work, if the broker of Celery
        does not take the shifts that are needed, or if no worker runs in a process that should have
        one (`red`); also if a sink, or the receiver of its webhooks, fails and has accepted nothing
        for 5 minutes, or if the credential backend refuses our key (`degraded`)."""
        signs = await vital.take()
        trouble = app.worker.stats.trouble or app.runner_trouble
        figures = signs.figures
        worker = "alive" if app.worker.alive else "elsewhere" if app.is_api_only else "stopped"
        known = app.roster.names
        stalled = {sink.name: _error_of(sink) for sink in signs.sinks if sink.stalled and sink.name in known}
        refused = app.refused_keys()
        works = signs.store == "ok" and trouble is None and worker != "stopped"
        ok = works and not stalled and not refused
        report = {
            "status": "ok" if ok else "degraded" if works else "red",
            "store": signs.store,
            "worker": worker,
            "trouble": trouble if trouble is None or key.accepts(request.scope) else TROUBLE,
            "queue_depth": figures.queued if figures else None,
            "active": app.worker.in_flight,
            **_scrape_figures(app, signs, trusted=key.accepts(request.scope)),
            "stalled_sinks": len(stalled),
            "stalled_sink_errors": stalled if key.accepts(request.scope) else None,
            "refused_keys": len(refused),
            "refused_key_errors": dict(refused) if key.accepts(request.scope) else None,
            "open_jobs": figures.open_jobs if figures else None,
            "dead_letters": figures.dead_letters if figures else None,
            "version": __version__,
        }
        if ok:
            return answer(request, report)
        return _red(request, report, "Something does not work: see data.", "degraded" if works else "red")

    @router.get(
        "/readiness",
        summary="Check that it accepts requests",
        response_model=Envelope[Readiness],
        responses={200: example({"ready": True, "reason": None}), **red},
    )
    async def show_readiness(request: Request) -> Response:
        signs = await vital.take()
        reason = "shutting down" if feeds.closing.is_set() or app.is_stopping else None
        reason = reason or (None if signs.store == "ok" else f"the store is {signs.store}")
        pool = app.browsers.stats() if app.browsers.is_installed else None
        if not app.is_api_only:
            reason = reason or nothing_to_fetch_with(pool, proxies=len(app.proxies), usable=app.proxies.usable)
        report = {"ready": reason is None, "reason": reason}
        return answer(request, report) if reason is None else _red(request, report, f"Not ready: {reason}.")

    return router


def nothing_to_fetch_with(pool: PoolStats | None, *, proxies: int, usable: int) -> str | None:
    """Return why no page can be fetched now; None if pages can be fetched. Having no proxies at all is a valid set-up,
    and so is an installation without browsers (no pool). A browser that could be started counts as available."""
    if pool is not None and pool.available + pool.launchable <= 0:
        return "all browsers are in use" if pool.in_use else "there is no browser to start; run `forager doctor`"
    if proxies and not usable:
        return "no proxy is healthy"
    return None


def _error_of(sink: SinkStatus) -> str:
    """Return why a sink is stalled. Its error is written after its state: for a moment there may be none."""
    since = f" since {sink.failing_since:%Y-%m-%d %H:%M} UTC" if sink.failing_since else ""
    return sink.error or f"It accepts nothing{since}. See `forager sinks show {sink.name}`."


def _scrape_figures(app: App, signs: Vital, *, trusted: bool) -> dict[str, Any]:
    """Figures that the specification of the scrape service requires in the health report."""
    pool, took = app.browsers.stats(), app.worker.stats.took
    states = Counter(signs.circuits.values())
    return {
        "active_workers": signs.figures.running if signs.figures else None,
        "avg_duration": round(sum(took) / len(took), 3) if took else None,
        "pool": {name: getattr(pool, name) for name in PoolReport.model_fields},
        "proxies": {
            str(p.id): {"healthy": p.healthy, "success_count": p.success_count, "failure_count": p.failures}
            for p in signs.proxies
        },
        "circuits": {"open": states["open"], "half_open": states["half_open"]},
        "circuit_domains": dict(signs.circuits) if trusted else None,
    }


def _red(request: Request, data: dict[str, Any], message: str, code: str = "red") -> Response:
    about = {"request_id": request_id(request.scope), "code": code}
    envelope = {"success": False, "data": data, "error": message, "meta": about}
    return Response(encoded(envelope), 503, {"Retry-After": "5"}, "application/json")
