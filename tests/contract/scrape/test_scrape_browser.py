"""The same service with a real Chromium: pages that only scripts fill, and the choice that `auto` makes."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from forager.sandbox.scrape_pages import SiteAnswer, company, job, page, person
from tests.support.scrape import Service, open_service

ONE: dict[str, Any] = {"browser_pool_size": 1, "browser_pool_max": 1}


@pytest.fixture
async def browsing(chromium: Path, tmp_path: Path) -> AsyncIterator[Service]:
    async with open_service(tmp_path, chromium=chromium, **ONE) as opened, opened.app.engine():
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


SHELL = """<!doctype html><html><head><title>Firm</title>
<script type="application/ld+json">{"@context": "https://schema.org", "@type": "Organization", "name": "Brass & Bell",
"email": "office@brass.example"}</script></head>
<body><div id="root"></div><script src="/app.js"></script></body></html>"""


async def test_auto_starts_no_browser_for_a_page_whose_data_has_every_field__SC_3(browsing: Service) -> None:
    browsing.site.answers["/firm"] = SiteAnswer(200, SHELL.encode())
    wanted = ["company_name", "contact_email"]
    answer = await browsing.sync("/firm", target_type="company_website", render="auto", requested_fields=wanted)
    assert answer.status_code == 200, answer.text
    assert answer.json()["data"]["result"] == {"company_name": "Brass & Bell", "contact_email": "office@brass.example"}
    assert answer.json()["meta"]["rendered"] is False
    assert browsing.app.browsers.stats().pages_processed == 0
    more = await browsing.sync(
        "/firm", target_type="company_website", render="auto", requested_fields=[*wanted, "industry"]
    )
    assert more.json()["meta"]["rendered"] is True  # scripts may show what is missing


GROWING = """<!doctype html><html><head><title>Endless</title></head><body><div id="list"></div><script>
let count = 0;
function more() { for (let n = 0; n < 40; n++) { const p = document.createElement("p");
  p.textContent = `Part ${count} is a paragraph with several words, number ${n}.`;
  document.getElementById("list").append(p); }
  count++; }
more();
addEventListener("scroll", () => {
  if (count < 50 && innerHeight + scrollY >= document.body.scrollHeight - 200) more(); });
</script></body></html>"""


async def test_any_page_is_scrolled_five_times_while_it_grows__SC_10(browsing: Service) -> None:
    browsing.site.answers["/endless"] = SiteAnswer(200, GROWING.encode())
    answer = await browsing.sync(
        "/endless", target_type="page", render="browser", formats=["html"], timeout_seconds=120
    )
    assert answer.status_code == 200, answer.text
    html = answer.json()["data"]["result"]["html"]
    assert "Part 5 is a paragraph" in html
    assert "Part 9 is a paragraph" not in html


async def test_profiles_and_companies_that_scripts_fill_are_read_too__SC_10(browsing: Service) -> None:
    profile = await browsing.sync("/profiles/script/2", target_type="linkedin_profile", render="auto")
    assert profile.json()["data"]["result"]["name"] == person(2)["name"]
    firm = await browsing.sync(
        "/companies/script/2", target_type="company_website", render="auto", requested_fields=["company_name"]
    )
    assert firm.json()["data"]["result"]["company_name"] == company(2)["name"]


async def test_without_a_free_browser_sync_returns_an_error_and_the_task_stays_queued__SC_2__SC_5(
    browsing: Service,
) -> None:
    """The only browser is on a page that takes longer than anybody waits for one."""
    browsing.site.answers["/endless"] = SiteAnswer(200, b"<h1>late</h1>", delay=20.0)
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


async def test_a_navigation_that_takes_too_long_fails_once_counts_against_the_site_and_frees_its_browser__SC_4__SC_8(
    chromium: Path, tmp_path: Path
) -> None:
    limits: dict[str, Any] = {"navigation_timeout_ms": 1_500, "cb_failure_threshold": 1, "cb_window_size": 1}
    async with open_service(tmp_path, chromium=chromium, **ONE, **limits) as service, service.app.engine():
        service.site.answers["/endless"] = SiteAnswer(200, b"<h1>late</h1>", delay=60.0)
        answer = await service.sync("/endless", render="browser")
        assert (answer.status_code, answer.json()["meta"]["reason"]) == (504, "timed_out")
        assert len(service.site.visits("/endless")) == 1
        task = (await service.client.get(f"/api/v1/tasks/{answer.json()['meta']['task_id']}")).json()["data"]
        assert (task["state"], task["attempts"]) == ("failed", 1)
        assert service.app.browsers.stats().in_use == 0
        again = await service.sync("/jobs/jsonld/1", render="browser")
        assert (again.status_code, again.json()["meta"]["reason"]) == (503, "circuit_open")


async def test_a_visit_that_outlasts_its_task_fails_once_with_504_and_frees_its_browser__SC_2__SC_4(
    chromium: Path, tmp_path: Path
) -> None:
    """The page is there at once, but what its extractor waits for never comes."""
    async with (
        open_service(tmp_path, chromium=chromium, task_timeout_seconds=5, **ONE) as service,
        service.app.engine(),
    ):
        service.site.answers["/bare"] = page("Bare", "<p>Nothing.</p>")
        async with service.app.browsers._pool.browser():
            pass  # it has started: that takes long on a busy machine, and is no part of the five seconds
        answer = await service.sync("/bare", render="browser")
        assert (answer.status_code, answer.json()["meta"]["reason"]) == (504, "timed_out")
        assert "within 5 s" in answer.json()["error"]
        assert len(service.site.visits("/bare")) == 1
        seen = await service.data(f"/{answer.json()['meta']['task_id']}")
        assert (seen["status"], seen["reason"]) == ("failed", "timed_out")
        async with asyncio.timeout(60):
            while service.app.browsers.stats().in_use:
                await asyncio.sleep(0.01)
        assert (await service.sync("/jobs/jsonld/1", render="http")).status_code == 200
