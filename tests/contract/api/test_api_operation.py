"""Routes for operators: health, readiness, metrics, the document, and the server itself."""

import asyncio
import re
import socket
from dataclasses import fields
from pathlib import Path

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from forager.api import health
from forager.api.serve import serve
from forager.core.errors import Rejected, StoreFull, StoreUnavailable
from forager.core.ledger import SHIFT
from forager.fetch.browser.pool import PoolStats
from forager.ledger.catalog import DEFAULT_QUEUE
from forager.ledger.sqlite.lock import read_owner
from tests.support.api import KEY, PATIENCE, Front, client_of, open_front

SECRET = "canary-77c1"


async def test_health_is_ok_while_the_worker_lives_and_red_when_it_does_not(front: Front) -> None:
    job = await front.create()
    await front.client.post(f"/api/v1/jobs/{job}/pause")
    async with client_of(front.api, key=None) as stranger:
        red = await stranger.get("/health")
        assert (red.status_code, red.json()["success"]) == (503, False)
        assert (red.json()["data"]["store"], red.json()["data"]["worker"]) == ("ok", "stopped")
        async with front.app.engine():
            async with asyncio.timeout(PATIENCE):
                while not front.app.worker.alive:
                    await asyncio.sleep(0)
            ok = await stranger.get("/health")
        assert (ok.status_code, ok.json()["data"]["status"]) == (200, "ok")
        assert ok.json()["data"]["open_jobs"] == {"paused": 1}
        assert ok.json()["data"]["queue_depth"] == 1


async def test_a_store_that_is_slow_with_its_figures_is_ready_and_one_that_answers_nothing_is_not(
    simple: Front, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def never(*_: object) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr("forager.api.health.PATIENCE", 0.5)
    monkeypatch.setattr("forager.api.health.FRESH", 0.0)
    await simple.create()
    before = await simple.client.get("/health")
    monkeypatch.setattr(simple.app.reports, "circuits", never)
    slow, ready = await simple.client.get("/health"), await simple.client.get("/readiness")
    monkeypatch.setattr(simple.app.reports, "health", never)
    silent = await simple.client.get("/readiness")

    assert slow.json()["data"]["store"] == "ok"
    assert slow.json()["data"]["open_jobs"] == before.json()["data"]["open_jobs"] != {}
    assert ready.status_code == 200
    assert (silent.status_code, silent.json()["data"]["reason"]) == (503, "the store is unavailable")


async def test_trouble_turns_health_red_and_its_reason_is_for_callers_with_the_key__S8(
    simple: Front, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def full(*_: object) -> None:
        raise StoreFull(f"The disk of {SECRET} is full.")

    monkeypatch.setattr(simple.app.ledger, "take_lanes", full)
    async with simple.app.engine():
        async with asyncio.timeout(PATIENCE):
            while simple.app.worker.stats.trouble is None:
                await asyncio.sleep(0)
        known = await simple.client.get("/health")
        async with client_of(simple.api, key=None) as stranger:
            unknown = await stranger.get("/health")
    assert (known.status_code, unknown.status_code) == (503, 503)
    assert known.json()["data"]["worker"] == "alive"
    assert SECRET in known.text
    assert SECRET not in unknown.text
    assert unknown.json()["data"]["trouble"]


async def test_a_store_that_does_not_answer_turns_everything_red_and_heals(
    simple: Front, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fails() -> None:
        raise StoreUnavailable(f"no answer from {SECRET}")

    monkeypatch.setattr(health, "FRESH", 0.0)
    with monkeypatch.context() as broken:
        broken.setattr(simple.app.reports, "health", fails)
        for path in ("/health", "/readiness"):
            red = await simple.client.get(path)
            assert red.status_code == 503
            assert SECRET not in red.text
        figures = await simple.client.get("/metrics")
        assert figures.status_code == 200
        assert "forager_store_up 0.0" in figures.text
    assert (await simple.client.get("/readiness")).json()["data"] == {"ready": True, "reason": None}


async def test_open_routes_query_the_store_at_most_once_a_second(
    simple: Front, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = 0
    really = simple.app.reports.health

    async def counted() -> object:
        nonlocal asked
        asked += 1
        return await really()

    monkeypatch.setattr(health, "FRESH", 3_600.0)
    monkeypatch.setattr(simple.app.reports, "health", counted)
    await asyncio.gather(*(simple.client.get(path) for path in ("/health", "/readiness", "/metrics") * 10))
    assert asked == 1


async def test_metrics_count_tasks_and_requests_by_route_and_name_no_job(front: Front) -> None:
    job = await front.create(keyword="bars", zips=["85001", "85003"], pages=1)
    await front.work()
    spent = (await front.data(f"/api/v1/jobs/{job}"))["spent"]
    await front.client.request("BREW", "/nowhere")
    text = (await front.client.get("/metrics")).text
    found = await _metrics(front)
    assert found["forager_tasks_ended_total", "completed"] == 1
    assert found["forager_tasks_ended_total", "failed"] == 1
    assert sum(value for name, value in found.items() if name[0] == "forager_failures_total") == 1
    assert found["forager_pipeline_tasks_ended_total", "places", "completed"] == 1
    assert found["forager_pipeline_tasks_ended_total", "places", "failed"] == 1
    assert found["forager_pipeline_cost_total", "places"] == spent > 0
    assert found["forager_lane_requests_total", "serper"] == len(front.sandbox.log)
    assert found["forager_lane_rate_limited_total", "serper"] == 0
    assert found["forager_tasks_in_flight",] == 0
    assert found["forager_settle_seconds_count",] == found["forager_transactions_total",] > 0
    assert found["forager_settle_seconds_bucket", "+Inf"] == found["forager_settle_seconds_count",]
    assert found["forager_browsers", "in_use"] == found["forager_browser_crashed_total",] == 0
    assert found["forager_dead_letters",] == 1
    assert found["forager_http_requests_total", "POST", "/api/v1/places/jobs", "202"] == 1
    assert found["forager_http_requests_total", "GET", "/api/v1/jobs/{job_id}", "200"] == 1
    assert found["forager_http_requests_total", "other", "unmatched", "404"] == 1
    assert found["forager_http_request_seconds_count", "/api/v1/jobs/{job_id}"] == 1
    for secret in (job, KEY, front.sandbox.config.key):
        assert secret not in text


async def test_metrics_show_depth_and_age_of_the_queue_by_pipeline_until_its_jobs_begin(
    front: Front, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(health, "FRESH", 0.0)
    paused = await front.create(keyword="bars", zips=["85001"], pages=1)
    await front.client.post(f"/api/v1/jobs/{paused}/pause")
    shown = await _metrics(front)
    assert shown["forager_pipeline_queued", "places"] == 1
    assert shown["forager_pipeline_waiting_seconds", "places"] == 0, "a paused job waits for a person, not for a worker"

    await front.create(keyword="bars", zips=["85001", "85003"], pages=1)
    await asyncio.sleep(0.01)
    shown = await _metrics(front)
    assert shown["forager_pipeline_queued", "places"] == 3
    assert 0 < shown["forager_pipeline_waiting_seconds", "places"] < PATIENCE
    assert shown["forager_sessions",] == 0
    (queue,) = {lane.queue or DEFAULT_QUEUE for lane in front.app.pipelines["places"].lanes}
    assert shown["forager_queue_lanes_waiting", queue] == 1
    assert 0 < shown["forager_queue_waiting_seconds", queue] < PATIENCE

    await front.work()
    shown = await _metrics(front)
    assert ("forager_queue_lanes_waiting", queue) not in shown, "its lane sleeps until it has work"
    assert shown["forager_pipeline_queued", "places"] == 1
    assert shown["forager_pipeline_waiting_seconds", "places"] == 0


async def test_metrics_count_the_living_sessions_of_each_queue(front: Front, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health, "FRESH", 0.0)
    for queues in (None, ("scraping",), ("scraping", "maintenance")):
        await front.app.ledger.begin("worker", queues)
    shown = await _metrics(front)
    counted = {name[1]: value for name, value in shown.items() if name[0] == "forager_queue_sessions"}
    assert counted == {"all": 1, "scraping": 2, "maintenance": 1}
    assert not [name for name in shown if name[0] == "forager_shifts_running"]


async def test_metrics_count_shifts_and_the_messages_that_wait(front: Front, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health, "FRESH", 0.0)
    for number in range(2):
        await front.app.ledger.begin(f"{SHIFT}{number}", ["scraping"])
    stats = front.app.worker.stats
    stats.shifts_sent["scraping"] += 3
    stats.consumer_lag = lambda: {"review-worker": 7}
    shown = await _metrics(front)
    assert shown["forager_shifts_running", "scraping"] == 2
    assert shown["forager_shifts_sent_total", "scraping"] == 3
    assert shown["forager_consumer_lag", "review-worker"] == 7


async def test_every_metric_of_the_alerts_the_dashboards_and_the_guide_exists(simple: Front) -> None:
    ops = Path(__file__).parents[3] / "ops"
    files = [*ops.glob("*.yml"), *ops.glob("grafana/*.json"), ops.parent / "docs" / "operations.md"]
    named = {name for file in files for name in re.findall(r"\b(?:forager|process)_[a-z_]+", file.read_text())}
    assert len(named) > 30
    shown: set[str] = set()
    for name, kind in re.findall(r"^# TYPE (\w+) (\w+)$", (await simple.client.get("/metrics")).text, re.MULTILINE):
        shown |= {name, *(f"{name}_{suffix}" for suffix in ("bucket", "count", "sum") if kind == "histogram")}
    assert named - shown == set()


async def test_every_metric_is_documented(simple: Front) -> None:
    docs = "".join(path.read_text() for path in (Path(__file__).parents[3] / "docs").glob("*.md"))
    shown = re.findall(r"^# TYPE (forager_\w+) ", (await simple.client.get("/metrics")).text, re.MULTILINE)
    own = [name for name in shown if not name.endswith("_created")]  # the client library adds these
    assert len(own) > 50
    assert [name for name in own if f"`{name}" not in docs and f"({name}[" not in docs] == []


async def _metrics(front: Front) -> dict[tuple[str, ...], float]:
    text = (await front.client.get("/metrics")).text
    families = text_string_to_metric_families(text)
    return {(sample.name, *sample.labels.values()): sample.value for each in families for sample in each.samples}


async def test_the_document_describes_every_operation_with_an_example(client: httpx.AsyncClient) -> None:
    document = (await client.get("/openapi.json")).json()
    assert document["components"]["securitySchemes"]["ServiceKey"]["name"] == "X-Service-Key"
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            where = f"{method} {path}"
            assert operation["summary"], where
            assert operation["tags"][0] in {tag["name"] for tag in document["tags"]}, where
            is_open = path in ("/health", "/readiness", "/metrics")
            assert operation["security"] == ([] if is_open else [{"ServiceKey": []}]), where
            assert is_open or {"401", "422", "503"} <= set(operation["responses"]), where
            good = next(response for status, response in operation["responses"].items() if status.startswith("2"))
            assert all("example" in content for content in good["content"].values()), where
            for content in operation.get("requestBody", {}).get("content", {}).values():
                assert "examples" in content or _has_examples(document, content["schema"]), where
    text = (await client.get("/openapi.json")).text
    assert "HTTPValidationError" not in text, "errors are described as they are: in the envelope"


async def test_every_route_is_in_the_guide(client: httpx.AsyncClient) -> None:
    guide = (Path(__file__).parents[3] / "docs" / "api.md").read_text()
    document = (await client.get("/openapi.json")).json()
    missing = [path for path in document["paths"] if f"{path}`" not in guide]
    assert not missing
    told = set(re.findall(r"(/(?:api/v1/[^`?\s]+|health|readiness|metrics))`", guide))
    assert told <= set(document["paths"]), told - set(document["paths"])


async def test_every_kind_of_records_is_in_the_guide_and_in_the_document(simple: Front) -> None:
    guide = (Path(__file__).parents[3] / "docs" / "api.md").read_text()
    paths = (await simple.client.get("/openapi.json")).json()["paths"]
    for kind in simple.app.reports.kinds:
        assert f"`{kind}`" in guide
        for path in ("/api/v1/records/{kind}", "/api/v1/export/{kind}"):
            assert f"`{kind}`" in paths[path]["get"]["parameters"][0]["description"]


async def test_every_requested_field_of_a_page_is_in_its_guide(simple: Front) -> None:
    guide = (Path(__file__).parents[3] / "docs" / "scrape.md").read_text()
    asked = simple.api.openapi()["components"]["schemas"]["SyncScrapeRequest"]
    told = dict(re.findall(r"^\| `(\w+)` \| .* \| ([^|]+) \|$", guide, re.MULTILINE))
    for field in asked["properties"]:
        assert field in told
        assert (told[field] == "required") == (field in asked.get("required", ())), field


def _has_examples(document: dict[str, object], schema: dict[str, object]) -> bool:
    found = [schema, *schema.get("anyOf", [])]  # type: ignore[misc]
    parts = [document["components"]["schemas"][s["$ref"].rpartition("/")[2]] for s in found if "$ref" in s]  # type: ignore[index]
    return any("examples" in part for part in parts)


async def test_every_example_of_a_request_is_accepted(tmp_path: Path) -> None:
    async with open_front(tmp_path) as front:
        document = (await front.client.get("/openapi.json")).json()
        examples = document["components"]["schemas"]["PlacesJob"]["examples"]
        for body in examples:
            assert (await front.client.post("/api/v1/places/jobs", json=body)).status_code == 202, body
        jobs, schedules = (
            document["paths"]["/api/v1/jobs"]["post"],
            document["paths"]["/api/v1/schedules/{name}"]["put"],
        )
        for each in (jobs, schedules):
            shown = each["requestBody"]["content"]["application/json"]["examples"]
            assert set(shown) >= {"places", "scrape"}
            for named in shown.values():
                if each is jobs:
                    answer = await front.client.post("/api/v1/jobs", json=named["value"])
                else:
                    answer = await front.client.put("/api/v1/schedules/x", json=named["value"])
                assert answer.status_code in (200, 202), (named, answer.text)


async def test_the_server_takes_a_free_port_announces_it_and_leaves_no_trace(simple: Front) -> None:
    lock = Path(simple.app.settings.home) / "lock"
    async with serve(simple.app, host="127.0.0.1", port=0, key=KEY) as url:
        owner = read_owner(lock)
        assert owner is not None
        assert owner.url == url
        async with httpx.AsyncClient(base_url=url) as stranger:
            assert (await stranger.get("/readiness")).status_code == 200
            assert (await stranger.get("/api/v1/jobs")).status_code == 401
            assert "server" not in (await stranger.get("/readiness")).headers
    after = read_owner(lock)
    assert after is not None
    assert after.url is None
    with pytest.raises(OSError):
        socket.create_connection(("127.0.0.1", int(url.rpartition(":")[2])), timeout=1)


async def test_a_port_in_use_is_an_error_with_a_remedy(simple: Front) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(Rejected, match=f"port {port}.*FORAGER_PORT"):
            async with serve(simple.app, host="127.0.0.1", port=port, key=KEY):
                pass


async def test_api_and_engine_share_one_process(simple: Front) -> None:
    async with (
        simple.app.engine(),
        serve(simple.app, host="127.0.0.1", port=0, key=KEY) as url,
        httpx.AsyncClient(base_url=url, headers={"X-Service-Key": KEY}, timeout=PATIENCE) as client,
    ):
        job = (await client.post("/api/v1/places/jobs", json={"keyword": "bars", "zips": ["85001"]})).json()["data"]
        async with asyncio.timeout(PATIENCE), client.stream("GET", f"/api/v1/jobs/{job['job_id']}/events") as told:
            lines = [line async for line in told.aiter_lines()]
        assert "event: end" in lines
        report = (await client.get(f"/api/v1/jobs/{job['job_id']}")).json()["data"]
    assert (report["state"], report["completed"]) == ("completed", 3)


async def test_an_installation_without_browsers_is_ready_for_what_needs_none(
    simple: Front, monkeypatch: pytest.MonkeyPatch
) -> None:
    nothing = PoolStats(*[0] * len(fields(PoolStats)))
    monkeypatch.setattr("forager.fetch.browser.fetcher.BrowserFetcher.stats", lambda _: nothing)
    refused = await simple.client.get("/readiness")
    assert (refused.status_code, "doctor" in refused.text) == (503, True), "one with them, but no Chromium, is not"
    monkeypatch.setattr("forager.fetch.browser.fetcher.find_spec", lambda _: None)
    assert (await simple.client.get("/readiness")).status_code == 200


@pytest.mark.parametrize("path", ["/health", "/api/v1/jobs", "/openapi.json", "/api/v1/export/place?format=csv"])
async def test_head_is_answered_wherever_get_is_with_the_same_headers(simple: Front, path: str) -> None:
    head, whole = await simple.client.head(path), await simple.client.get(path)
    assert (head.status_code, head.content) == (whole.status_code, b"")
    assert head.headers["content-type"] == whole.headers["content-type"]


async def test_head_of_a_stream_ends(simple: Front) -> None:
    job = await simple.create()
    async with asyncio.timeout(PATIENCE):
        head = await simple.client.head(f"/api/v1/jobs/{job}/events")
    assert (head.status_code, head.headers["content-type"].partition(";")[0]) == (200, "text/event-stream")
