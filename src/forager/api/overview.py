"""The first page of the dashboard in one answer: running jobs, problems, and recent changes.

It is computed at most once a second for all readers together, from figures that health and metrics read anyway.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Literal
from uuid import UUID

import structlog
from fastapi import Query
from pydantic import BaseModel, ConfigDict, Field
from starlette.requests import Request
from starlette.responses import Response

from forager.api.health import Vital, VitalSigns
from forager.api.news import told_changes
from forager.api.overview_report import (
    OVERVIEW,
    PIPELINE,
    SERIES,
    TOLD_CHANGE,
    Attention,
    Freshness,
    HealthBrief,
    HelpfulAction,
    OverviewCounts,
    OverviewReport,
    PipelineBrief,
    RateReport,
    RunningJob,
    SeriesReport,
    SinkBrief,
    SinksBrief,
    SpendReport,
    ToldChange,
    WaitingLane,
    WorstSink,
)
from forager.app.application import App
from forager.core.errors import StoreError
from forager.core.sink import SinkStatus
from forager.core.waiting import when
from forager.ledger.reports import JobReport, LaneReport
from forager.ledger.reports.jobs import DeadReason, Why
from forager.sdk.feature import Ref
from forager.sdk.http.envelope import Envelope, answer
from forager.sdk.http.routes import JsonRoute, Router, example, failures
from forager.sdk.overview import Expenses

FRESH = 1.0
MOST_RUNNING = 12
MOST_CHANGES = 24
"""Changes in an overview. The page joins adjacent new records of one kind."""
MOST_WAITING = 6
LANES_LOOKED_AT = 200
WINDOW = 30.0
"""Seconds over which rates are computed."""
SLOW = 10.0
"""Seconds between two reads of slowly changing data: spending, shares, concerns of features."""

log = structlog.get_logger("forager.api")


class Overview:
    """The newest overview, shared by all readers. `steered` counts the writes that change what waits: after one, a
    reader sees its effect within a second, and not only when the slow parts are computed again."""

    def __init__(self, app: App, vital: VitalSigns, *, steered: Callable[[], int]) -> None:
        self._app = app
        self._vital = vital
        self._steered = steered
        self._last: OverviewReport | None = None
        self._taken_at: float | None = None
        self._taking = asyncio.Lock()
        self._ended: deque[tuple[float, int, dict[UUID, int]]] = deque()
        self._today: tuple[int, int] = (0, 0)
        """The day, and the last change before it."""
        self._slow: _Slow | None = None
        self._changed: tuple[int, list[ToldChange]] = (-1, [])
        """The number of the last change when the newest ones were read, and these."""

    async def take(self) -> OverviewReport:
        """Return the overview, not older than a second. While the store does not answer, the last one is returned with
        its state."""
        async with self._taking:
            now = self._app.clock.monotonic()
            if self._last is None or self._taken_at is None or now - self._taken_at >= FRESH:
                self._last = await self._compute(now)
                self._taken_at = now
            return self._last

    async def _compute(self, now: float) -> OverviewReport:
        app, signs = self._app, await self._vital.take()
        health = self._health(signs)
        if signs.figures is None:
            return self._without_store(health)
        try:
            listed = await app.reports.jobs(hidden=app.internal, standing=app.standing, limit=MOST_RUNNING * 2)
            jobs = await app.waits.jobs([job for job in listed.items if job.finished_at is None][:MOST_RUNNING])
            changed = await self._newest_changes(signs.figures.last_change)
            before_today = await self._last_change_before(signs)
            slow = await self._slowly(now, jobs, changed)
        except StoreError:
            return self._without_store(health)
        rate, by_job = self._rates(now, jobs)
        return OverviewReport(
            health=health,
            rate=RateReport(tasks_per_second=rate, allowed=slow.allowed),
            counts=OverviewCounts(
                open_jobs=sum(signs.figures.open_jobs.values()),
                dead_letters=signs.figures.dead_letters,
                failed_share=slow.failed_share,
                changes_today=max(0, signs.figures.last_change - before_today),
            ),
            spend=slow.spend.model_copy(update={"reserved": sum(job.reserved for job in jobs)}),
            sinks=self._sinks(signs),
            running=[_running(job, by_job.get(job.id)) for job in jobs],
            attention=[*self._attention(signs, jobs), *slow.concerns],
            waiting=slow.waiting,
            changed=changed,
            freshness=[
                Freshness(
                    pipeline=name,
                    last_change_at=slow.fresh.get(name),
                    open_jobs=sum(job.pipeline == name for job in jobs),
                )
                for name in app.pipelines
                if name not in app.internal
            ],
        )

    async def _slowly(self, now: float, jobs: Sequence[JobReport], changed: Sequence[ToldChange]) -> "_Slow":
        """Return what changes slowly, computed every few seconds. A feature that fails is left out of it."""
        steered = self._steered()
        if self._slow is not None and now - self._slow.at < SLOW and steered == self._slow.steered:
            return self._slow
        app = self._app
        past = await app.series.read(timedelta(days=1))
        failed, ended = sum(past["failed"]), sum(past["completed"]) + sum(past["failed"])
        running = [job for job in jobs if job.state == "running"]
        allowed = (await app.job_now(running[0].id)).lane_rate if len(running) == 1 else None
        spent = [each for each in [await _asked(app, f.expenses) for f in app.features.values()] if each is not None]
        if app.via is not None:
            spent.append(await app.via_expenses())
        concerns = [each for f in app.features.values() for each in (await _asked(app, f.concerns) or ())]
        fresh = dict(self._slow.fresh) if self._slow else {}
        reasons = await app.reports.dead_reasons(job=None, pipeline=None, why=Why())
        of_kind = {record.kind: name for name, pipeline in app.pipelines.items() for record in pipeline.records}
        for kind, at in (await app.reports.last_change_by_kind()).items():
            if kind in of_kind:
                fresh[of_kind[kind]] = max(at, fresh.get(of_kind[kind], at))
        lanes = await app.waits.lanes((await app.reports.lanes(limit=LANES_LOOKED_AT)).items)
        self._slow = _Slow(
            at=now,
            steered=steered,
            allowed=allowed,
            failed_share=failed / ended if ended else None,
            spend=_spend(spent),
            concerns=[
                Attention(kind=each.kind, severity="waiting", title=each.title, detail=each.detail, href=each.href)
                for each in concerns
            ],
            fresh=fresh,
            waiting=_waiting(lanes),
            reasons=sorted(reasons, key=lambda each: -each.letters),
        )
        return self._slow

    def _without_store(self, health: HealthBrief) -> OverviewReport:
        """Return the last overview with the state of now, or one without figures."""
        if self._last is not None:
            return self._last.model_copy(update={"health": health})
        return OverviewReport(
            health=health,
            rate=RateReport(tasks_per_second=0.0, allowed=None),
            counts=OverviewCounts(open_jobs=0, dead_letters=0, failed_share=None, changes_today=0),
            spend=SpendReport(today_usd=None, month_usd=None, budget_usd=None, budget_month_usd=None, reserved=0),
            sinks=SinksBrief(count=0, worst=None, all=[]),
            running=[],
            attention=[],
            waiting=[],
            changed=[],
            freshness=[],
        )

    def _health(self, signs: Vital) -> HealthBrief:
        app = self._app
        trouble = app.worker.stats.trouble or app.runner_trouble
        worker: Literal["alive", "elsewhere", "stopped"]
        worker = "alive" if app.worker.alive else "elsewhere" if app.is_api_only else "stopped"
        works = signs.store == "ok" and trouble is None and worker != "stopped"
        stalled = any(sink.stalled for sink in signs.sinks if sink.name in app.roster.names)
        status: Literal["red", "degraded", "ok"]
        status = "red" if not works else "degraded" if stalled or app.refused_keys() else "ok"
        return HealthBrief(status=status, worker=worker, store=signs.store, trouble=trouble)

    async def _newest_changes(self, last: int) -> list[ToldChange]:
        """Return the newest changes, read again only if there are new ones."""
        if last != self._changed[0]:
            self._changed = (last, await told_changes(self._app, limit=MOST_CHANGES))
        return self._changed[1]

    async def _last_change_before(self, signs: Vital) -> int:
        """Return the number of the last change before this UTC day. Looked up once a day."""
        now = signs.time or datetime.now(UTC)
        midnight = round(datetime(now.year, now.month, now.day, tzinfo=UTC).timestamp() * 1000)
        if self._today[0] != midnight:
            self._today = (midnight, await self._app.reports.last_change_before(midnight))
        return self._today[1]

    def _rates(self, now: float, jobs: Sequence[JobReport]) -> tuple[float, dict[UUID, float]]:
        ended = {job.id: job.completed + job.failed + job.skipped for job in jobs}
        self._ended.append((now, sum(self._app.worker.stats.by_kind.values()), ended))
        while len(self._ended) > 2 and now - self._ended[0][0] > WINDOW:
            self._ended.popleft()
        then, total, before = self._ended[0]
        seconds = now - then
        if seconds <= 0:
            return 0.0, {}
        rate = (self._ended[-1][1] - total) / seconds
        return rate, {job: (count - before[job]) / seconds for job, count in ended.items() if job in before}

    def _sinks(self, signs: Vital) -> SinksBrief:
        known = [sink for sink in signs.sinks if sink.name in self._app.roster.names]
        behind = [sink for sink in known if sink.behind or sink.failing_since]
        worst = max(behind, key=lambda sink: (sink.failing_since is not None, sink.lag), default=None)
        error = worst.error if worst and worst.failing_since else None  # not the error before a success
        told = worst and WorstSink(name=worst.name, lag_seconds=worst.lag, error=error)
        brief = sorted(map(_sink, known), key=lambda each: (each.state != "failing", -each.lag_seconds, each.name))
        return SinksBrief(count=len(known), worst=told or None, all=brief)

    def _attention(self, signs: Vital, jobs: Sequence[JobReport]) -> list[Attention]:
        found = [
            Attention(
                kind="sink",
                severity="failed",
                title=f"{sink.name} does not deliver",
                detail=f"{sink.error.rstrip('.')}. {sink.behind + sink.waiting:,} changes wait;"
                " it is retried by itself.",
                since=sink.failing_since,
                href="/sinks",
            )
            for sink in signs.sinks
            if sink.error and sink.failing_since and sink.name in self._app.roster.names
        ]
        until = {each.name: each.until for each in (self._slow.waiting if self._slow else ()) if each.until}
        found += [
            _broken(lane, state, until.get(lane), signs.time or datetime.now(UTC))
            for lane, state in list(signs.circuits.items())[:5]
        ]
        found += [
            Attention(kind="key", severity="failed", title=f"{name} is refused", detail=reason, href="/system")
            for name, reason in self._app.refused_keys().items()
        ]
        found += [
            Attention(
                kind="job",
                severity="waiting",
                title=f"{job.pipeline} job is paused",
                detail=job.reason or "It continues when it is resumed.",
                href=f"/jobs/{job.id}",
                action=HelpfulAction(
                    title="Resume", path=f"/api/v1/jobs/{job.id}/resume", body={}, done="It runs again."
                ),
            )
            for job in jobs
            if job.state == "paused"
        ]
        if signs.figures and signs.figures.dead_letters:
            count = signs.figures.dead_letters
            found.append(_dead(count, self._slow.reasons if self._slow else ()))
        return found


def _waiting(lanes: Sequence[LaneReport]) -> list[WaitingLane]:
    """Return the lanes that send nothing now, those that wait for a person first, then the longest wait."""
    found = [
        WaitingLane(name=each.name, reason=each.waiting.reason, message=each.waiting.message, until=each.waiting.until)
        for each in lanes
        if each.waiting is not None
    ]
    found.sort(key=lambda each: (each.until is not None, -each.until.timestamp() if each.until else 0, each.name))
    return found[:MOST_WAITING]


def _sink(status: SinkStatus) -> SinkBrief:
    """Return a sink in one line. The error of a try before a success is left out."""
    fails = status.failing_since is not None
    behind = status.behind + status.waiting
    return SinkBrief(
        name=status.name,
        state="failing" if fails else "paused" if status.paused else "behind" if behind else "up_to_date",
        behind=behind,
        lag_seconds=status.lag,
        error=status.error if fails else None,
        failing_since=status.failing_since,
    )


def _broken(lane: str, state: str, probe: datetime | None, now: datetime) -> Attention:
    """Return a lane whose breaker is open or probes."""
    probes = state == "half_open"
    following = "One request tries it now" if probes else f"One request tries it {when(probe, now)}" if probe else ""
    return Attention(
        kind="lane",
        severity="waiting",
        title=f"{lane} fails too often",
        detail=f"Its breaker is {'half open' if probes else 'open'}: nothing is sent."
        f" {following or 'One request tries it when its time is over'}, by itself.",
        href=f"/lanes/{lane}",
    )


def _dead(count: int, reasons: Sequence[DeadReason]) -> Attention:
    """Return what failed permanently by its commonest reasons, with a retry where there is one reason only."""
    names = [f"{each.letters:,} × {_reason(each)}" for each in reasons[:3]]
    more = f" and {len(reasons) - 3} more reasons" if len(reasons) > 3 else ""
    retry = None
    if len(reasons) == 1:
        chosen = {name: value for name, value in (("reason", reasons[0].reason),) if value}
        retry = HelpfulAction(
            title=f"Retry {reasons[0].letters:,}",
            path="/api/v1/dead/retry",
            body={"pipeline": reasons[0].pipeline, **chosen},
            done="They run again.",
        )
    return Attention(
        kind="dead",
        severity="failed",
        title=f"{count:,} {'task' if count == 1 else 'tasks'} failed permanently",
        detail=f"{', '.join(names) or 'See the reasons'}{more}. None is tried again by itself.",
        since=max((each.last_failed_at for each in reasons), default=None),
        href="/dead",
        action=retry,
    )


def _reason(group: DeadReason) -> str:
    return (group.reason or group.error_type or "unknown").replace("_", " ")


def _running(job: JobReport, rate: float | None) -> RunningJob:
    left = job.total - job.completed - job.failed - job.skipped - job.cancelled
    pace = rate or job.lane_rate
    return RunningJob(**{**dict(job), "estimate": None}, rate=rate, seconds_left=left / pace if pace else None)


@dataclass(frozen=True, slots=True)
class _Slow:
    """The parts of an overview that change slowly, and when they were computed."""

    at: float
    steered: int
    """Writes that changed what waits, until then."""
    allowed: float | None
    failed_share: float | None
    spend: SpendReport
    concerns: list[Attention]
    fresh: dict[str, datetime]
    waiting: list[WaitingLane]
    reasons: list[DeadReason]
    """Reasons of permanently failed tasks, the most frequent first."""


async def _asked(app: App, part: Ref | None) -> Any:
    """Call a feature. Returns None if it has nothing to report, or fails."""
    if part is None:
        return None
    try:
        return await part.load()(app)
    except StoreError:
        raise
    except Exception as error:  # noqa: BLE001 - a package of others must not take the overview down
        log.warning("feature_failed", part=part.target, error=str(error))
        return None


def _spend(spent: Sequence[Expenses]) -> SpendReport:
    days = [each.cap_today for each in spent if each.cap_today is not None]
    months = [each.cap_month for each in spent if each.cap_month is not None]
    return SpendReport(
        today_usd=float(sum(each.today for each in spent)) if spent else None,
        month_usd=float(sum(each.month for each in spent)) if spent else None,
        budget_usd=float(sum(days)) if days else None,
        budget_month_usd=float(sum(months)) if months else None,
        reserved=0,
    )


class SeriesQuery(BaseModel):
    model_config = ConfigDict(extra="forbid")

    range: Literal["1h", "24h", "7d"] = Field(default="24h", description="Length of the period.")


class LatestQuery(BaseModel):
    model_config = ConfigDict(extra="forbid")

    kinds: str = Field(default="", max_length=500, description="Only these kinds, separated by commas.")
    limit: int = Field(default=100, ge=1, le=500, description="Maximum number.")


def overview_router(app: App, overview: Overview) -> Router:
    router = Router(prefix="/api/v1", tags=["operation"], route_class=JsonRoute)

    @router.get(
        "/overview",
        summary="Show everything at a glance",
        response_model=Envelope[OverviewReport],
        responses={200: example(OVERVIEW), **failures()},
    )
    async def show_overview(request: Request) -> Response:
        """Running jobs, what needs a look, sinks, spending and the newest changes, in one answer. It is computed at
        most once a second."""
        return answer(request, await overview.take())

    @router.get(
        "/series",
        summary="Show figures over time",
        response_model=Envelope[SeriesReport],
        responses={200: example(SERIES), **failures()},
    )
    async def show_series(request: Request, asked: Annotated[SeriesQuery, Query()]) -> Response:
        """Tasks, failures, cost and changes per step, oldest first."""
        span = {"1h": timedelta(hours=1), "24h": timedelta(days=1), "7d": timedelta(days=7)}[asked.range]
        return answer(request, await app.series.read(span))

    @router.get(
        "/changes/latest",
        summary="Show the newest changes",
        response_model=Envelope[list[ToldChange]],
        responses={200: example([TOLD_CHANGE]), **failures()},
    )
    async def show_latest(request: Request, asked: Annotated[LatestQuery, Query()]) -> Response:
        """Newest first, each with a title for people. `GET /api/v1/changes` reads the whole log in order."""
        kinds = tuple(filter(None, asked.kinds.split(",")))
        return answer(request, await told_changes(app, kinds=kinds, limit=asked.limit))

    @router.get(
        "/pipelines",
        summary="List pipelines",
        response_model=Envelope[list[PipelineBrief]],
        responses={200: example([PIPELINE]), **failures()},
    )
    async def list_pipelines(request: Request) -> Response:
        """Each with the JSON Schema of its job's parameters: what a form needs to start one."""
        told = [
            PipelineBrief(
                name=name,
                summary=app.features[name].summary,
                params=pipeline.params.model_json_schema(),
                paid=app.features[name].charge is not None,
                estimated=app.features[name].estimate is not None,
                secrets=[each.name for each in pipeline.secrets],
                records=[record.kind for record in pipeline.records],
            )
            for name, pipeline in app.pipelines.items()
            if name not in app.internal
        ]
        return answer(request, told)

    return router
