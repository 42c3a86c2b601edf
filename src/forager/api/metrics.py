"""Metrics for Prometheus. Label values are bounded: route templates and state names, never a job, a key or an
address."""

from collections import Counter as Tally
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, TypeVar

from prometheus_client import CollectorRegistry, Counter, Histogram, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector
from starlette.responses import Response

from forager.api.health import Vital, VitalSigns
from forager.app.application import App
from forager.core.recheck import RecheckStatus
from forager.core.sink import SinkStatus
from forager.engine.work.stats import MOST_LANES, Durations
from forager.engine.work.worker import Worker
from forager.fetch.browser.pool import PoolStats
from forager.ledger.reports import PipelineLoad, QueueLoad
from forager.sdk.http.routes import Router

# Metrics of this process: attempts, lanes, settlement and browsers since its start. Add them up over all processes.


def worker_metrics(app: App) -> Iterable[Metric]:
    """Yield the metrics of this process's worker and browsers."""
    worker, stats = app.worker, app.worker.stats
    yield counter("forager_tasks_started", "Attempts begun in this process.", stats.started)
    yield _labelled("forager_tasks_ended", "Attempts ended, by the resulting state of the task.", "state", stats.ended)
    yield from _by_pipeline(worker)
    yield from _by_lane(worker)
    failures = CounterMetricFamily(
        "forager_failures",
        "Attempts that failed or were postponed, by reason and error type.",
        labels=["reason", "error_type"],
    )
    for (reason, error_type), count in sorted(stats.failures.items()):
        failures.add_metric([reason, error_type], count)
    yield failures
    yield counter("forager_transactions", "Transactions that settled or leased tasks.", stats.transactions)
    yield _histogram("forager_settle_seconds", "Duration of transactions that settled or leased tasks.", stats.settling)
    yield counter("forager_fenced", "Settlements refused, because the claim was lost.", stats.fenced)
    yield counter("forager_sessions_lost", "Sessions of this process that expired before a heartbeat.", stats.lost)
    yield gauge("forager_tasks_in_flight", "Attempts in flight in this process.", worker.in_flight)
    yield gauge("forager_worker_alive", "1 while this process's session is alive.", worker.alive)
    yield gauge("forager_store_trouble", "1 while the store accepts no work.", stats.trouble is not None)
    yield _labelled("forager_shifts_sent", "Shifts sent to Celery workers, by queue.", "queue", stats.shifts_sent)
    lag = GaugeMetricFamily(
        "forager_consumer_lag",
        "Messages that are not done with, of the partitions that this process reads from Kafka, by queue.",
        labels=["queue"],
    )
    for queue, behind in sorted(stats.consumer_lag().items()):
        lag.add_metric([queue], behind)
    yield lag
    yield from _browsers(app.browsers.stats())


def counter(name: str, about: str, value: float) -> Metric:
    """Return a counter without labels."""
    return CounterMetricFamily(name, about, value=value)


def gauge(name: str, about: str, value: float) -> Metric:
    """Return a gauge without labels."""
    return GaugeMetricFamily(name, about, value=value)


def _by_pipeline(worker: Worker) -> Iterable[Metric]:
    stats = worker.stats
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
    for name, about, by_kind in (
        ("cost", "Cost of attempts, in the pipeline's own unit (credits).", stats.spent),
        ("retries", "Failed attempts whose task is retried later.", stats.retried),
    ):
        total: Tally[str] = Tally()
        for kind, amount in list(by_kind.items()):
            total[worker.pipeline_of(kind)] += amount
        yield _labelled(f"forager_pipeline_{name}", about, "pipeline", total)


def _by_lane(worker: Worker) -> Iterable[Metric]:
    requests = CounterMetricFamily("forager_lane_requests", "Requests answered, by lane.", labels=["lane"])
    limited = CounterMetricFamily("forager_lane_rate_limited", "Answers with 429, by lane.", labels=["lane"])
    for lane, counts in sorted(worker.stats.lanes.by_name.items()):
        requests.add_metric([lane], counts.requests)
        limited.add_metric([lane], counts.rate_limited)
    yield requests
    yield limited
    yield gauge("forager_lanes_owned", "Lanes that this process owns.", worker.lanes_owned)
    open_ = GaugeMetricFamily(
        "forager_lane_breaker_open",
        "1 while the breaker of a lane is open, 0.5 while it probes. Closed ones are not listed.",
        labels=["lane"],
    )
    for lane, state in sorted(worker.breakers().items())[:MOST_LANES]:
        open_.add_metric([lane], 1.0 if state == "open" else 0.5)
    yield open_


def _browsers(pool: PoolStats) -> Iterable[Metric]:
    browsers = GaugeMetricFamily("forager_browsers", "Browsers of this process, by state.", labels=["state"])
    browsers.add_metric(["in_use"], pool.in_use)
    browsers.add_metric(["idle"], pool.available)
    yield browsers
    yield gauge("forager_browsers_launchable", "Further browsers that could be started.", pool.launchable)
    yield gauge("forager_browser_tasks_waiting", "Tasks that wait for a browser.", pool.waiting)
    yield counter("forager_browser_pages", "Pages that browsers have visited.", pool.pages_processed)
    yield counter(
        "forager_browser_recycled", "Browsers replaced after their page or memory limit.", pool.recycled_count
    )
    yield counter("forager_browser_crashed", "Browsers that ended by themselves.", pool.crashed_count)


def _labelled(name: str, about: str, label: str, values: Mapping[str, Any]) -> Metric:
    family = CounterMetricFamily(name, about, labels=[label])
    for value, count in sorted(values.items()):
        family.add_metric([value], count)
    return family


def _histogram(name: str, about: str, durations: Durations) -> Metric:
    buckets = [(bound, float(count)) for bound, count in durations.cumulative()]
    return HistogramMetricFamily(name, about, buckets=buckets, sum_value=durations.total)


# Metrics of the whole installation, as the ledger has them: every process reports the same values, so take their
# maximum instead of adding them up.


T = TypeVar("T", SinkStatus, RecheckStatus)
Gauges = tuple[tuple[str, str, Callable[[T], float]], ...]
"""Name, description and value of each gauge."""


def ledger_metrics(vital: Vital) -> Iterable[Metric]:
    """Yield the metrics of the ledger; only `forager_store_up` while it does not answer."""
    yield gauge("forager_store_up", "1 while the store answers reads.", vital.store == "ok")
    figures = vital.figures
    if figures is None:
        return
    jobs = GaugeMetricFamily("forager_jobs_open", "Jobs that have not ended, by state.", labels=["state"])
    for state, count in sorted(figures.open_jobs.items()):
        jobs.add_metric([state], count)
    yield jobs
    yield gauge("forager_tasks_queued", "Queued tasks of open jobs.", figures.queued)
    yield gauge("forager_dead_letters", "Failed tasks, counted to 1,000.", figures.dead_letters)
    yield gauge("forager_last_change", "Number of the newest change.", figures.last_change)
    yield gauge("forager_sessions", "Worker processes whose session has not ended.", figures.sessions)
    yield from _pipeline_metrics(figures.pipelines, vital.time)
    yield from _queue_metrics(vital.queues, vital.time)
    about = "Living sessions that serve a queue (a running Celery shift is one); `all`: those that serve every queue."
    yield _by_queue("forager_queue_sessions", about, vital.sessions)
    yield _by_queue("forager_shifts_running", "Celery shifts that run, by queue.", vital.shifts)
    yield from _sink_metrics(vital.sinks, vital.time)
    yield from _recheck_metrics(vital.rechecks)
    yield from (gauge(each.name, each.about, each.value) for each in vital.features)


def _pipeline_metrics(pipelines: Mapping[str, PipelineLoad], now: datetime | None) -> Iterable[Metric]:
    queued = GaugeMetricFamily("forager_pipeline_queued", "Queued tasks of open jobs.", labels=["pipeline"])
    running = GaugeMetricFamily("forager_pipeline_running", "Tasks in flight in all processes.", labels=["pipeline"])
    waiting = GaugeMetricFamily(
        "forager_pipeline_waiting_seconds",
        "Age of the oldest job that waits for its first attempt; 0 if none waits.",
        labels=["pipeline"],
    )
    for pipeline, load in sorted(pipelines.items()):
        queued.add_metric([pipeline], load.queued)
        running.add_metric([pipeline], load.running)
        since = load.waiting_since
        age = 0.0 if since is None or now is None else (now - since).total_seconds()
        waiting.add_metric([pipeline], max(0.0, age))
    yield from (queued, running, waiting)


def _by_queue(name: str, about: str, values: Mapping[str, int]) -> Metric:
    family = GaugeMetricFamily(name, about, labels=["queue"])
    for queue, value in sorted(values.items()):
        family.add_metric([queue], value)
    return family


def _queue_metrics(queues: Mapping[str, QueueLoad], now: datetime | None) -> Iterable[Metric]:
    lanes = GaugeMetricFamily(
        "forager_queue_lanes_waiting", "Lanes that have work and no owner, counted to 10,000.", labels=["queue"]
    )
    waiting = GaugeMetricFamily(
        "forager_queue_waiting_seconds",
        "Seconds for which the first of these lanes has waited for an owner.",
        labels=["queue"],
    )
    for queue, load in sorted(queues.items()):
        lanes.add_metric([queue], load.lanes)
        waiting.add_metric([queue], 0.0 if now is None else max(0.0, (now - load.since).total_seconds()))
    yield from (lanes, waiting)


def _gauges(of: str, gauges: Gauges[T], statuses: Sequence[T]) -> Iterable[Metric]:
    """Yield one gauge for each entry of a table, with a value for each status, by its name."""
    for name, about, value in gauges:
        gauge = GaugeMetricFamily(f"forager_{of}_{name}", about, labels=[of])
        for status in statuses:
            gauge.add_metric([status.name], value(status))
        yield gauge


def _sink_metrics(sinks: Sequence[SinkStatus], now: datetime | None) -> Iterable[Metric]:
    """Sink metrics as the ledger has them, so that every process reports the same values, whichever one delivers."""
    yield from _gauges("sink", _SINK_GAUGES, sinks)
    failing = GaugeMetricFamily(
        "forager_sink_failing_seconds",
        "Seconds for which a sink has failed without a success; 0 if it works.",
        labels=["sink"],
    )
    for sink in sinks:
        since = sink.failing_since
        failing.add_metric(
            [sink.name], 0.0 if since is None or now is None else max(0.0, (now - since).total_seconds())
        )
    yield failing
    about = "Changes that a sink has taken; of webhooks, those that a receiver accepted."
    delivered = CounterMetricFamily("forager_sink_delivered", about, labels=["sink"])
    for sink in sinks:
        delivered.add_metric([sink.name], sink.delivered)
    yield delivered


_SINK_GAUGES: Gauges[SinkStatus] = (
    ("behind", "Changes that a sink has not passed.", lambda sink: sink.behind),
    ("lag_seconds", "Age of the oldest change that a sink has not passed.", lambda sink: sink.lag),
    ("rate", "Changes per second that a sink took, over about a minute.", lambda sink: sink.rate),
    ("waiting", "Messages that webhook receivers have not accepted yet.", lambda sink: sink.waiting),
    (
        "failing",
        "1 while a sink or the receiver of its webhooks accepts nothing.",
        lambda sink: float(sink.failures > 0),
    ),
    (
        "stalled",
        "1 if a sink fails and has delivered nothing for 5 minutes, or is full for a day.",
        lambda sink: float(sink.stalled),
    ),
    ("paused", "1 while a sink is paused.", lambda sink: float(sink.paused)),
    ("set_aside", "Changes that a sink refused, waiting for a decision.", lambda sink: sink.set_aside),
)


def _recheck_metrics(rechecks: Sequence[RecheckStatus]) -> Iterable[Metric]:
    yield from _gauges("recheck", _RECHECK_GAUGES, rechecks)
    dispatched = CounterMetricFamily("forager_recheck_dispatched", "Records turned into tasks.", labels=["recheck"])
    for recheck in rechecks:
        dispatched.add_metric([recheck.name], recheck.dispatched)
    yield dispatched


_RECHECK_GAUGES: Gauges[RecheckStatus] = (
    ("due", "Records whose time has come, counted to 10,000.", lambda recheck: recheck.due),
    ("late_seconds", "Seconds since the oldest of them came due.", lambda recheck: recheck.late),
    ("paused", "1 while a recheck is paused.", lambda recheck: float(recheck.paused)),
    (
        "failing",
        "1 while the rule of a recheck fails for some records.",
        lambda recheck: float(recheck.error is not None),
    ),
)


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
        self._engine = _Figures(app)
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
        self._cached = Counter(
            "forager_http_cache",
            "Requests of lists, records and searches: hit, unchanged (304) or miss.",
            ("outcome",),
            registry=self._registry,
        )
        if app.telemetry is not None:
            app.telemetry.families = lambda: [*worker_metrics(app), *self._requests.collect(), *self._seconds.collect()]

    def count(self, method: str, route: str, status: int, seconds: float) -> None:
        self._requests.labels(method if method in METHODS else "other", route, str(status)).inc()
        if not route.endswith(STREAM_SUFFIX):
            self._seconds.labels(route).observe(seconds)

    def cached(self, outcome: str) -> None:
        self._cached.labels(outcome).inc()

    async def text(self) -> bytes:
        self._engine.vital = await self._vital.take()
        return generate_latest(self._registry)


def metrics_router(metrics: Metrics) -> Router:
    router = Router(tags=["operation"])

    @router.get("/metrics", summary="Metrics for Prometheus", response_class=Response, responses={200: TEXT})
    async def show_metrics() -> Response:
        return Response(await metrics.text(), headers={"Content-Type": CONTENT_TYPE})

    return router


class _Figures(Collector):
    """Exports the counters that the engine and the ledger keep anyway, so that there is no second set that could
    differ."""

    def __init__(self, app: App) -> None:
        self._app = app
        self.vital = Vital("unknown", None)

    def collect(self) -> Iterator[Metric]:
        yield from worker_metrics(self._app)
        yield from ledger_metrics(self.vital)
