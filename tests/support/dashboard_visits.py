"""A person at the dashboard: one real browser for a file of tests, an API on a port, and pages that are signed in."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from forager.api import create_api
from forager.app.application import App
from tests.support.api import KEY
from tests.support.chromium import require_chromium
from tests.support.served import served

if TYPE_CHECKING:
    from playwright.async_api import Browser, Page

WIDE, PHONE = 1280, 390
PATIENCE_MS = 60_000
"""A browser on a machine that is busy with other tests is slow."""


@asynccontextmanager
async def open_browser() -> AsyncIterator["Browser"]:
    """Start Chromium; the test is skipped where there is none."""
    chromium = require_chromium()
    from playwright.async_api import async_playwright

    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(
            executable_path=str(chromium), args=["--no-sandbox", "--disable-gpu"]
        )
        yield browser
        await browser.close()


@asynccontextmanager
async def at_work(app: App, *, engine: bool = True) -> AsyncIterator[str]:
    """Serve the API of this application, with its engine at work. Yields its address."""
    api = create_api(app, key=KEY)
    working = asyncio.create_task(app.worker.run()) if engine else None
    try:
        async with served(api) as url:
            try:
                yield url
            finally:
                api.state.feeds.closing.set()  # ends the event streams, which would hold up the server
    finally:
        if working is not None:
            app.worker.stop()
            await working


@asynccontextmanager
async def signed_in(browser: "Browser", url: str, width: int, *, allowed: Sequence[str] = ()) -> AsyncIterator["Page"]:
    """A page of a signed-in browser of this width. The test fails over any error in its console but those that contain
    a text of `allowed`, and over content that is wider than the page."""
    context = await browser.new_context(viewport={"width": width, "height": 860}, reduced_motion="reduce")
    context.set_default_timeout(PATIENCE_MS)
    page = await context.new_page()
    await page.goto(url)
    await page.fill("input[name=key]", KEY)
    await page.keyboard.press("Enter")
    await page.wait_for_selector(".shell")
    complaints: list[Any] = []
    page.on("console", lambda said: complaints.append(said.text) if said.type == "error" else None)
    page.on("pageerror", lambda error: complaints.append(f"{error} {error.stack}"))
    yield page
    wide = await page.evaluate("document.documentElement.scrollWidth - innerWidth")
    await context.close()
    assert [said for said in complaints if not any(text in said for text in allowed)] == []
    assert wide <= 0, f"the page is {wide} px wider than its window of {width} px"
