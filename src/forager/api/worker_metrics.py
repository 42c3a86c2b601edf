"""Metrics of this process: attempts, lanes, settlement and browsers since its start. Add them up over all processes."""

from collections import Counter as Tally
from collections.abc import Iterable, Mapping
from typing import Any

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric

from forager.app import App
from forager.engine.stats import MOST_LANES, Durations
from forager.engine.work import Worker
from forager.fetch.browser.pool import PoolStats


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
        ("cost", "What attempts cost, in the pipeline's own unit (credits).", stats.spent),
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
