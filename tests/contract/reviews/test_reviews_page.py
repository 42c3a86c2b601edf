"""The page `/demo`: who gets it, what its ticket opens, and what a person sees in a real browser."""

import asyncio
import base64
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import uvicorn

from forager.api.auth import TICKET_SECONDS, ServiceKey
from tests.support.api import KEY, client_of
from tests.support.chromium import require_chromium
from tests.support.ports import free_ports
from tests.support.reviews import API, TOKEN, Reviews, open_reviews

BASIC = {"Authorization": "Basic " + base64.b64encode(f"me:{KEY}".encode()).decode()}


async def ticket_of(service: Reviews) -> str:
    async with client_of(service.api, key=None) as browser:
        page = await browser.get("/demo", headers=BASIC)
    assert page.status_code == 200
    found = re.search(r'name="ticket" content="([^"]+)"', page.text)
    assert found
    return found[1]


async def test_the_page_needs_a_sign_in_and_runs_only_its_own_script__RV_10(simple: Reviews) -> None:
    async with client_of(simple.api, key=None) as stranger:
        refused = await stranger.get("/demo")
        assert (refused.status_code, refused.headers["www-authenticate"][:5]) == (401, "Basic")
        page = await stranger.get("/demo", headers=BASIC)
    policy = page.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert page.headers["cache-control"] == "no-store"
    assert KEY not in page.text
    assert not re.search(r"src=|<link|@import|url\(", page.text), "it loads nothing else"


async def test_a_ticket_opens_the_routes_of_the_page_and_no_other__S11(simple: Reviews) -> None:
    sent = {"X-Page-Ticket": await ticket_of(simple)}
    async with client_of(simple.api, key=None) as page:
        made = await page.post(API, json={"access_token": TOKEN}, headers=sent)
        assert made.status_code == 202
        job = made.json()["data"]["job_id"]
        assert (await page.get(f"{API}/{job}", headers=sent)).status_code == 200
        for path in (
            "/api/v1/jobs",
            f"/api/v1/jobs/{job}",
            "/api/v1/records/review",
            "/demo",
            "/docs",
            "/api/v1/sinks",
        ):
            assert (await page.get(path, headers=sent)).status_code == 401, path
        assert (
            await page.get(f"{API}/{job}", headers={"Cookie": f"ticket={sent['X-Page-Ticket']}"})
        ).status_code == 401


async def test_a_ticket_that_is_forged_late_or_of_an_old_key_opens_nothing__S12(
    simple: Reviews, monkeypatch: pytest.MonkeyPatch
) -> None:
    good = await ticket_of(simple)
    expires, _, signature = good.partition(".")
    forged = [
        "",
        ".",
        expires,
        f"{int(expires) + 1}.{signature}",
        f"{expires}.{signature[:-1]}",
        f"-1.{signature}",
        "x.y",
    ]
    target = f"{API}/0f1c9b52-6a7e-4d0e-8e63-0a2f3c5b7d11"
    async with client_of(simple.api, key=None) as page:
        for ticket in [*forged, ServiceKey("another key").ticket()]:
            assert (await page.get(target, headers={"X-Page-Ticket": ticket})).status_code == 401, ticket
        both = [("X-Page-Ticket", good), ("X-Page-Ticket", good)]
        assert (await page.get(target, headers=both)).status_code == 401
        assert (await page.get(target, headers={"X-Page-Ticket": good})).status_code == 404
        with monkeypatch.context() as later:
            later.setattr("forager.api.auth.time.time", lambda: int(expires) + 1.0)
            assert (await page.get(target, headers={"X-Page-Ticket": good})).status_code == 401
        simple.api.state.service_key.replace("a new service key of this server")
        assert (await page.get(target, headers={"X-Page-Ticket": good})).status_code == 401
    assert TICKET_SECONDS == 12 * 3600


@asynccontextmanager
async def served(service: Reviews) -> AsyncIterator[str]:
    """The API on a port, and its engine at work."""
    (port,) = free_ports(1)
    # Without a log of its own: that would change the loggers of the whole process.
    server = uvicorn.Server(uvicorn.Config(service.api, port=port, log_config=None, lifespan="off"))
    tasks = [asyncio.create_task(server.serve()), asyncio.create_task(service.app.worker.run())]
    while not server.started:
        await asyncio.sleep(0.01)
    yield f"http://127.0.0.1:{port}"
    service.app.worker.stop()
    service.api.state.feeds.closing.set()
    server.should_exit = True
    await asyncio.gather(*tasks)


async def test_a_person_enters_a_token_and_sees_everything_nested__RV_10(tmp_path: Path) -> None:
    chromium = require_chromium()
    from playwright.async_api import async_playwright

    async with open_reviews(tmp_path, locations=8) as service, served(service) as url, async_playwright() as playwright:
        options: dict[str, Any] = {"executable_path": str(chromium), "args": ["--no-sandbox", "--disable-gpu"]}
        browser = await playwright.chromium.launch(**options)
        page = await browser.new_page(http_credentials={"username": "me", "password": KEY}, color_scheme="light")
        complaints: list[str] = []
        page.on("console", lambda said: complaints.append(said.text) if said.type == "error" else None)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        await page.goto(f"{url}/demo")
        await page.fill("#token", "two words")
        await page.click("button")
        await page.wait_for_selector("#status.failed", timeout=30_000)
        assert "white space" in await page.inner_text("#status"), "the page shows what the server answered"
        assert len(complaints) == 1, "the browser's own line about the 400"
        complaints.clear()
        await page.fill("#token", "ya29.expired")
        await page.click("button")
        await page.locator("#status.failed", has_text="could not be fetched").wait_for(timeout=30_000)
        assert "access token" in await page.inner_text("#status"), "the page shows why Google refused"
        await page.fill("#token", TOKEN)
        await page.click("button")
        await page.wait_for_selector("#status.ended", timeout=30_000)
        job = (await page.evaluate("location.hash"))[1:]
        seen = await service.seen(job)
        for name in ("accounts", "locations", "reviews"):
            assert await page.inner_text(f"#{name}") == f"{seen[name]:,}"
        assert await page.locator("#tree > details").count() == seen["accounts"]
        await page.locator("#tree > details > details > summary").first.click()
        assert await page.locator("li >> visible=true").count() > 0
        assert TOKEN not in await page.content()
        await page.screenshot(path=str(tmp_path / "demo.png"))
        await page.reload()
        await page.wait_for_selector("#status.ended", timeout=30_000)
        assert await page.inner_text("#reviews") == f"{seen['reviews']:,}", "a reload follows the same job"
        assert complaints == []
        await browser.close()
