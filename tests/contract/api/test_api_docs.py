"""The page that documents the API: complete, self-contained, and harmless whatever a description contains."""

import asyncio
import base64
import copy
import json
import re
from collections import Counter
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from forager.api.create import create_api
from forager.api.docs import page_of
from forager.api.serve import running
from tests.support.api import KEY, Front, client_of

NASTY = "</style></pre></code><script>alert(1)</script>\"'`x<b>`&amp;"


class Read(HTMLParser):
    """Every tag with its attributes, and the text."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data


@pytest.mark.parametrize("path", ["/openapi.json", "/llms-full.txt", "/docs"])
async def test_the_document_is_made_outside_the_event_loop(simple: Front, path: str) -> None:
    """Making it takes seconds of CPU time. On the loop, no heartbeat and no request would be served meanwhile."""
    turns = 0
    async with client_of(create_api(simple.app, key=KEY)) as client:  # one that has not made it yet
        getting = asyncio.create_task(client.get(path))
        while not getting.done():
            await asyncio.sleep(0.005)
            turns += 1
        assert (await getting).status_code == 200
    assert turns > 10


async def test_the_page_shows_every_operation_of_the_document(simple: Front) -> None:
    got = await simple.client.get("/docs")
    document = (await simple.client.get("/openapi.json")).json()
    assert got.headers["content-type"] == "text/html; charset=utf-8"
    shown = Read(got.text)
    ids = [attributes["id"] for tag, attributes in shown.tags if tag == "article"]
    operations = [operation for each in document["paths"].values() for operation in each.values()]
    assert sorted(ids, key=str) == sorted(operation["operationId"] for operation in operations)
    bounds = ("string, 1 to 200 characters", "matches ^[A-Z]{2}$")
    for said in (*document["paths"], *(operation["summary"] for operation in operations), "coffee roasters", *bounds):
        assert said in shown.text, said
    targets = {attributes.get("id") for _, attributes in shown.tags}
    links = [attributes["href"] or "" for tag, attributes in shown.tags if tag == "a"]
    assert {link for link in links if link[1:] not in targets} == {"/openapi.json"}


async def test_the_page_loads_nothing_and_runs_its_own_script_alone(simple: Front) -> None:
    got = await simple.client.get("/docs")
    shown = Read(got.text)
    assert not {tag for tag, _ in shown.tags} & {"link", "img", "iframe", "object", "base"}
    assert [attributes for tag, attributes in shown.tags if tag == "script"] == [{}]
    assert not [name for _, attributes in shown.tags for name in attributes if name.startswith("on") or name == "style"]
    assert not re.search(r"url\(|@import|https?://", got.text.partition("</style>")[0])
    policy = got.headers["content-security-policy"]
    assert re.match(r"default-src 'none'; style-src 'sha256-\S+'; script-src 'sha256-\S+'; connect-src 'self';", policy)
    assert "form-action 'none'" in policy
    assert "unsafe" not in policy
    assert "frame-ancestors 'none'" in policy


async def test_nothing_of_the_document_becomes_markup(simple: Front) -> None:
    plain = Read(page_of(simple.api.openapi()))
    nasty = Read(page_of(_made_nasty(copy.deepcopy(simple.api.openapi()))))
    assert [tag for tag, _ in nasty.tags].count("script") == 1
    marks = {"article", "h3", "h4", "table", "tr", "pre", "style", "b"}
    counted = [[tag for tag, _ in each.tags if tag in marks] for each in (plain, nasty)]
    assert counted[0] == counted[1]
    assert nasty.text.count("<script>alert(1)</script>") > 300


def _made_nasty(value: Any, name: str = "") -> Any:
    """Whatever is written for people, in words that would like to be markup."""
    if isinstance(value, dict):
        return {key: _made_nasty(each, key) for key, each in value.items()}
    if isinstance(value, list):
        return [_made_nasty(each, name) for each in value]
    is_for_people = isinstance(value, str) and name in ("summary", "description", "version", "pattern")
    return value + NASTY if is_for_people else value


async def test_a_call_is_tried_from_the_page_in_a_browser(simple: Front, chromium: Path) -> None:
    from playwright.async_api import async_playwright

    async with running(simple.api, host="127.0.0.1", port=0) as url, async_playwright() as play:
        browser = await play.chromium.launch(executable_path=str(chromium), args=["--no-sandbox"])
        context = await browser.new_context(http_credentials={"username": "me", "password": KEY})
        page = await context.new_page()
        await page.set_viewport_size({"width": 400, "height": 800})
        await page.goto(f"{url}/docs/plain")
        assert not await page.locator("nav ul").first.is_visible(), "on a narrow screen the contents begin closed"
        assert await page.evaluate("document.documentElement.scrollWidth") == 400
        await page.fill("#key", KEY)
        form = page.locator("article#create_job form")
        await page.locator("article#create_job details.try > summary").click()
        body = {"pipeline": "places", "params": {"keyword": "bars", "zips": ["85001"], "pages": 1}}
        await form.locator("textarea").fill(json.dumps(body))
        await form.locator("button").click()
        await form.locator("output", has_text="202 ").wait_for()
        await page.fill("#key", "wrong")
        await form.locator("button").click()
        await form.locator("output", has_text="401 ").wait_for()
        await browser.close()
    assert len(await simple.data("/api/v1/jobs")) == 1


async def test_the_forms_work_for_a_browser_that_has_signed_in(simple: Front) -> None:
    """A ticket of the page is required: a password would also be sent by requests that a foreign page triggers."""
    signed_in = {"Authorization": "Basic " + base64.b64encode(f"anyone:{KEY}".encode()).decode()}
    async with client_of(simple.api, key=None) as browser:
        page = await browser.get("/docs", headers=signed_in)
        ticket = next(a["content"] or "" for tag, a in Read(page.text).tags if a.get("name") == "ticket")
        assert page.headers["cache-control"] == "no-store"
        assert KEY not in page.text
        sent = {"X-Page-Ticket": ticket}
        for path in ("/api/v1/jobs", "/api/v1/lanes", "/api/v1/review-fetch/0f1c9b52-6a7e-4d0e-8e63-0a2f3c5b7d11"):
            assert (await browser.get(path, headers=sent)).status_code in (200, 404), path
            assert (await browser.get(path, headers=signed_in)).status_code == 401, path
        assert (await browser.post("/api/v1/dead/retry", headers=sent, json={})).status_code == 200
        of_demo = {"X-Page-Ticket": simple.api.state.service_key.ticket("demo")}
        assert (await browser.get("/api/v1/jobs", headers=of_demo)).status_code == 401
        simple.api.state.service_key.replace("another-key-from-now-on")
        assert (await browser.get("/api/v1/jobs", headers=sent)).status_code == 401
    script = page.text.rpartition("<script>")[2]
    assert "X-Page-Ticket" in script


async def test_every_model_of_the_document_has_a_title_of_its_own(simple: Front) -> None:
    schemas = (await simple.client.get("/openapi.json")).json()["components"]["schemas"]
    titles = Counter(schema.get("title", name) for name, schema in schemas.items())
    assert [title for title, times in titles.items() if times > 1] == []
