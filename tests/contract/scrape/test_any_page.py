"""Any page over the API: formats, defaults, a picture by a real browser, and addresses as the site answered."""

from base64 import b64decode
from pathlib import Path
from typing import Any

import pytest

from forager.sandbox.scrape_pages import SiteAnswer
from tests.support.scrape import API, Service, open_service

HTML = b"""<!doctype html><html lang="de"><head><title>Moor</title><link rel="canonical" href="/moor"></head><body>
<h1>Moor</h1><p>Ein Moor speichert Wasser, und es braucht Jahrhunderte, bis es gewachsen ist.</p>
<a href="/torf">Torf</a></body></html>"""


async def test_a_request_without_a_type_is_any_page(simple: Service) -> None:
    simple.site.answers["/moor"] = SiteAnswer(200, HTML)
    body = {"target_url": simple.site.url("/moor"), "workspace_id": "acme", "render": "http"}
    async with simple.app.engine():
        answer = await simple.client.post(f"{API}/sync", json=body)
    assert answer.status_code == 200, answer.text
    result = answer.json()["data"]["result"]
    assert (result["title"], result["language"]) == ("Moor", "de")
    assert "speichert Wasser" in result["markdown"]
    assert not {"html", "text", "screenshot"} & result.keys()


async def test_formats_are_returned_alone(simple: Service) -> None:
    simple.site.answers["/moor"] = SiteAnswer(200, HTML)
    async with simple.app.engine():
        answer = await simple.sync("/moor", target_type="page", formats=["links", "html", "links"])
    result = answer.json()["data"]["result"]
    assert set(result) == {"links", "html"}
    assert result["links"] == [{"url": simple.site.url("/torf"), "text": "Torf"}]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"target_type": "job_posting", "formats": ["markdown"]}, "formats are for target_type page"),
        ({"target_type": "page", "formats": ["links"], "requested_fields": ["title"]}, "not both"),
        ({"target_type": "page", "formats": ["screenshot"], "render": "http"}, "made by a browser"),
        ({"target_type": "page", "formats": ["poem"]}, "markdown"),
        ({"target_type": "page", "formats": []}, "must not be empty"),
    ],
)
async def test_unavailable_formats_are_refused(simple: Service, given: dict[str, Any], message: str) -> None:
    refused = await simple.client.post(API, json=simple.target(**given))
    assert refused.status_code == 422, refused.text
    assert message in refused.text


async def test_a_picture_is_made_by_a_browser(chromium: Path, tmp_path: Path) -> None:
    pool: dict[str, Any] = {"browser_pool_size": 1, "browser_pool_max": 1}
    async with open_service(tmp_path, chromium=chromium, **pool) as service, service.app.engine():
        service.site.answers["/moor"] = SiteAnswer(200, HTML)
        answer = await service.sync("/moor", target_type="page", formats=["screenshot", "text"], render="auto")
    assert answer.json()["meta"]["rendered"] is True
    result = answer.json()["data"]["result"]
    assert b64decode(result["screenshot"]).startswith(b"\x89PNG")
    assert "speichert" in result["text"]


HIDDEN = b"""<!doctype html><html><head><title>Moor</title></head><body><main><h1>Moor</h1>
<p>Ein Moor speichert Wasser, und es braucht Jahrhunderte, bis es gewachsen ist.</p>
<p hidden>Geheim eins, das niemand liest, der die Seite betrachtet.</p>
<div aria-hidden="true"><p>Geheim zwei, das niemand liest, der die Seite betrachtet.</p></div>
<p style="color: red; display : none">Geheim drei, das niemand liest, der die Seite betrachtet.</p>
<div style="visibility:hidden"><p hidden>Geheim vier.</p><p>Geheim vier, das niemand liest.</p></div>
<p>Torf entsteht aus Pflanzen, die unter Wasser nicht verrotten.</p></main></body></html>"""


@pytest.mark.parametrize("rendered", [False, pytest.param(True, marks=pytest.mark.timeout(120))])
async def test_hidden_text_is_in_neither_markdown_nor_text__S23(chromium: Path, tmp_path: Path, rendered: bool) -> None:
    pool: dict[str, Any] = {"browser_pool_size": 1, "browser_pool_max": 1}
    async with open_service(tmp_path, chromium=chromium, **pool) as service, service.app.engine():
        service.site.answers["/moor"] = SiteAnswer(200, HIDDEN)
        how = "browser" if rendered else "http"
        answer = await service.sync("/moor", target_type="page", formats=["markdown", "text", "html"], render=how)
    result = answer.json()["data"]["result"]
    for name in ("markdown", "text"):
        assert "speichert Wasser" in result[name]
        assert "Torf entsteht" in result[name]
        assert "Geheim" not in result[name]
    assert "Geheim eins" in result["html"]


async def test_an_address_of_a_site_on_plain_http_keeps_its_scheme(simple: Service) -> None:
    async with simple.app.engine():
        answer = await simple.sync("/jobs/jsonld/1", requested_fields=["posting_url"])
    posting = answer.json()["data"]["result"]["posting_url"]
    assert posting == answer.json()["meta"]["page_url"]
    assert posting.startswith("http://")


async def test_the_page_of_a_scrape_and_of_a_failure_is_read_back_by_its_task__PR_26(service: Service) -> None:
    with_html = (await service.sync("/jobs/jsonld/1", target_type="page", formats=["html"])).json()["data"]
    task = with_html["task_id"]
    detail = (await service.client.get(f"/api/v1/pages/{task}")).json()["data"]
    assert (detail["url"], [file["name"] for file in detail["files"]]) == (service.site.url("/jobs/jsonld/1"), ["raw"])
    got = await service.client.get(detail["files"][0]["path"])
    assert (got.status_code, got.text) == (200, with_html["result"]["html"])
    assert got.headers["content-type"].startswith("text/plain")
    without = (await service.sync("/jobs/jsonld/1")).json()["data"]
    assert (await service.client.get(f"/api/v1/pages/{without['task_id']}")).status_code == 404
    await service.sync("/status/404")
    (dead,) = (await service.client.get("/api/v1/dead")).json()["data"]
    failed = (await service.client.get(f"/api/v1/pages/{dead['id']}")).json()["data"]
    assert [file["name"] for file in failed["files"]] == ["raw"]
    kept = await service.client.get(failed["files"][0]["path"])
    assert (kept.status_code, "sandbox" in kept.headers["content-security-policy"]) == (200, True)
