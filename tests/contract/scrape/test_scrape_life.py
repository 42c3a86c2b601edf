"""The whole life of pages and batches through HTTP, with the engine, the store and a web site."""

import asyncio
from pathlib import Path
from uuid import UUID, uuid4

import pytest

from forager.sandbox.scrape_pages import SiteAnswer, company, job, page
from forager.sdk.http import streams
from tests.support.api import client_of
from tests.support.scrape import API, Service, open_service


async def test_a_page_is_queued_read_and_shown_with_where_each_field_was_found__SC_1__SC_10(service: Service) -> None:
    task = await service.ask("/jobs/jsonld/3")
    async with asyncio.timeout(60):
        while (seen := await service.data(f"/{task}"))["status"] not in ("completed", "failed"):
            await asyncio.sleep(0.01)
    assert seen["status"] == "completed", seen
    assert seen["result"]["job_title"] == job(3)["title"]
    assert seen["result"]["company_name"] == job(3)["company"]
    assert seen["created_at"] <= seen["started_at"] <= seen["completed_at"]
    about = (await service.client.get(f"{API}/{task}")).json()["meta"]
    assert about["provenance"]["job_title"]["page"] == service.site.url("/jobs/jsonld/3")
    assert about["provenance"]["job_title"]["source"]
    assert about["rendered"] is False


async def test_sync_answers_with_the_result__SC_1(service: Service) -> None:
    answer = await service.sync("/jobs/jsonld/4")
    assert answer.status_code == 200, answer.text
    assert answer.json()["data"]["result"]["job_title"] == job(4)["title"]
    assert "job_title" in answer.json()["meta"]["provenance"]


async def test_sync_is_woken_by_the_end_of_the_task_and_does_not_look_for_it__SC_1(
    simple: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streams, "LOOK_EVERY", 3_600.0)
    async with asyncio.timeout(60):
        answer = await simple.sync("/jobs/jsonld/4")
    assert answer.status_code == 200


async def test_sync_gives_up_with_504_while_the_task_continues__SC_1(simple: Service) -> None:
    simple.site.answers["/late"] = SiteAnswer(200, simple_page("Late Shift Cook"), delay=6.0)
    answer = await simple.sync("/late", timeout_seconds=5)
    assert answer.status_code == 504
    assert answer.json()["meta"]["code"] == "still_running"
    task = answer.json()["meta"]["task_id"]
    assert (await simple.data(f"/{task}"))["status"] == "running"
    seen = await simple.ended((await simple.data(f"/{task}"))["job_id"])
    assert seen["status"] == "completed"


def simple_page(title: str) -> bytes:
    return page(title, f"<h1>{title}</h1><p class='company'>Still</p><p>{'Work. ' * 100}</p>").body


async def test_only_the_requested_fields_are_returned__SC_3(simple: Service) -> None:
    answer = await simple.sync("/jobs/jsonld/5", requested_fields=["salary_range", "job_title", "job_title"])
    assert set(answer.json()["data"]["result"]) == {"salary_range", "job_title"}


async def test_a_field_that_is_not_there_is_null__SC_10(simple: Service) -> None:
    answer = await simple.sync("/jobs/sparse/5")
    found = answer.json()["data"]["result"]
    assert found["job_title"] == job(5)["title"]
    assert found["salary_range"] is None
    assert "salary_range" not in answer.json()["meta"]["provenance"]


async def test_a_batch_with_good_and_bad_pages_is_partially_completed__SC_1(service: Service) -> None:
    paths = ["/jobs/jsonld/1", "/jobs/plain/2", "/gone", "/jobs/jsonld/1", "/profiles/wall/1"]
    target = [service.target(path) for path in paths]
    made = await service.batch(target, callback_url=None)
    seen = await service.ended(made)
    counts = (seen["status"], seen["total_tasks"], seen["completed_tasks"], seen["failed_tasks"])
    assert counts == ("partially_completed", 5, 3, 2)
    results = await service.data(f"/jobs/{made}/results")
    assert [each["target_url"] for each in results] == [target[n]["target_url"] for n in (0, 1, 3)]
    assert len({each["task_id"] for each in results}) == 3


async def test_a_company_is_searched_on_its_contact_page_as_well__SC_10(simple: Service) -> None:
    answer = await simple.sync("/companies/pages/7", target_type="company_website")
    assert answer.status_code == 200, answer.text
    said, about = answer.json()["data"]["result"], answer.json()["meta"]
    assert said["company_name"] == company(7)["name"]
    assert said["contact_email"] == company(7)["email"]
    assert about["provenance"]["contact_email"]["page"].endswith(("/contact", "/about"))
    assert 2 <= len(about["pages"]) <= 4


async def test_no_further_request_is_sent_when_no_field_is_missing__SC_10(simple: Service) -> None:
    asked = {"target_type": "company_website", "requested_fields": ["company_name"]}
    answer = await simple.sync("/companies/pages/8", **asked)
    assert answer.json()["meta"]["pages"] == [simple.site.url("/companies/pages/8")]
    assert [visit.path for visit in simple.site.log if visit.path != "/robots.txt"] == ["/companies/pages/8"]


async def test_further_pages_that_fail_cost_only_their_fields__SC_10(simple: Service) -> None:
    simple.site.set_robots("User-agent: *\nDisallow: /companies/pages/9/about\n")
    simple.site.answers["/companies/pages/9/contact"] = page("500", "<h1>500</h1>", 500)
    answer = await simple.sync("/companies/pages/9", target_type="company_website")
    assert answer.status_code == 200, answer.text
    assert answer.json()["data"]["result"]["company_name"] == company(9)["name"]
    assert answer.json()["data"]["result"]["contact_email"] is None


async def test_cancelling_ends_what_waits__SC_1(still: Service) -> None:
    made = await still.batch([still.target(f"/jobs/jsonld/{n}") for n in range(5)])
    cancelled = await still.client.post(f"{API}/jobs/{made}/cancel")
    assert cancelled.json()["data"]["status"] == "cancelled"
    await still.work()
    seen = await still.data(f"/jobs/{made}")
    assert (seen["status"], seen["cancelled_tasks"], seen["completed_tasks"]) == ("cancelled", 5, 0)
    assert still.site.log == []
    again = await still.client.post(f"{API}/jobs/{made}/cancel")
    assert (again.status_code, again.json()["data"]["status"]) == (200, "cancelled")


async def test_a_repeat_with_the_same_key_is_the_same_task__SC_1(still: Service) -> None:
    body, key = still.target(), {"Idempotency-Key": "one"}
    first, again = [await still.client.post(API, json=body, headers=key) for _ in range(2)]
    assert first.json()["data"] == again.json()["data"]
    assert again.headers["Idempotent-Replayed"] == "true"


async def test_a_full_queue_refuses_a_whole_job_and_returns_when_to_retry__SC_1__SC_2(still: Service) -> None:
    await still.batch([still.target()] * 8)
    refused = await still.client.post(f"{API}/batch", json={"targets": [still.target()] * 3})
    assert refused.status_code == 503
    assert int(refused.headers["Retry-After"]) > 0
    assert "room for 2" in refused.json()["error"]
    assert (await still.client.get("/health")).json()["data"]["queue_depth"] == 8
    for _ in range(2):
        await still.ask()
    assert (await still.client.post(API, json=still.target())).status_code == 503


async def test_a_batch_has_1_to_100_targets_and_none_with_a_callback_of_its_own__SC_1__SC_13(tmp_path: Path) -> None:
    async with open_service(tmp_path) as service:
        for count, status in ((0, 422), (100, 202), (101, 422)):
            made = await service.client.post(f"{API}/batch", json={"targets": [service.target()] * count})
            assert made.status_code == status, made.text
        own = service.target(callback_url="https://hooks.example/")
        refused = await service.client.post(f"{API}/batch", json={"targets": [own]})
        assert refused.status_code == 422
        assert refused.json()["meta"]["fields"][0]["field"] == "targets.0"


async def test_all_mistakes_of_a_batch_are_reported_in_one_round(still: Service) -> None:
    """Errors that only the extractors find (a type, a field), with those of the form, in the same entry or another."""
    targets = [
        {"target_type": "novel", "target_url": "nowhere"},
        {"target_url": 7},
        {"target_type": "job_posting", "target_url": "https://example.com/", "requested_fields": ["pages"]},
    ]
    refused = await still.client.post(f"{API}/batch", json={"targets": targets, "callback_url": "x"})
    assert refused.status_code == 422
    fields = {each["field"] for each in refused.json()["meta"]["fields"]}
    wrong = {"targets.0.target_url", "targets.0.target_type", "targets.1.target_url", "targets.2.requested_fields"}
    assert fields == {*wrong, "callback_url"}


@pytest.mark.parametrize("path", [API, f"{API}/sync"])
async def test_all_mistakes_of_one_page_are_reported_in_one_round(still: Service, path: str) -> None:
    body = {"target_type": "novel", "target_url": "nowhere", "callback_url": 5, "colour": "red"}
    refused = await still.client.post(path, json=body)
    assert refused.status_code == 422
    fields = [each["field"] for each in refused.json()["meta"]["fields"]]
    assert sorted(fields) == ["callback_url", "colour", "target_type", "target_url"]
    assert (await still.client.get("/health")).json()["data"]["queue_depth"] == 0, "nothing is stored"


async def test_unknown_ids_and_ids_of_other_pipelines_are_404__SC_2(still: Service) -> None:
    made = await still.app.submit("places", {"keyword": "bars", "zips": ["85001"], "pages": 1})
    (query,) = (await still.app.reports.tasks(made.job)).items
    for path in (f"/{uuid4()}", f"/{query.id}", f"/jobs/{uuid4()}", f"/jobs/{made.job}", f"/jobs/{made.job}/results"):
        assert (await still.client.get(f"{API}{path}")).status_code == 404, path
    assert (await still.client.post(f"{API}/jobs/{made.job}/cancel")).status_code == 404


async def test_nothing_is_answered_without_the_key__SC_2(still: Service) -> None:
    async with client_of(still.api, None) as stranger:
        for method, path in (("POST", ""), ("POST", "/sync"), ("POST", "/batch"), ("GET", f"/{UUID(int=1)}")):
            assert (await stranger.request(method, f"{API}{path}", json={})).status_code == 401


async def test_while_shutting_down_new_pages_are_refused_and_waiters_get_an_error__SC_2__SC_14(simple: Service) -> None:
    simple.site.latency = 30.0
    waiting_for = asyncio.create_task(simple.sync("/jobs/jsonld/1"))
    await simple.site.arrived(1)
    simple.api.state.feeds.closing.set()
    told = await waiting_for
    assert (told.status_code, told.json()["meta"]["code"]) == (503, "shutting_down")
    assert (await simple.data(f"/{told.json()['meta']['task_id']}"))["status"] == "running"
    for path, body in (("", simple.target()), ("/sync", simple.target()), ("/batch", {"targets": [simple.target()]})):
        refused = await simple.client.post(f"{API}{path}", json=body)
        assert (refused.status_code, refused.headers["Retry-After"]) == (503, "5")
    await simple.site.stop()


async def test_an_export_of_what_is_not_there_yet_is_an_empty_file_or_a_header(still: Service) -> None:
    lines = await still.client.get("/api/v1/export/scrape_result", params={"format": "jsonl"})
    assert (lines.status_code, lines.content) == (200, b"")
    table = await still.client.get("/api/v1/export/scrape_result", params={"format": "csv"})
    assert table.status_code == 200
    (header,) = table.text.splitlines()
    assert header.startswith("job,task_key,target_type")
