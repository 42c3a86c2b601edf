"""Metrics for Prometheus. Label values are bounded: route templates and state names, never a job, a key or an
address."""

from collections import Counter as Tally
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Histogram, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from starlette.responses import Response

from forager.api.health_snapshot import Vital, VitalSigns
from forager.app import App
from forager.core.sink import SinkStatus
from forager.core.watch import WatchStatus
from forager.engine.stats import MOST_LANES
from forager.kit.http.routes import Router

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
METHODS = frozenset({"GET", "POST", "PUT", "DELETE", "HEAD", "OPTIONS", "PATCH"})
BUCKETS = (0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)
STREAM_SUFFIX = "/events"
TEXT: dict[str, Any] = {
    "description": "Prometheus text format.",
    "content": {"text/plain": {"schema": {"type": "string"}, "example": "forager_tasks_in_flight 162.0\n"}},
}


class Metrics:
    def __init__(self, app: App, vital: VitalSigns) -> None:
        self._vital = vital
        self._registry = CollectorRegistry()
        self._engine = _EngineFigures(app)
        self._registry.register(self._engine)
        ProcessCollector(registry=self._registry)
        self._requests = Counter(
            "forager_http_requests",
            "Requests answered, by route and status.",
            ("method", "route", "status"),
            registry=self._registry,
        )
        self._seconds = Histogram(
            "forager_http_request_seconds",
            "Response time by route, without event streams.",
            ("route",),
            buckets=BUCKETS,
            registry=self._registry,
        )

    def count(self, method: str, route: str, status: int, seconds: float) -> None:
        self._requests.labels(method if method in METHODS else "other", route, str(status)).inc()
        if not route.endswith(STREAM_SUFFIX):
            self._seconds.labels(route).observe(seconds)

    async def text(self) -> bytes:
        self._engine.vital = await self._vital.take()
        return generate_latest(self._registry)


def metrics_router(metrics: Metrics) -> Router:
    router = Router(tags=["operation"])

    @router.get("/metrics", summary="Metrics for Prometheus", response_class=Response, responses={200: TEXT})
    async def show_metrics() -> Response:
        return Response(await metrics.text(), headers={"Content-Type": CONTENT_TYPE})

    return router


class _EngineFigures(Collector):
    """Exports the counters that the engine keeps anyway, so that there is no second set that could differ."""

    def __init__(self, app: App) -> None:
        self._app = app
        self.vital = Vital("unknown", None)

    def collect(self) -> Iterator[Metric]:
        worker, stats = self._app.worker, self._app.worker.stats
        yield _counter("forager_tasks_started", "Attempts begun in this process.", stats.started)
        ended = CounterMetricFamily(
            "forager_tasks_ended", "Attempts ended, by the resulting state of the task.", labels=["state"]
        )
        for state, count in sorted(stats.ended.items()):
            ended.add_metric([state], count)
        yield ended
        yield from self._pipeline_figures()
        yield from self._lane_figures()
        failures = CounterMetricFamily(
            "forager_failures",
            "Attempts that failed or were postponed, by reason and error type.",
            labels=["reason", "error_type"],
        )
        for (reason, error_type), count in sorted(stats.failures.items()):
            failures.add_metric([reason, error_type], count)
        yield failures
        yield _counter("forager_transactions", "Transactions that settled or leased tasks.", stats.transactions)
        yield _counter("forager_fenced", "Settlements refused, because the claim was lost.", stats.fenced)
        yield _gauge("forager_tasks_in_flight", "Attempts in flight in this process.", worker.in_flight)
        yield _gauge("forager_worker_alive", "1 while this process's session is alive.", worker.alive)
        yield _gauge("forager_store_trouble", "1 while the store accepts no work.", stats.trouble is not None)
        yield _gauge("forager_store_up", "1 while the store answers reads.", self.vital.store == "ok")
        yield from self._ledger_figures()

    def _pipeline_figures(self) -> Iterable[Metric]:
        worker, stats = self._app.worker, self._app.worker.stats
        ended: Tally[tuple[str, str]] = Tally()
        for (kind, state), count in list(stats.by_kind.items()):
            ended[worker.pipeline_of(kind), state.name.lower()] += count
        attempts = CounterMetricFamily(
            "forager_pipeline_tasks_ended",
            "Attempts ended, by pipeline and the task's state after.",
            labels=["pipeline", "state"],
        )
        for labels, count in sorted(ended.items()):
            attempts.add_metric(labels, count)
        yield attempts
        spent: Tally[str] = Tally()
        for kind, cost in list(stats.spent.items()):
            spent[worker.pipeline_of(kind)] += cost
        credits_ = CounterMetricFamily(
            "forager_pipeline_cost", "What attempts cost, in the pipeline's own unit (credits).", labels=["pipeline"]
        )
        for pipeline, cost in sorted(spent.items()):
            credits_.add_metric([pipeline], cost)
        yield credits_

    def _lane_figures(self) -> Iterable[Metric]:
        worker = self._app.worker
        requests = CounterMetricFamily("forager_lane_requests", "Requests answered, by lane.", labels=["lane"])
        limited = CounterMetricFamily("forager_lane_rate_limited", "Answers with 429, by lane.", labels=["lane"])
        for lane, counts in sorted(worker.stats.lanes.by_name.items()):
            requests.add_metric([lane], counts.requests)
            limited.add_metric([lane], counts.rate_limited)
        yield requests
        yield limited
        open_ = GaugeMetricFamily(
            "forager_lane_breaker_open",
            "1 while the breaker of a lane is open, 0.5 while it probes. Closed ones are not listed.",
            labels=["lane"],
        )
        for lane, state in sorted(worker.breakers().items())[:MOST_LANES]:
            open_.add_metric([lane], 1.0 if state == "open" else 0.5)
        yield open_

    def _ledger_figures(self) -> Iterable[Metric]:
        figures = self.vital.figures
        if figures is None:
            return
        jobs = GaugeMetricFamily("forager_jobs_open", "Jobs that have not ended, by state.", labels=["state"])
        for state, count in sorted(figures.open_jobs.items()):
            jobs.add_metric([state], count)
        yield jobs
        yield _gauge("forager_tasks_queued", "Queued tasks of open jobs.", figures.queued)
        yield _gauge("forager_dead_letters", "Failed tasks, counted to 1,000.", figures.dead_letters)
        yield _gauge("forager_last_change", "Number of the newest change.", figures.last_change)
        yield from _sink_figures(self.vital.sinks)
        yield from _watch_figures(self.vital.watches)
        yield from (_gauge(each.name, each.about, each.value) for each in self.vital.features)


def _sink_figures(sinks: Sequence[SinkStatus]) -> Iterable[Metric]:
    """Sink metrics as the ledger has them, so that every process reports the same values, whichever one delivers."""
    for name, about, value in _SINK_GAUGES:
        gauge = GaugeMetricFamily(f"forager_sink_{name}", about, labels=["sink"])
        for sink in sinks:
            gauge.add_metric([sink.name], value(sink))
        yield gauge
    delivered = CounterMetricFamily("forager_sink_delivered", "Changes that a sink has taken.", labels=["sink"])
    for sink in sinks:
        delivered.add_metric([sink.name], sink.delivered)
    yield delivered


_SINK_GAUGES: tuple[tuple[str, str, Callable[[SinkStatus], float]], ...] = (
    ("behind", "Changes that a sink has not passed.", lambda sink: sink.behind),
    ("lag_seconds", "Age of the oldest change that a sink has not passed.", lambda sink: sink.lag),
    ("rate", "Changes per second that a sink took, over about a minute.", lambda sink: sink.rate),
    ("failing", "1 while a sink cannot be reached.", lambda sink: float(sink.failures > 0)),
    ("paused", "1 while a sink is paused.", lambda sink: float(sink.paused)),
    ("set_aside", "Changes that a sink refused and that wait for a decision.", lambda sink: sink.set_aside),
)


def _watch_figures(watches: Sequence[WatchStatus]) -> Iterable[Metric]:
    for name, about, value in _WATCH_GAUGES:
        gauge = GaugeMetricFamily(f"forager_watch_{name}", about, labels=["watch"])
        for watch in watches:
            gauge.add_metric([watch.name], value(watch))
        yield gauge
    dispatched = CounterMetricFamily("forager_watch_dispatched", "Records turned into tasks.", labels=["watch"])
    for watch in watches:
        dispatched.add_metric([watch.name], watch.dispatched)
    yield dispatched


_WATCH_GAUGES: tuple[tuple[str, str, Callable[[WatchStatus], float]], ...] = (
    ("due", "Records whose time has come, counted to 10,000.", lambda watch: watch.due),
    ("late_seconds", "Seconds since the oldest of them came due.", lambda watch: watch.late),
    ("paused", "1 while a watch is paused.", lambda watch: float(watch.paused)),
    ("failing", "1 while the rule of a watch fails for some records.", lambda watch: float(watch.error is not None)),
)


def _counter(name: str, about: str, value: float) -> Metric:
    return CounterMetricFamily(name, about, value=value)


def _gauge(name: str, about: str, value: float) -> Metric:
    return GaugeMetricFamily(name, about, value=value)
