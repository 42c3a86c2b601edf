"""Web search through a simulated Serper: results, pages read through scrape, price, budget, refusals, kills."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from forager.core.http import Request, Response
from forager.core.task import Plan
from forager.pipelines.web.app_steps import app_steps
from forager.pipelines.web.job import ReadHits, WebJob
from forager.sandbox import FULL_DENSITY, SerperConfig, SerperSandbox
from forager.sandbox.site import SandboxSite
from tests.support.scrape import Service, open_service

API = "/api/v1/web"


@asynccontextmanager
async def opened(tmp_path: Path, url: str | None = None, **serper: Any) -> AsyncIterator[tuple[Service, SerperSandbox]]:
    async with SandboxSite() as pages:
        config = SerperConfig(
            density=FULL_DENSITY, rate_limit=None, search_site=pages.url().rstrip("/"), repeat_share=0.0, **serper
        )
        async with SerperSandbox(config) as sandbox:
            settings: dict[str, Any] = {"serper_api_key": SecretStr(config.key), "serper_base_url": sandbox.url}
            allowed = (pages.endpoint, sandbox.url.removeprefix("http://"))
            async with open_service(tmp_path, url, egress=allowed, **settings) as service:
                yield service, sandbox


@pytest.fixture(params=["sqlite", "postgres"])
async def web(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[tuple[Service, SerperSandbox]]:
    url = None if request.param == "sqlite" else str(request.getfixturevalue("app_postgres_url"))
    async with opened(tmp_path, url) as both:
        yield both


async def search(service: Service, **job: Any) -> dict[str, Any]:
    """Search, work until nothing is left to do, and return what the API then shows."""
    made = await service.client.post(f"{API}/searches", json={"query": "oak table care", **job})
    assert made.status_code == 202, made.text
    await service.work()
    return await show(service, made.json()["data"]["job_id"])


async def show(service: Service, job: str) -> dict[str, Any]:
    got = await service.client.get(f"{API}/searches/{job}")
    assert got.status_code == 200, got.text
    return dict(got.json()["data"])


async def test_a_search_returns_results_and_reads_the_first_ones(web: tuple[Service, SerperSandbox]) -> None:
    service, sandbox = web
    found = await search(service, read=3)
    assert (found["status"], found["credits"], found["done"]) == ("completed", 1, True)
    assert [each["position"] for each in found["results"]] == list(range(1, 11))
    assert found["results"][0]["title"] == "oak table care: result 1"
    read = [each["page"] for each in found["results"]]
    assert [page is not None for page in read] == [True] * 3 + [False] * 7
    assert {page["status"] for page in read[:3]} == {"completed"}
    assert all(len(page["markdown"]) > 50 for page in read[:3])
    assert sandbox.stats()["requests"] == 1


async def test_without_read_nothing_is_read(tmp_path: Path) -> None:
    async with opened(tmp_path) as (service, _):
        found = await search(service, country="de", language="de")
        assert (found["read_job"], found["done"], len(found["results"])) == (None, True, 10)
        assert all(each["page"] is None for each in found["results"])


async def test_the_budget_holds_and_the_estimate_is_the_price(tmp_path: Path) -> None:
    async with opened(tmp_path) as (service, _):
        body = {"query": "oak", "pages": 5, "max_credits": 2}
        plan = (await service.client.post(f"{API}/plan", json=body)).json()["data"]
        assert (plan["queries"], plan["worst_credits"]) == (5, 2)
        found = await search(service, pages=5, max_credits=2)
        assert (found["credits"], len(found["results"])) == (2, 20)
        job = (await service.client.get(f"/api/v1/jobs/{found['job_id']}")).json()["data"]
        assert (job["completed"], job["skipped"]) == (2, 3)


async def test_it_shares_the_lane_and_the_cap_of_places(tmp_path: Path) -> None:
    async with opened(tmp_path) as (service, _):
        found = await search(service)
        tasks = (await service.client.get(f"/api/v1/jobs/{found['job_id']}/tasks")).json()["data"]
        assert [each["lane"] for each in tasks] == ["serper"]
        spent = await service.app.database.fetch(
            "SELECT s.spent FROM spending s JOIN lanes l ON l.id = s.lane_id WHERE l.name = 'serper'", {}
        )
        assert [row["spent"] for row in spent] == [1]


@pytest.mark.parametrize(("serper", "reason"), [({"credits": 0}, "no credits left"), ({"key": "another"}, "API key")])
async def test_a_refusal_that_needs_an_operator_pauses_the_job(
    tmp_path: Path, serper: dict[str, Any], reason: str
) -> None:
    async with opened(tmp_path, **serper) as (service, sandbox):
        if "key" in serper:
            sandbox.serper._accounts.clear()
        found = await search(service)
        assert found["status"] == "paused"
        job = (await service.client.get(f"/api/v1/jobs/{found['job_id']}")).json()["data"]
        assert reason in job["reason"]


async def test_a_step_that_dies_after_the_scrape_job_was_created_finds_it_again(tmp_path: Path) -> None:
    """The kill is between the creation of the scrape job and the commit that names it: the attempt is repeated."""
    async with opened(tmp_path) as (service, _):
        job = WebJob(query="oak", read=2, search="0" * 31 + "1")
        task = ReadHits(search=job.search or "", targets=[job.target(service.site.url("/companies/jsonld/1"))])
        assert Plan(task).task.key() == job.search
        step = app_steps(service.app)[ReadHits.kind]

        async def no_fetch(request: Request) -> Response:
            raise AssertionError("it requests nothing")

        for _ in range(2):
            await step(task, no_fetch)
        jobs = (await service.client.get("/api/v1/jobs?pipeline=scrape")).json()["data"]
        assert len(jobs) == 1


async def test_max_age_reads_stored_pages(tmp_path: Path) -> None:
    async with opened(tmp_path) as (service, _):
        await search(service, read=1, max_age=3600)
        again = await search(service, read=1, max_age=3600)
        assert again["results"][0]["page"]["stored"] is True


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"query": ""}, "query"),
        ({"query": "x" * 401}, "query"),
        ({"query": "a\x07b"}, "query"),
        ({"pages": 0}, "pages"),
        ({"pages": 11}, "pages"),
        ({"read": 11}, "read"),
        ({"read": -1}, "read"),
        ({"country": "DE"}, "country"),
        ({"max_age": "1h"}, "max_age"),
        ({"max_credits": -1}, "max_credits"),
        ({"depth": 1}, "depth"),
    ],
)
async def test_what_cannot_be_searched_is_refused_with_its_field(
    tmp_path: Path, given: dict[str, Any], field: str
) -> None:
    async with opened(tmp_path) as (service, _):
        refused = await service.client.post(f"{API}/searches", json={"query": "oak", **given})
        assert refused.status_code == 422, refused.text
        assert field in [each["field"] for each in refused.json()["meta"]["fields"]]


async def test_the_largest_values_are_taken(tmp_path: Path) -> None:
    async with opened(tmp_path) as (service, _):
        body = {"query": "x" * 400, "pages": 10, "read": 10, "max_age": 366 * 24 * 3600}
        taken = await service.client.post(f"{API}/searches", json=body)
        assert taken.status_code == 202, taken.text
