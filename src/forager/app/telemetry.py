"""Traces, metrics and log lines for OpenTelemetry, sent by OTLP over HTTP (extra `otel`).

Spans are built after the fact, from times that the engine has noted, in a task beside the work: an attempt waits for
nothing here. What cannot be sent is dropped after the exporter's own retries. It must never send a secret: spans have
host names instead of URLs, and log lines arrive here after their secrets were removed.
"""

import asyncio
import contextlib
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any
from uuid import UUID

import structlog

from forager import __version__
from forager.core.change import Change
from forager.core.database import Database
from forager.core.errors import Rejected, StoreError
from forager.core.ids import task_uuid
from forager.core.ledger import JobNews, Lease, Settlement
from forager.core.states import TaskState
from forager.core.tracing import AttemptTrace, Attributes, is_sampled, job_trace, span_id, task_trace
from forager.settings import Settings

if TYPE_CHECKING:
    from opentelemetry.sdk.metrics.export import Metric as OtelMetric
    from opentelemetry.sdk.resources import Resource

log = structlog.get_logger("forager.telemetry")

MOST_OPEN = 20_000
"""Attempts whose traces are held until they are settled."""
MOST_JOBS = 10_000
GATHER = 0.2
MISSING = "FORAGER_OTEL_ENDPOINT needs the extra otel: pip install 'forager-data[otel]'"
_JOBS = "SELECT id, public_id, pipeline, state, created_at, finished_at FROM jobs WHERE id IN ({})"
_LEVELS = {"debug": 5, "info": 9, "warning": 13, "error": 17, "critical": 21}
_MS = 1_000_000


def now_ns() -> int:
    return time.time_ns()


class Telemetry:
    """Implements `core.tracing.Tracer`, and sends metrics and log lines by the same exporter."""

    def __init__(self, settings: Settings, database: Database) -> None:
        from opentelemetry.sdk.resources import Resource

        self._share = settings.otel_sample
        self._database = database
        self._open: OrderedDict[tuple[int, int], AttemptTrace] = OrderedDict()
        self._ended: list[tuple[Settlement, AttemptTrace, int]] = []
        self._deliveries: list[tuple[UUID, str, int, int, int, str | None]] = []
        self._news: list[tuple[JobNews, int]] = []
        self._arrived = asyncio.Event()
        self._jobs: OrderedDict[int, Mapping[str, Any]] = OrderedDict()
        self._resource: Resource = Resource.create({"service.name": "forager", "service.version": __version__})
        self._sender = _Sender(settings, self._resource)
        self.families: Callable[[], Iterable[Any]] = tuple
        """Returns this process's metrics, as Prometheus gets them."""
        self._every = settings.otel_interval_seconds

    # ── the port ──

    def now(self) -> int:
        return now_ns()

    def begin(self, lease: Lease, pipeline: str) -> AttemptTrace | None:
        if not is_sampled(f"{lease.job_id}/{lease.task_id}", self._share):
            return None
        trace = AttemptTrace(now_ns, pipeline)
        self._open[lease.task_id, lease.claim] = trace
        if len(self._open) > MOST_OPEN:
            self._open.popitem(last=False)
        return trace

    def settled(self, settled: Sequence[Settlement]) -> None:
        now = now_ns()
        for each in settled:
            trace = self._open.pop((each.lease.task_id, each.lease.claim), None)
            if trace is not None:
                self._ended.append((each, trace, now))
                self._arrived.set()

    def delivered(self, sink: str, batch: Sequence[Change], began: int, error: str | None) -> None:
        now = now_ns()
        counts: dict[UUID, int] = {}
        for change in batch:
            if change.job is not None:
                counts[change.job] = counts.get(change.job, 0) + 1
        for job, count in counts.items():
            if is_sampled(str(job), self._share):
                self._deliveries.append((job, sink, count, began, now, error))
                self._arrived.set()

    def jobs_changed(self, news: Sequence[JobNews]) -> None:
        told = [(each, now_ns()) for each in news if each.op in ("created", "ended")]
        if told:
            self._news += told
            self._arrived.set()

    # ── the loop ──

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Send while the block runs; at its end, what is left."""
        from forager.logging import watch_lines

        unwatch = watch_lines(self._sender.line) if self._sender.logs is not None else lambda: None
        loops = [asyncio.create_task(self._send_for_ever()), asyncio.create_task(self._measure_for_ever())]
        try:
            yield
        finally:
            unwatch()
            for loop in loops:
                loop.cancel()
            await asyncio.gather(*loops, return_exceptions=True)
            with contextlib.suppress(StoreError):
                await self._turn()
            await asyncio.to_thread(self._finish)

    def _finish(self) -> None:
        self._sender.metrics(self.families())
        self._sender.close()

    async def _send_for_ever(self) -> None:
        while True:
            await self._arrived.wait()
            await asyncio.sleep(GATHER)  # one read of the jobs for all that end together
            self._arrived.clear()
            try:
                await self._turn()
            except Exception:  # a trace that cannot be built must not end the loop
                log.exception("traces_failed")

    async def _measure_for_ever(self) -> None:
        while True:
            await asyncio.sleep(self._every)
            await asyncio.to_thread(self._sender.metrics, list(self.families()))

    async def _turn(self) -> None:
        ended, self._ended = self._ended, []
        deliveries, self._deliveries = self._deliveries, []
        news, self._news = self._news, []
        fresh = {each.job for each, _ in news}
        await self._read({each.lease.job_id for each, _, _ in ended} - self._jobs.keys() | fresh)
        for settlement, trace, at in ended:
            if (job := self._jobs.get(settlement.lease.job_id)) is not None:
                self._task(job, settlement, trace, at)
        for one, at in news:
            if (job := self._jobs.get(one.job)) is not None:
                self._job(job, one.op, at)
        for public, sink, count, began, until, error in deliveries:
            told: Attributes = {"forager.sink": sink, "forager.changes": count}
            self._sender.span(
                "deliver", job_trace(public), span_id(public, sink, began), span_id(public, "job"), began, until, told,
                error=error,
            )  # fmt: skip

    async def _read(self, numbers: set[int]) -> None:
        wanted = sorted(numbers)
        for first in range(0, len(wanted), 100):
            some = {f"j{index}": number for index, number in enumerate(wanted[first : first + 100])}
            rows = await self._database.fetch(_JOBS.format(", ".join(f":{name}" for name in some)), some)
            self._jobs.update((row["id"], row) for row in rows)
        while len(self._jobs) > MOST_JOBS:
            self._jobs.popitem(last=False)

    def _job(self, job: Mapping[str, Any], op: str, at: int) -> None:
        public, created = UUID(job["public_id"]), job["created_at"] * _MS
        if not is_sampled(str(public), self._share):
            return
        trace, root = job_trace(public), span_id(public, "job")
        told: Attributes = {"forager.job": str(public), "forager.pipeline": job["pipeline"]}
        if op == "created":
            self._sender.span("submit", trace, span_id(public, "submit"), root, created, max(created, at), told)
        elif job["finished_at"] is not None:
            told["forager.state"] = str(job["state"])
            error = "failed" if job["state"] == "failed" else None
            name = f"job {job['pipeline']}"
            self._sender.span(
                name, trace, root, None, created, max(created, job["finished_at"] * _MS), told, error=error
            )

    def _task(self, job: Mapping[str, Any], settlement: Settlement, trace: AttemptTrace, settled: int) -> None:
        """Send the spans of one attempt. A task that has ended gets its root span."""
        lease, public = settlement.lease, UUID(job["public_id"])
        name = task_uuid(lease.job_id, lease.task_id)
        number, root = task_trace(public, lease.task_id), span_id(name, "task")
        link = (job_trace(public), span_id(public, "job"))
        told: Attributes = {
            "forager.task": str(name),
            "forager.kind": lease.kind,
            "forager.job": str(public),
            "forager.pipeline": trace.pipeline,
        }
        is_first = lease.attempt <= 1 and not lease.waited
        created = job["created_at"] * _MS
        if is_first and created < trace.began:
            queued: Attributes = {"forager.reason": "queued", "forager.since": "job created"}
            self._sender.span("wait", number, span_id(name, "queued"), root, created, trace.began, queued)
        mine = span_id(name, lease.claim)
        state = settlement.state.name.lower()
        more: Attributes = {
            **told,
            "forager.attempt": lease.attempt,
            "forager.state": state,
            "forager.cost": settlement.cost,
        }
        failed = settlement.reason or "failed" if settlement.state is TaskState.FAILED else None
        if settlement.reason:
            more["forager.reason"] = str(settlement.reason)
        if settlement.records:
            more["forager.records"] = len(settlement.records)
        ended = trace.ended or settled
        self._sender.span("attempt", number, mine, root, trace.began, settled, more, error=failed, link=link)
        for index, (what, began, until, about) in enumerate(trace.spans):
            self._sender.span(what, number, span_id(name, lease.claim, index), mine, began, until, about)
        self._sender.span("settle", number, span_id(name, lease.claim, "settle"), mine, ended, settled, {})
        if settlement.state is TaskState.WAITING:
            until = settled + round(settlement.wait * 1e9)
            why: Attributes = {"forager.reason": str(settlement.reason or settlement.error or "retry")}
            self._sender.span("wait", number, span_id(name, lease.claim, "wait"), root, settled, until, why)
        elif settlement.state in (TaskState.COMPLETED, TaskState.FAILED, TaskState.SKIPPED):
            began = created if is_first and created < trace.began else trace.began
            self._sender.span(f"task {lease.kind}", number, root, None, began, settled, told, error=failed, link=link)


class _Sender:
    """The only part that uses OpenTelemetry's classes. Its exporters run in threads of their own."""

    def __init__(self, settings: Settings, resource: "Resource") -> None:
        from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter
        from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk._logs.export import BatchLogRecordProcessor
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
        from opentelemetry.sdk.util.instrumentation import InstrumentationScope

        base = str(settings.otel_endpoint).rstrip("/")
        given = "" if settings.otel_headers is None else settings.otel_headers.get_secret_value()
        pairs = (each.partition("=") for each in given.split(",") if each.strip())
        headers = {name.strip(): value.strip() for name, _, value in pairs}
        wanted = settings.otel_signals
        self._resource, self._scope = resource, InstrumentationScope("forager", __version__)
        self._started = now_ns()
        self.traces = self.logs = self._metrics = None
        if "traces" in wanted:
            self.traces = BatchSpanProcessor(OTLPSpanExporter(endpoint=f"{base}/v1/traces", headers=headers))
        if "metrics" in wanted:
            self._metrics = OTLPMetricExporter(endpoint=f"{base}/v1/metrics", headers=headers)
        if "logs" in wanted:
            self.logs = BatchLogRecordProcessor(OTLPLogExporter(endpoint=f"{base}/v1/logs", headers=headers))

    def span(
        self,
        name: str,
        trace: int,
        own: int,
        parent: int | None,
        began: int,
        ended: int,
        attributes: Attributes,
        *,
        error: str | None = None,
        link: tuple[int, int] | None = None,
    ) -> None:
        from opentelemetry.sdk.trace import ReadableSpan
        from opentelemetry.trace import Link, Status, StatusCode

        if self.traces is None:
            return
        made: ReadableSpan = ReadableSpan(
            name,
            context=_context(trace, own),
            parent=None if parent is None else _context(trace, parent),
            resource=self._resource,
            attributes=attributes,
            links=() if link is None else (Link(_context(*link)),),
            status=Status(StatusCode.UNSET) if error is None else Status(StatusCode.ERROR, error),
            start_time=began,
            end_time=max(began, ended),
            instrumentation_scope=self._scope,
        )
        self.traces.on_end(made)

    def line(self, event: Mapping[str, Any]) -> None:
        """Send a line of the log. Its secrets were removed before."""
        from opentelemetry._logs import LogRecord, SeverityNumber
        from opentelemetry.sdk._logs import ReadWriteLogRecord
        from opentelemetry.trace import TraceFlags

        name = str(event.get("logger", ""))
        if self.logs is None or name.startswith(("opentelemetry", "urllib3", "requests")):
            return
        level = str(event.get("level", "info"))
        job = event.get("job_id")
        trace = UUID(job).int if isinstance(job, str) and len(job) == 36 else None
        plain = {key: value for key, value in event.items() if isinstance(value, str | int | float | bool)}
        body = plain.pop("event", "")
        record = LogRecord(
            timestamp=now_ns(),
            observed_timestamp=now_ns(),
            trace_id=trace,
            span_id=None if trace is None else span_id(UUID(int=trace), "job"),
            trace_flags=None if trace is None else TraceFlags(1),
            severity_text=level.upper(),
            severity_number=SeverityNumber(_LEVELS.get(level, 9)),
            body=str(body),
            attributes=plain,
        )
        self.logs.on_emit(ReadWriteLogRecord(record, self._resource, self._scope))

    def metrics(self, families: Iterable[Any]) -> None:
        """Send the metrics as they are now. Blocks."""
        from opentelemetry.sdk.metrics.export import MetricsData, ResourceMetrics, ScopeMetrics

        if self._metrics is None:
            return
        made = [metric for family in families if (metric := _metric(family, self._started)) is not None]
        if made:
            scope = ScopeMetrics(self._scope, made, "")
            self._metrics.export(MetricsData([ResourceMetrics(self._resource, [scope], "")]))

    def close(self) -> None:
        for each in (self.traces, self.logs, self._metrics):
            if each is not None:
                each.shutdown()


def _context(trace: int, span: int) -> Any:
    from opentelemetry.trace import SpanContext, TraceFlags

    return SpanContext(trace, span, is_remote=False, trace_flags=TraceFlags(TraceFlags.SAMPLED))


def _metric(family: Any, started: int) -> "OtelMetric | None":
    """Return a family of Prometheus metrics in OpenTelemetry's form."""
    from opentelemetry.sdk.metrics.export import (
        AggregationTemporality,
        Gauge,
        Histogram,
        HistogramDataPoint,
        Metric,
        NumberDataPoint,
        Sum,
    )

    now = now_ns()
    total = AggregationTemporality.CUMULATIVE
    if family.type == "histogram":
        groups: dict[tuple[tuple[str, str], ...], list[Any]] = {}
        for sample in family.samples:
            labels = tuple(sorted((key, value) for key, value in sample.labels.items() if key != "le"))
            groups.setdefault(labels, []).append(sample)
        histograms = []
        for labels, samples in groups.items():
            buckets = [each for each in samples if each.name.endswith("_bucket")]
            so_far = [int(each.value) for each in buckets]
            counts = [count - before for count, before in zip(so_far, [0, *so_far], strict=False)]
            bounds = [float(each.labels["le"]) for each in buckets if each.labels["le"] != "+Inf"]
            whole = next((each.value for each in samples if each.name.endswith("_sum")), 0.0)
            count = so_far[-1] if so_far else 0
            histograms.append(HistogramDataPoint(dict(labels), started, now, count, whole, counts, bounds, 0.0, 0.0))
        return Metric(family.name, family.documentation, "", Histogram(histograms, total)) if histograms else None
    points = [
        NumberDataPoint(dict(each.labels), started, now, float(each.value))
        for each in family.samples
        if not each.name.endswith("_created")
    ]
    if not points:
        return None
    data = Sum(points, total, True) if family.type == "counter" else Gauge(points)
    return Metric(family.name, family.documentation, "", data)


def open_telemetry(settings: Settings, database: Database) -> Telemetry:
    """Return what sends traces, metrics and lines. Raises `Rejected` without the extra."""
    try:
        return Telemetry(settings, database)
    except ImportError as error:
        raise Rejected(f"{MISSING} ({error}).") from error
