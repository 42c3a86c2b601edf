"""Pages that cannot be read: each with its reason, its status on sync, and the stored answer."""

import asyncio
import json
import random
import socket
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from pydantic import SecretStr
from structlog.testing import capture_logs

from forager.sandbox.receiver import WebhookReceiver
from forager.sandbox.scrape_pages import SiteAnswer
from forager.sandbox.site import Outage, SandboxSite
from tests.support.engine import until
from tests.support.ports import free_ports
from tests.support.scrape import API, PATIENCE, QUICK, Service, open_service
from tests.support.webhooks import SECRET

LINKS = "".join(f'<a href="/jobs/{number}-baker">Baker {number}</a>' for number in range(100, 108))


@pytest.mark.parametrize(
    ("html", "reason"),
    [
        (f"<h1>Open positions</h1>{LINKS}", "list_page"),
        (f"<h1>Job not found</h1><p>{'Please try another search. ' * 8}</p>", "error_page"),
        ("<div id=shell></div>", "empty_page"),
        (f"<h1>About us</h1><p>{'We are a bakery with a long history. ' * 20}</p>", "no_item"),
    ],
)
async def test_a_page_without_the_item_fails_with_what_it_is_instead(simple: Service, html: str, reason: str) -> None:
    simple.site.answers["/instead"] = SiteAnswer(200, html.encode(), b"text/html")
    answer = await simple.sync("/instead", target_type="job_posting", render="http")
    assert (answer.status_code, answer.json()["meta"]["reason"]) == (502, reason)


@pytest.mark.parametrize("target_type", ["listing", "product", "linkedin_profile"])
@pytest.mark.parametrize("layout", ["jsonld", "microdata", "plain"])
async def test_a_job_posting_is_neither_a_home_nor_a_product_nor_a_profile(
    simple: Service, layout: str, target_type: str
) -> None:
    answer = await simple.sync(f"/jobs/{layout}/1", target_type=target_type, render="http")
    assert (answer.status_code, answer.json()["meta"]["reason"]) == (502, "no_item")


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("/profiles/wall/1", "login_wall"),
        ("/status/401", "login_wall"),
        ("/status/404", "not_found"),
        ("/status/410", "not_found"),
        ("/status/403", "refused"),
        ("/blocked", "blocked"),
    ],
)
async def test_a_blocked_or_missing_page_fails_with_its_reason_and_is_kept__SC_2__SC_10__SC_15(
    simple: Service, path: str, reason: str
) -> None:
    answer = await simple.sync(path, target_type="linkedin_profile")
    assert (answer.status_code, answer.json()["meta"]["reason"]) == (502, reason)
    task = answer.json()["meta"]["task_id"]
    seen = await simple.data(f"/{task}")
    assert (seen["status"], seen["result"], seen["reason"]) == ("failed", None, reason)
    dead = (await simple.client.get(f"/api/v1/dead/{task}")).json()["data"]
    assert "<" in dead["evidence"]["text"]


async def test_an_answer_that_is_not_a_page_is_refused__SC_10(simple: Service) -> None:
    simple.site.answers["/file.pdf"] = SiteAnswer(200, b"%PDF-1.7", b"application/pdf")
    answer = await simple.sync("/file.pdf")
    assert (answer.status_code, answer.json()["meta"]["reason"]) == (502, "not_a_page")


@pytest.mark.parametrize("kind", [b"text/html", b"text/html; charset=utf-8", b"text/plain"])
@pytest.mark.parametrize("name", ["noise", "picture", "archive", "zeros"])
async def test_binary_data_sent_as_text_is_refused__SC_10(simple: Service, name: str, kind: bytes) -> None:
    noise = random.Random(1).randbytes(20_000)
    body = {
        "noise": noise,
        "picture": b"\x89PNG\r\n\x1a\n" + noise,
        "archive": b"PK\x03\x04" + noise,
        "zeros": bytes(999),
    }
    simple.site.answers["/bytes"] = SiteAnswer(200, body[name], kind)
    answer = await simple.sync("/bytes", target_type="page", render="http")
    assert (answer.status_code, answer.json()["meta"]["reason"]) == (502, "not_a_page"), answer.text


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "cp1252", "cp1251", "shift_jis", "gb18030", "koi8-r"])
async def test_text_in_any_encoding_is_no_binary_data__SC_10(simple: Service, encoding: str) -> None:
    words = {"cp1251": "Дом у моря", "koi8-r": "Дом у моря", "shift_jis": "海辺の家", "gb18030": "海边的房子"}
    text = words.get(encoding, "Das Moor speichert für Jahrhunderte Wässer.")
    html = (
        f"<html><head><meta charset={encoding}><title>T</title></head><body><h1>T</h1><p>{text * 30}</p></body></html>"
    )
    simple.site.answers["/text"] = SiteAnswer(200, html.encode(encoding), f"text/html; charset={encoding}".encode())
    answer = await simple.sync("/text", target_type="page", render="http", formats=["text"])
    assert answer.status_code == 200, answer.text
    assert text in answer.json()["data"]["result"]["text"]


async def test_a_server_error_has_a_reason_and_a_code__SC_2(simple: Service) -> None:
    simple.site.answers["/broken"] = SiteAnswer(500, b"<h1>Sorry</h1>", b"text/html")
    answer = await simple.sync("/broken", target_type="page", render="http")
    assert (answer.status_code, answer.json()["meta"]["code"]) == (502, "server_error")
    assert answer.json()["meta"]["reason"] == "server_error"


async def test_a_page_over_the_limit_is_too_large__SC_2(simple: Service) -> None:
    simple.site.answers["/vast"] = SiteAnswer(200, b"<p>" + b"word " * 2_200_000, b"text/html")
    answer = await simple.sync("/vast", target_type="page", render="http")
    assert (answer.status_code, answer.json()["meta"]["code"]) == (502, "too_large")
    assert answer.json()["meta"]["reason"] == "too_large"
    assert "10,485,760 bytes" in answer.json()["error"]


@pytest.mark.parametrize("url", ["http://10.0.0.1/", "http://[fd00::1]/", "http://127.0.0.1:1/"])
async def test_an_address_that_is_not_public_is_refused_with_its_reason__S1(simple: Service, url: str) -> None:
    body = {"target_url": url, "target_type": "page", "workspace_id": "acme", "render": "http"}
    answer = await simple.client.post(f"{API}/sync", json=body)
    assert (answer.status_code, answer.json()["meta"]["code"]) == (502, "egress_refused"), answer.text
    assert answer.json()["meta"]["reason"] == "egress_refused"


async def test_a_name_that_does_not_exist_fails_without_a_retry__SC_2(simple: Service) -> None:
    body = {
        "target_url": "http://no-such-name.invalid/",
        "target_type": "page",
        "workspace_id": "acme",
        "render": "http",
    }
    answer = await simple.client.post(f"{API}/sync", json=body)
    assert (answer.status_code, answer.json()["meta"]["code"]) == (502, "unreachable"), answer.text
    assert "Check the URL" in answer.json()["error"]
    attempts = await simple.client.get(f"/api/v1/tasks/{answer.json()['meta']['task_id']}")
    assert attempts.json()["data"]["attempts"] == 1


async def test_a_url_that_robots_txt_forbids_is_403_with_that_reason__SC_7(simple: Service) -> None:
    simple.site.set_robots("User-agent: *\nDisallow: /jobs/\n")
    answer = await simple.sync("/jobs/jsonld/1")
    assert (answer.status_code, answer.json()["meta"]["reason"]) == (403, "robots")
    assert "--no-robots" in answer.json()["error"]
    seen = await simple.data(f"/{answer.json()['meta']['task_id']}")
    assert (seen["status"], seen["reason"]) == ("failed", "robots")
    assert (await simple.data(f"/jobs/{seen['job_id']}"))["status"] == "failed"


async def test_a_refusal_by_robots_counts_as_failed_in_every_report__SC_7__SC_13(
    tmp_path: Path,
) -> None:
    async with WebhookReceiver([SECRET]) as receiver, SandboxSite() as site:
        settings: dict[str, Any] = {
            "webhook_secret": SecretStr(SECRET),
            "egress_allow": (site.endpoint, receiver.endpoint),
        }
        async with open_service(tmp_path, **settings) as service, service.app.engine():
            service.site = site
            site.set_robots("User-agent: *\nDisallow: /jobs/plain/\n")
            pages = [service.target("/jobs/jsonld/1"), service.target("/jobs/plain/2")]
            made = await service.batch(pages, callback_url=receiver.url("/hook"))
            seen = await service.ended(made)
            counts = [seen[f"{name}_tasks"] for name in ("total", "completed", "failed", "cancelled")]
            assert (seen["status"], counts) == ("partially_completed", [2, 1, 1, 0])
            async with asyncio.timeout(PATIENCE):
                await receiver.arrived(1)
    (body,) = receiver.taken.values()
    said = json.loads(body)
    assert (said["status"], said["summary"]) == ("partially_completed", {"total": 2, "completed": 1, "failed": 1})
    read, refused = said["results"]
    assert (read["status"], read["error"], read["reason"]) == ("completed", None, None)
    assert (refused["status"], refused["result"], refused["reason"]) == ("failed", None, "robots")
    assert refused["error"].startswith(f"{site.endpoint} does not allow this URL.")
    assert not [visit for visit in site.log if visit.path == "/jobs/plain/2"]


async def test_an_open_circuit_fails_the_task_at_once__SC_4__SC_8(tmp_path: Path) -> None:
    """Two failures open it; the task that meets it open is not sent."""
    async with open_service(tmp_path, cb_failure_threshold=2, cb_window_size=2) as service, service.app.engine():
        await service.sync("/jobs/jsonld/1")
        await service.site.fail(Outage.ERROR)
        made = await service.batch([service.target("/jobs/jsonld/2")] * 2)
        await service.ended(made)
        sent = len(service.site.log)
        answer = await service.sync("/jobs/jsonld/3")
        assert (answer.status_code, answer.json()["meta"]["reason"]) == (503, "circuit_open")
        assert answer.headers["Retry-After"]
        assert (await service.data(f"/{answer.json()['meta']['task_id']}"))["status"] == "failed"
        assert len(service.site.log) == sent
        health = (await service.client.get("/health")).json()["data"]
        assert health["circuits"] == {"open": 1, "half_open": 0}
        assert list(health["circuit_domains"].values()) == ["open"]


async def test_without_a_healthy_proxy_sync_returns_an_error_and_the_task_stays_queued_until_one_is_healthy__SC_2__SC_9(
    tmp_path: Path,
) -> None:
    nobody = f"127.0.0.1:{free_ports(1)[0]}"
    async with SandboxSite() as site:
        settings: dict[str, Any] = {"proxy_endpoints": [f"http://{nobody}"], "egress_allow": (site.endpoint, nobody)}
        async with open_service(tmp_path, **settings) as service, service.app.engine():
            service.site = site
            answer = await service.sync("/jobs/jsonld/1", timeout_seconds=30)
            assert (answer.status_code, answer.json()["meta"]["reason"]) == (503, "no_healthy_proxies")
            assert answer.headers["Retry-After"]
            assert nobody not in answer.text, "a proxy is never named by its address"
            task = answer.json()["meta"]["task_id"]
            seen = await service.data(f"/{task}")
            assert (seen["status"], seen["reason"]) == ("queued", "no_healthy_proxies")
            assert site.log == [], "nothing leaves but through a proxy"
            (proxy,) = (await service.client.get("/api/v1/proxies")).json()["data"]
            assert (await service.client.delete(f"/api/v1/proxies/{proxy['id']}")).is_success
            assert (await service.ended(seen["job_id"]))["completed_tasks"] == 1


async def test_a_request_to_a_server_that_fails_once_is_repeated__SC_4(simple: Service) -> None:
    first = [SiteAnswer(500, b"<h1>500</h1>")]
    simple.site.answers["/wobbly"] = lambda _: first.pop() if first else simple_answer()
    answer = await simple.sync("/wobbly")
    assert answer.status_code == 200, answer.text
    assert len(simple.site.visits("/wobbly")) == 2


def simple_answer() -> SiteAnswer:
    return SiteAnswer(
        200, b"<html><body><h1>Joiner</h1><p class='company'>Still</p><p>" + b"Wood. " * 99 + b"</p></body>"
    )


async def test_a_429_slows_the_lane_and_burns_nothing__SC_7(simple: Service) -> None:
    first = [SiteAnswer(429, b"slow down", headers={"Retry-After": "1"})]
    simple.site.answers["/busy"] = lambda _: first.pop() if first else simple_answer()
    answer = await simple.sync("/busy")
    assert answer.status_code == 200, answer.text
    task = (await simple.client.get(f"/api/v1/tasks/{answer.json()['data']['task_id']}")).json()["data"]
    assert task["attempts"] == 1


async def test_a_page_that_takes_too_long_fails_with_504_and_is_not_tried_again__SC_2__SC_4(tmp_path: Path) -> None:
    async with open_service(tmp_path, navigation_timeout_ms=1_000) as service, service.app.engine():
        service.site.latency = 0.0
        answer = await service.sync("/slow?seconds=20")
        assert (answer.status_code, answer.json()["meta"]["reason"]) == (504, "timed_out")
        assert len(service.site.visits("/slow")) == 1


async def test_an_address_that_may_not_be_reached_fails_without_a_connection__S1(tmp_path: Path) -> None:
    async with open_service(tmp_path, egress_allow=()) as service, service.app.engine():
        answer = await service.sync("/jobs/jsonld/1")
        assert answer.status_code == 502
        assert service.site.log == []


async def test_a_password_in_a_url_is_refused__SC_15(still: Service) -> None:
    refused = await still.client.post(API, json=still.target(target_url="https://user:pw@example.com/"))
    assert refused.status_code == 422
    assert "pw" not in refused.text


def test_the_policies_of_these_tests_obey_robots() -> None:
    assert "respect_robots_txt: true" in QUICK


async def test_every_page_leaves_one_line_in_the_log_without_its_query__SC_15(simple: Service) -> None:
    with capture_logs() as lines:
        one = await simple.sync("/jobs/jsonld/2?token=canary")
        other = await simple.sync("/nowhere?token=canary")
        await until(lambda: {"page_read", "page_failed"} <= {line["event"] for line in lines})
    (read,) = [line for line in lines if line["event"] == "page_read"]
    assert read["target_domain"] == simple.site.endpoint
    assert read["fields_extracted"] > 3
    (failed,) = [line for line in lines if line["event"] == "page_failed"]
    for line, answer, path in ((read, one, "/jobs/jsonld/2"), (failed, other, "/nowhere")):
        assert line["request_id"] == answer.headers["X-Request-ID"]
        assert line["url"] == simple.site.url(path)
        assert (await simple.data(f"/jobs/{line['job_id']}"))["total_tasks"] == 1
        assert (await simple.data(f"/{line['task_id']}"))["status"] in ("completed", "failed")
    assert [line["event"] for line in lines if line["event"].startswith("job_")] == [], "one line per page is enough"
    assert failed["target_url"] == simple.site.url("/nowhere")
    assert (failed["error_reason"], failed["proxy_used"]) == ("not_found", None)
    assert "canary" not in str(lines)


@pytest.mark.parametrize("robots", [True, False], ids=["with robots", "without"])
async def test_a_page_that_cannot_be_reached_fails_soon_with_the_same_words_with_and_without_robots(
    tmp_path: Path, unused_tcp_port: int, monkeypatch: pytest.MonkeyPatch, robots: bool
) -> None:
    """Nothing listens there, or no name server answers: the page fails, and no robots.txt is waited for."""
    nowhere, away = f"127.0.0.1:{unused_tcp_port}", "Temporary failure in name resolution"
    monkeypatch.setattr("socket.getaddrinfo", Mock(side_effect=socket.gaierror(socket.EAI_AGAIN, away)))
    policies = QUICK.replace("respect_robots_txt: true", f"respect_robots_txt: {str(robots).lower()}")
    async with open_service(tmp_path, policies=policies, egress_allow=(nowhere,)) as service, service.app.engine():
        pages = [f"http://{nowhere}/x?key=1", "https://typo.invalid/x?key=1"]
        job = await service.batch([service.target(target_url=page) for page in pages])
        await service.ended(job)
        tasks = (await service.client.get(f"/api/v1/jobs/{job}/tasks")).json()["data"]
    assert {(task["state"], task["attempts"], task["reason"]) for task in tasks} == {("failed", 3, "unreachable")}
    assert sorted(task["error"] for task in tasks) == [
        f"http://{nowhere}/x: no connection (Connection refused).",
        f"https://typo.invalid/x: the name typo.invalid does not resolve ({away}).",
    ]


async def test_a_robots_txt_that_answers_with_an_error_does_not_keep_a_page_waiting(simple: Service) -> None:
    simple.site.set_robots("", status=503)
    answer = await simple.sync("/jobs/jsonld/1")
    assert (answer.status_code, answer.json()["meta"]["reason"]) == (502, "robots_unreadable")


async def test_pages_of_a_paused_site_do_not_keep_other_pages_out_of_the_queue(tmp_path: Path) -> None:
    """Tasks that only wait count up to a fifth of the queue; more of them are refused, and others are not."""
    async with open_service(tmp_path, max_queue_depth=10) as service:
        await service.client.post("/api/v1/lanes/paused.example/pause?new=true")
        parked = [service.target(target_url=f"https://paused.example/{number}") for number in range(10)]
        await service.batch(parked)
        async with service.app.engine():
            refused = await service.client.post(API, json=parked[0])
            good = await service.batch([service.target(f"/jobs/jsonld/{number}") for number in range(1, 9)])
            seen = await service.ended(good)
    assert refused.status_code == 503
    assert "paused.example is paused by an operator" in refused.json()["error"]
    assert (seen["status"], seen["completed_tasks"]) == ("completed", 8)


async def _all_wait(service: Service, count: int) -> None:
    """Wait until this number of tasks are in the queue, so that none is in flight."""
    async with asyncio.timeout(PATIENCE):
        while sum(tasks for *_, tasks in await service.app.reports.queued_by_lane("scrape")) != count:
            await asyncio.sleep(0.01)


@pytest.mark.parametrize("after", [60, 3600])
async def test_the_queue_depth_is_kept_for_a_site_that_answers_429__SC_4(tmp_path: Path, after: int) -> None:
    async with open_service(tmp_path, max_queue_depth=5) as service, service.app.engine():
        accepted = 0
        for number in range(25):
            made = await service.client.post(API, json=service.target(f"/status/429?after={after}&page={number}"))
            accepted += made.status_code == 202
            await _all_wait(service, accepted)
        refused = await service.client.post(API, json=service.target("/status/429"))
    assert accepted == 5
    assert refused.status_code == 503
    assert "of at most 5 tasks" in refused.json()["error"]


async def test_a_sync_caller_gets_the_reason_why_its_page_waits_for_a_429__SC_1(simple: Service) -> None:
    late = await simple.sync("/status/429", timeout_seconds=5)
    assert late.status_code == 504
    answer = late.json()
    assert (answer["meta"]["code"], answer["meta"]["reason"]) == ("still_running", "rate_limited")
    assert "429" in answer["error"]
    assert f"GET /api/v1/scrape/{answer['meta']['task_id']}" in answer["error"]


async def test_a_sync_caller_gets_the_reason_while_its_page_waits_for_its_turn_after_a_429__SC_17(
    simple: Service,
) -> None:
    """A turn that is a few seconds away is waited for inside the attempt: the task runs without an error."""
    host = simple.site.url("").split("/")[2]
    await simple.app.set_rules(host, {"min_delay_ms": 4_000, "max_delay_ms": 4_500, "respect_robots_txt": False})
    for number in range(3):
        late = await simple.sync(f"/status/429?page={number}", timeout_seconds=5)
        assert late.status_code == 504
        assert "(429)" in late.json()["error"], f"answer {number}"
        assert late.json()["meta"]["reason"] in ("rate_limited", "rate")


async def test_a_sync_caller_gets_the_reason_why_its_site_sends_nothing__SC_1(simple: Service) -> None:
    paused = await simple.client.post(f"/api/v1/lanes/{simple.site.endpoint}/pause", params={"new": True})
    assert paused.status_code == 200, paused.text
    late = await simple.sync(timeout_seconds=5)
    assert late.status_code == 504
    assert "is paused by an operator" in late.json()["error"]


async def test_sync_returns_that_its_job_is_paused_and_how_to_resume_it__SC_1(still: Service) -> None:
    asked = asyncio.create_task(still.sync(timeout_seconds=5))
    jobs: list[dict[str, Any]] = []
    async with asyncio.timeout(PATIENCE):
        while not jobs:
            jobs = (await still.client.get("/api/v1/jobs")).json()["data"]
    await still.client.post(f"/api/v1/jobs/{jobs[0]['id']}/pause")
    late = await asked
    assert (late.status_code, late.json()["meta"]["reason"]) == (504, "paused")
    assert f"POST /api/v1/jobs/{jobs[0]['id']}/resume" in late.json()["error"]


async def test_a_queue_with_its_limit_of_ready_pages_is_full(tmp_path: Path) -> None:
    async with open_service(tmp_path, max_queue_depth=10) as service:
        await service.batch([service.target(f"/jobs/jsonld/{number}") for number in range(10)])
        refused = await service.client.post(API, json=service.target())
    assert refused.status_code == 503
    assert "room for 0 of at most 10 tasks" in refused.json()["error"]


@pytest.mark.parametrize("url", ["http://127.0.0.1:9/hook", "http://169.254.169.254/", "http://[::1]:80/"])
async def test_an_unreachable_receiver_is_refused_when_the_job_is_created(simple: Service, url: str) -> None:
    refused = await simple.client.post(API, json=simple.target(callback_url=url))
    assert refused.status_code == 422
    (field,) = refused.json()["meta"]["fields"]
    assert field["field"] == "callback_url"
    assert "not a public web address" in field["message"]
