"""Metrics for Prometheus. Label values are bounded: route templates and state names, never a job, a key or an
address."""

from collections.abc import Iterator
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Histogram, ProcessCollector, generate_latest
from prometheus_client.core import Metric
from prometheus_client.registry import Collector
from starlette.responses import Response

from forager.api.health_snapshot import Vital, VitalSigns
from forager.api.ledger_metrics import ledger_metrics
from forager.api.worker_metrics import worker_metrics
from forager.app import App
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


class _Figures(Collector):
    """Exports the counters that the engine and the ledger keep anyway, so that there is no second set that could
    differ."""

    def __init__(self, app: App) -> None:
        self._app = app
        self.vital = Vital("unknown", None)

    def collect(self) -> Iterator[Metric]:
        yield from worker_metrics(self._app)
        yield from ledger_metrics(self.vital)
