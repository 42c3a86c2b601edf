"""OpenTelemetry: traces of tasks linked to their job, metrics and log lines, at a collector of the test's own."""

import asyncio
import io
import sys
from pathlib import Path
from uuid import UUID

import pytest

pytest.importorskip("opentelemetry.sdk")

from forager.core.tracing import is_sampled, span_id, traceparent
from forager.logging import configure_logs
from tests.support.otlp import attributes, collector
from tests.support.reviews import TOKEN, open_reviews
from tests.support.shop import open_shop


@pytest.fixture(params=["sqlite", "postgres"])
def database_url(request: pytest.FixtureRequest) -> str | None:
    return None if request.param == "sqlite" else str(request.getfixturevalue("app_postgres_url"))


async def test_each_task_has_a_trace_that_is_linked_to_its_job(tmp_path: Path, database_url: str | None) -> None:
    async with collector() as got:
        settings = {
            "otel_endpoint": got.url,
            "otel_sample": 1.0,
            "otel_headers": "x-tenant=acme",
            "otel_signals": "traces",
        }
        async with open_shop(tmp_path / "home", database_url, pages=4, settings=settings) as shop:
            async with shop.app.engine():
                made = await shop.submit(urls=[shop.site.product_url(number) for number in (1, 2)])
                job = await shop.ended(made)
            await shop.get("/jobs")  # the engine has stopped; the application has not
        assert job["completed"] == job["total"]
        trace_of_job = UUID(made).bytes
        (root,) = [each for each in got.named("job products") if each.trace_id == trace_of_job]
        assert attributes(root)["forager.pipeline"] == "products"
        (submit,) = [each for each in got.named("submit") if each.trace_id == trace_of_job]
        assert submit.parent_span_id == root.span_id
        tasks = [
            each for each in got.spans if each.name.startswith("task ") and attributes(each)["forager.job"] == made
        ]
        assert len(tasks) == job["total"]
        for task in tasks:
            assert [(link.trace_id, link.span_id) for link in task.links] == [(trace_of_job, root.span_id)]
            mine = [each for each in got.spans if each.trace_id == task.trace_id]
            assert all(each.start_time_unix_nano <= each.end_time_unix_nano for each in mine)
            (attempt,) = [each for each in mine if each.name == "attempt"]
            assert attempt.parent_span_id == task.span_id
            assert {"settle", "attempt"} <= {each.name for each in mine}
        names = {each.name for each in got.spans}
        assert {"submit", "wait", "fetch", "read", "settle"} <= names
        fetch = got.named("fetch")[0]
        assert attributes(fetch)["http.response.status_code"] == 200
        assert {attributes(each)["forager.reason"] for each in got.named("wait")} >= {"queued", "lane"}
        assert got.headers[0]["x-tenant"] == "acme"


async def test_a_sink_has_its_deliveries_and_a_line_the_trace_of_its_job(tmp_path: Path) -> None:
    configure_logs("INFO", "json", stream=io.StringIO())
    async with collector() as got:
        settings = {"otel_endpoint": got.url, "otel_sample": 1.0, "files_folder": tmp_path / "out"}
        async with open_shop(tmp_path / "home", None, pages=2, settings=settings) as shop:
            target = {"name": "out", "type": "files"}
            added = await shop.client.post("/api/v1/sinks", json=target)
            assert added.status_code in (200, 201), added.text
            async with shop.app.engine():
                job = await shop.ended(await shop.submit(urls=[shop.site.product_url(1)]))
                async with asyncio.timeout(60):
                    while not got.named("deliver"):
                        await asyncio.sleep(0.1)
        assert {attributes(each)["forager.sink"] for each in got.named("deliver")}
        lines = {line.trace_id for line in got.lines if line.body.string_value == "job_ended"}
        assert UUID(job["id"]).bytes in lines  # a search for the trace finds the lines about its job
    configure_logs("CRITICAL", stream=sys.stderr)


async def test_metrics_and_lines_go_to_the_same_collector_without_secrets(tmp_path: Path) -> None:
    configure_logs("INFO", "json", [TOKEN], stream=io.StringIO())
    try:
        async with collector() as got:
            async with (
                open_reviews(
                    tmp_path, None, locations=2, otel_endpoint=got.url, otel_sample=1.0, otel_interval_seconds=1.0
                ) as rig,
                rig.app.engine(),
            ):
                job = await rig.fetch()
                async with asyncio.timeout(60):
                    while (await rig.seen(job))["status"] not in ("completed", "failed"):
                        await asyncio.sleep(0.05)
            ended = got.metrics["forager_tasks_ended"].sum
            assert ended.is_monotonic
            assert sum(point.as_double or point.as_int for point in ended.data_points) > 0
            (seconds,) = got.metrics["forager_settle_seconds"].histogram.data_points
            assert sum(seconds.bucket_counts) == seconds.count > 0
            assert TOKEN.encode() not in got.raw
    finally:
        configure_logs("CRITICAL", stream=sys.stderr)


def test_every_process_keeps_the_same_traces() -> None:
    names = [f"{job}/{task}" for job in range(20) for task in range(500)]
    kept = [name for name in names if is_sampled(name, 0.1)]
    assert 800 < len(kept) < 1_200
    assert all(is_sampled(name, 0.5) for name in kept)  # a larger share keeps all of a smaller one
    assert not any(is_sampled(name, 0.0) for name in names)


def test_a_webhook_carries_the_trace_of_its_job() -> None:
    job = UUID("0f1c9b52-1d2e-4a6b-9c3d-5e6f7a8b9c0d")
    header = traceparent(job, 1.0, "webhook", "x")
    assert header == f"00-{job.hex}-{span_id(job, 'webhook', 'x'):016x}-01"
    assert traceparent(job, 0.0, "webhook", "x").endswith("-00")
