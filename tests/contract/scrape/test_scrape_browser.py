"""The same service with a real Chromium: pages that only scripts fill, and the choice that `auto` makes."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from forager.sandbox.scrape_pages import company, job, person
from forager.sandbox.site_pages import Answer
from tests.support.scrape import Service, open_service


@pytest.fixture
async def browsing(chromium: Path, tmp_path: Path) -> AsyncIterator[Service]:
    one: dict[str, Any] = {"browser_pool_size": 1, "browser_pool_max": 1}
    async with open_service(tmp_path, chromium=chromium, **one) as opened, opened.app.engine():
        yield opened


@pytest.mark.parametrize("layout", ["script", "lazy", "jsonld", "banner"])
async def test_a_browser_reads_every_layout__SC_3__SC_10(browsing: Service, layout: str) -> None:
    answer = await browsing.sync(f"/jobs/{layout}/3", render="browser")
    assert answer.status_code == 200, answer.text
    found, said = answer.json()["data"]["result"], job(3)
    assert (found["job_title"], found["company_name"]) == (said["title"], said["company"])
    assert answer.json()["meta"]["rendered"] is True


async def test_auto_takes_a_browser_only_where_the_page_needs_one__SC_3(browsing: Service) -> None:
    plain = await browsing.sync("/jobs/jsonld/1", render="auto")
    assert plain.json()["meta"]["rendered"] is False
    assert browsing.app.browsers.stats().pages_processed == 0
    scripted = await browsing.sync("/jobs/script/1", render="auto")
    assert scripted.json()["meta"]["rendered"] is True
    assert scripted.json()["data"]["result"]["job_title"] == job(1)["title"]
    health = (await browsing.client.get("/health")).json()["data"]["pool"]
    assert (health["total"], health["pages_processed"]) == (1, 1)


async def test_profiles_and_companies_that_scripts_fill_are_read_too__SC_10(browsing: Service) -> None:
    profile = await browsing.sync("/profiles/script/2", target_type="linkedin_profile", render="auto")
    assert profile.json()["data"]["result"]["name"] == person(2)["name"]
    firm = await browsing.sync(
        "/companies/script/2", target_type="company_website", render="auto", requested_fields=["company_name"]
    )
    assert firm.json()["data"]["result"]["company_name"] == company(2)["name"]


@pytest.mark.timeout(120)
async def test_without_a_free_browser_sync_is_told_and_the_task_stays_queued__SC_2__SC_5(browsing: Service) -> None:
    """The only browser is on a page that takes longer than anybody waits for one."""
    browsing.site.answers["/endless"] = Answer(200, b"<h1>late</h1>", delay=20.0)
    holding = asyncio.create_task(browsing.sync("/endless", render="browser", timeout_seconds=60))
    while not browsing.site.visits("/endless"):
        await asyncio.sleep(0.05)
    answer = await browsing.sync("/jobs/script/1", render="browser", timeout_seconds=60)
    assert (answer.status_code, answer.json()["meta"]["reason"]) == (503, "pool_exhausted")
    task = answer.json()["meta"]["task_id"]
    assert (await browsing.data(f"/{task}"))["status"] == "queued"
    await holding
    seen = await browsing.ended((await browsing.data(f"/{task}"))["job_id"])
    assert seen["completed_tasks"] == 1
    attempts = (await browsing.client.get(f"/api/v1/tasks/{task}")).json()["data"]["attempts"]
    assert attempts == 1, "waiting for a browser burns no attempt"


async def test_a_page_that_failed_in_a_browser_is_kept_with_its_picture__SC_15(browsing: Service) -> None:
    answer = await browsing.sync("/profiles/wall/1", target_type="linkedin_profile", render="browser")
    assert (answer.status_code, answer.json()["meta"]["reason"]) == (502, "login_wall")
    task = answer.json()["meta"]["task_id"]
    dead = (await browsing.client.get(f"/api/v1/dead/{task}")).json()["data"]
    assert dead["evidence"]["has_screenshot"] is True
    picture = await browsing.client.get(f"/api/v1/dead/{task}/screenshot")
    assert (picture.status_code, picture.headers["content-type"]) == (200, "image/png")
    assert picture.content.startswith(b"\x89PNG")
    plain = await browsing.sync("/profiles/wall/1", target_type="linkedin_profile", render="http")
    missing = await browsing.client.get(f"/api/v1/dead/{plain.json()['meta']['task_id']}/screenshot")
    assert missing.status_code == 404
