"""Metrics of the whole installation, as the ledger has them: every process reports the same values, so take their
maximum instead of adding them up."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import TypeVar

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from forager.api.health_snapshot import Vital
from forager.api.worker_metrics import gauge
from forager.core.sink import SinkStatus
from forager.core.watch import WatchStatus
from forager.ledger.reports import PipelineLoad, QueueLoad

T = TypeVar("T", SinkStatus, WatchStatus)
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
    yield from _watch_metrics(vital.watches)
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
        "forager_queue_waiting_seconds", "How long the first of these lanes has waited for an owner.", labels=["queue"]
    )
    for queue, load in sorted(queues.items()):
        lanes.add_metric([queue], load.lanes)
        waiting.add_metric([queue], 0.0 if now is None else max(0.0, (now - load.since).total_seconds()))
    yield from (lanes, waiting)


def _gauges(of: str, gauges: Gauges[T], statuses: Sequence[T]) -> Iterable[Metric]:
    """One gauge for each entry of a table, with a value for each status, by its name."""
    for name, about, value in gauges:
        gauge = GaugeMetricFamily(f"forager_{of}_{name}", about, labels=[of])
        for status in statuses:
            gauge.add_metric([status.name], value(status))
        yield gauge


def _sink_metrics(sinks: Sequence[SinkStatus], now: datetime | None) -> Iterable[Metric]:
    """Sink metrics as the ledger has them, so that every process reports the same values, whichever one delivers."""
    yield from _gauges("sink", _SINK_GAUGES, sinks)
    failing = GaugeMetricFamily(
        "forager_sink_failing_seconds", "How long a sink has failed without a success; 0 if it works.", labels=["sink"]
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
    ("set_aside", "Changes that a sink refused and that wait for a decision.", lambda sink: sink.set_aside),
)


def _watch_metrics(watches: Sequence[WatchStatus]) -> Iterable[Metric]:
    yield from _gauges("watch", _WATCH_GAUGES, watches)
    dispatched = CounterMetricFamily("forager_watch_dispatched", "Records turned into tasks.", labels=["watch"])
    for watch in watches:
        dispatched.add_metric([watch.name], watch.dispatched)
    yield dispatched


_WATCH_GAUGES: Gauges[WatchStatus] = (
    ("due", "Records whose time has come, counted to 10,000.", lambda watch: watch.due),
    ("late_seconds", "Seconds since the oldest of them came due.", lambda watch: watch.late),
    ("paused", "1 while a watch is paused.", lambda watch: float(watch.paused)),
    ("failing", "1 while the rule of a watch fails for some records.", lambda watch: float(watch.error is not None)),
)
