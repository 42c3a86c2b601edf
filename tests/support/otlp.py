"""A collector of OTLP over HTTP: what was sent to it, decoded."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest


@dataclass
class Collector:
    url: str = ""
    spans: list[Any] = field(default_factory=list)
    metrics: dict[str, Any] = field(default_factory=dict)
    lines: list[Any] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    raw: bytes = b""

    def named(self, name: str) -> list[Any]:
        return [each for each in self.spans if each.name == name]


def attributes(of: Any) -> dict[str, Any]:
    return {each.key: getattr(each.value, each.value.WhichOneof("value")) for each in of.attributes}


@asynccontextmanager
async def collector() -> AsyncIterator[Collector]:
    """Serve a collector on loopback while the block runs."""
    got = Collector()

    async def traces(request: web.Request) -> web.Response:
        body = await _body(request)
        for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
            for scope in resource.scope_spans:
                got.spans.extend(scope.spans)
        return web.Response(content_type="application/x-protobuf")

    async def metrics(request: web.Request) -> web.Response:
        body = await _body(request)
        for resource in ExportMetricsServiceRequest.FromString(body).resource_metrics:
            for scope in resource.scope_metrics:
                got.metrics.update({each.name: each for each in scope.metrics})
        return web.Response(content_type="application/x-protobuf")

    async def logs(request: web.Request) -> web.Response:
        body = await _body(request)
        for resource in ExportLogsServiceRequest.FromString(body).resource_logs:
            for scope in resource.scope_logs:
                got.lines.extend(scope.log_records)
        return web.Response(content_type="application/x-protobuf")

    async def _body(request: web.Request) -> bytes:
        got.headers.append(dict(request.headers))
        body = await request.read()
        got.raw += body
        return body

    app = web.Application(client_max_size=64 << 20)
    app.add_routes([web.post("/v1/traces", traces), web.post("/v1/metrics", metrics), web.post("/v1/logs", logs)])
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        got.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        yield got
    finally:
        await runner.cleanup()
