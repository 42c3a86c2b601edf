"""Scrape jobs of any size: sent in parts, interrupted and continued, one job with each page once."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from forager.client.connect import LocalTransport
from forager.core.errors import Rejected
from forager.pipelines.scrape.cli import batch
from forager.pipelines.scrape.cli.batch import TargetFile, many_pages
from forager.sdk.cli.client import Api, ApiAnswer
from forager.sdk.cli.invocation import Reached
from tests.support.api import KEY
from tests.support.dying_transport import DyingTransport, Killed
from tests.support.scrape import API, Service

PAGES = 45
PART = 20


@pytest.fixture
def short_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch, "MOST_TARGETS", PART)


def pages_file(service: Service, folder: Path, *more: str) -> TargetFile:
    file = folder / "pages.jsonl"
    paths = [f"/jobs/jsonld/{number}" for number in range(PAGES)]
    file.write_text("\n".join([*[service.site.url(path) for path in paths], *more]))
    return TargetFile(file, file.name, {"target_type": "job_posting", "workspace_id": "acme", "render": "http"})


async def run(file: TargetFile, transport: Any) -> list[dict[str, Any]]:
    """The command, beside a running Forager."""
    at = Reached(Api(transport, KEY))
    return [page async for page in many_pages(at, file, file.check(print), quiet=True)]


async def jobs(service: Service) -> list[dict[str, Any]]:
    listed = (await service.client.get("/api/v1/jobs")).json()["data"]
    return [job for job in listed if job["pipeline"] == "scrape"]


@pytest.mark.usefixtures("short_parts")
@pytest.mark.parametrize("acts", [False, True], ids=["unsent", "unanswered"])
async def test_a_client_that_dies_while_sending_and_runs_again_ends_with_one_job_and_each_page_once(
    service: Service, tmp_path: Path, acts: bool
) -> None:
    file = pages_file(service, tmp_path)
    for requests in (1, 2, 3):
        with pytest.raises(Killed):
            await run(file, DyingTransport(service.api, requests, acts=acts))
    pages = await run(file, LocalTransport(service.api))
    assert [page["target_url"] for page in pages] == [line.target["target_url"] for line in file.lines()]
    assert {page["status"] for page in pages} == {"completed"}
    (job,) = await jobs(service)
    assert (job["state"], job["total"], job["completed"]) == ("completed", PAGES, PAGES)
    assert [len(service.site.visits(f"/jobs/jsonld/{number}")) for number in range(PAGES)] == [1] * PAGES


@pytest.mark.usefixtures("short_parts")
async def test_a_job_that_was_given_up_while_it_was_sent_is_sent_again(simple: Service, tmp_path: Path) -> None:
    """As by a restart of Forager."""
    file, send = pages_file(simple, tmp_path), LocalTransport(simple.api)
    given_up = False

    async def transport(method: str, target: str, headers: Mapping[str, str], body: bytes) -> ApiAnswer:
        nonlocal given_up
        if target.endswith("/targets") and not given_up:
            given_up = True
            await simple.app.database.write("UPDATE jobs SET planning_until = 0 WHERE state = 'planning'", {})
        return await send(method, target, headers, body)

    assert len(await run(file, _Where(transport))) == PAGES
    assert given_up
    assert [len(simple.site.visits(f"/jobs/jsonld/{number}")) for number in range(PAGES)] == [1] * PAGES


@pytest.mark.usefixtures("short_parts")
async def test_a_file_with_a_page_that_is_refused_late_starts_nothing(simple: Service, tmp_path: Path) -> None:
    wrong = json.dumps({"target_url": "https://example.com/", "target_type": "poem"})
    with pytest.raises(Rejected) as refused:
        await run(pages_file(simple, tmp_path, wrong), LocalTransport(simple.api))
    assert [each.field for each in refused.value.fields] == [f"line {PAGES + 1}, target_type"]
    assert simple.site.log == []


async def test_parts_must_continue_one_another_and_repeats_add_nothing(still: Service) -> None:
    first = {"targets": [still.target()] * 3, "more": True, "source": "list"}
    made = await still.client.post(f"{API}/jobs", json=first, headers={"Idempotency-Key": "list"})
    assert made.json()["data"]["status"] == "receiving"
    job = made.json()["data"]["job_id"]
    again = await still.client.post(f"{API}/jobs", json=first, headers={"Idempotency-Key": "list"})
    assert (again.json()["data"], again.headers["Idempotent-Replayed"]) == (made.json()["data"], "true")

    async def add(**body: Any) -> tuple[int, Any]:
        answer = await still.client.post(f"{API}/jobs/{job}/targets", json={"targets": [still.target()], **body})
        said = answer.json()
        return answer.status_code, said["data"]["total_tasks"] if said["success"] else said["error"]

    assert await add(first=4) == (409, f"Job {job} has 3 tasks; this part begins at 4. Send from 3.")
    assert await add(first=3, more=True) == (202, 4)
    assert await add(first=3, more=True) == (202, 4)
    assert await add(first=4) == (202, 5)
    assert await add(first=4) == (202, 5)
    assert (await add(first=5))[0] == 409
    seen = await still.data(f"/jobs/{job}")
    assert (seen["status"], seen["total_tasks"], seen["queued_tasks"]) == ("queued", 5, 5)


async def test_a_first_part_that_is_invalid_creates_no_job(still: Service) -> None:
    body = {"targets": [still.target(), still.target(target_type="poem")], "more": True}
    answer = await still.client.post(f"{API}/jobs", json=body)
    assert answer.status_code == 422
    assert [each["field"] for each in answer.json()["meta"]["fields"]] == ["targets.1.target_type"]
    refused = await still.client.post(f"{API}/jobs", json={**body, "callback_url": "http://169.254.169.254/"})
    assert refused.json()["meta"]["fields"][0]["field"] == "callback_url"
    assert await jobs(still) == []


@pytest.mark.parametrize("count", [10_000, 10_001])
async def test_a_part_has_at_most_ten_thousand_pages_and_a_job_any_number(still: Service, count: int) -> None:
    one = still.target("/x")
    body = {"targets": [one] * count, "more": True}
    made = await still.client.post(f"{API}/jobs", json=body)
    if count > 10_000:
        assert made.status_code == 422
        return
    job = made.json()["data"]["job_id"]
    last = await still.client.post(f"{API}/jobs/{job}/targets", json={"targets": [one] * 7, "first": count})
    assert last.json()["data"] == {"job_id": job, "total_tasks": 10_007, "status": "queued"}
    listed = await still.client.get(f"{API}/jobs/{job}/pages", params={"limit": 1000})
    assert len(listed.json()["data"]) == 1_000
    too_many = await still.client.get(f"{API}/jobs/{job}/results")
    assert (too_many.status_code, "/pages" in too_many.json()["error"]) == (413, True)


class _Where:
    where = "here"

    def __init__(self, send: Any) -> None:
        self._send = send

    async def __call__(self, method: str, target: str, headers: Mapping[str, str], body: bytes) -> ApiAnswer:
        answer: ApiAnswer = await self._send(method, target, headers, body)
        return answer
