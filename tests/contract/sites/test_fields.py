"""Schemas over the API: stored, used by a single request, a batch and a crawl; wrong ones are refused with a field."""

import asyncio
from typing import Any

from tests.contract.sites.conftest import OpenLinked
from tests.support.linked import Linked

SCHEMA: dict[str, Any] = {
    "fields": {"title": {"css": "article h1"}, "number": {"type": "integer", "css": "article h1", "regex": r"(\d+)$"}},
    "items": {"css": "main ul li", "fields": {"to": {"css": "a", "attr": "href", "format": "uri"}}},
}


async def _scraped(site: Linked, body: dict[str, Any]) -> dict[str, Any]:
    made = await site.post("/scrape", body)
    assert made.status_code == 202, made.text
    async with asyncio.timeout(60):
        await site.app.worker.run(until_idle=True)
    got = await site.client.get(f"/api/v1/scrape/{made.json()['data']['task_id']}")
    return dict(got.json())


async def test_a_url_alone_is_a_whole_request(small: Linked) -> None:
    got = await _scraped(small, {"url": small.site.url(small.site.pages.path(1)), "render": "http"})
    assert got["data"]["status"] == "completed"
    assert got["data"]["result"]["title"] == small.site.pages.title(1)


async def test_a_request_with_a_schema_returns_its_fields_with_sources(linked: OpenLinked) -> None:
    site = await linked(pages=12, traps=False)
    schema = {**SCHEMA, "fields": {**SCHEMA["fields"], "absent": {"css": ".nowhere"}}}
    body = {"url": site.site.url(site.site.pages.path(7)), "schema": schema, "render": "http"}
    got = await _scraped(site, body)
    found, told = got["data"]["result"], got["meta"]["provenance"]
    assert (found["title"], found["number"], found["absent"]) == (site.site.pages.title(7), 7, None)
    assert len(found["items"]) == 7
    assert told["title"]["source"] == "css:article h1"
    assert told["title"]["confidence"] == 0.85
    assert "absent" not in told


async def test_a_stored_schema_is_used_by_its_name_in_requests_and_crawls(linked: OpenLinked) -> None:
    site = await linked(pages=12, traps=False)
    put = await site.client.put("/api/v1/schemas/articles", json=SCHEMA)
    assert put.status_code == 200, put.text
    assert [row["name"] for row in await site.get("/schemas")] == ["articles"]
    body = {"url": site.site.url(site.site.pages.path(2)), "schema": "articles", "render": "http"}
    assert (await _scraped(site, body))["data"]["result"]["number"] == 2
    await site.crawl(form="fields", fields="articles")
    page = (await site.pages())[site.site.pages.path(3)]
    assert page["fields"]["number"] == 3
    assert page["sources"]["number"]["source"] == "css:article h1"
    assert (await site.client.delete("/api/v1/schemas/articles")).status_code == 200
    assert (await site.client.get("/api/v1/schemas/articles")).status_code == 404


async def test_a_crawl_in_another_form_leaves_nothing_of_the_earlier_one(linked: OpenLinked) -> None:
    site = await linked(pages=6, traps=False)
    path = site.site.pages.path(3)
    address = site.site.url(path)
    await site.crawl(form="markdown")
    before = await site.get("/sites/page", url=address)
    await site.crawl(form="fields", fields=SCHEMA)
    as_fields = await site.get("/sites/page", url=address)
    await site.crawl(form="text")
    as_text = await site.get("/sites/page", url=address)

    assert (before["form"], bool(before["content"]), before["fields"]) == ("markdown", True, None)
    assert (as_fields["form"], as_fields["content"], as_fields["fields"]["number"]) == ("fields", None, 3)
    assert (as_text["form"], bool(as_text["content"]), as_text["fields"], as_text["sources"]) == (
        "text",
        True,
        None,
        None,
    )


async def test_a_crawl_with_another_schema_reads_pages_again_that_have_not_changed(linked: OpenLinked) -> None:
    site = await linked(pages=6, traps=False)
    address = site.site.url(site.site.pages.path(3))
    other: dict[str, Any] = {"fields": {"heading": {"css": "article h1"}}}
    await site.crawl(form="fields", fields=SCHEMA)
    await site.crawl(form="fields", fields=other)
    heading = (await site.get("/sites/page", url=address))["fields"]
    asked = len(site.site.log)
    await site.crawl(form="fields", fields=other)

    assert heading == {"heading": site.site.pages.title(3)}
    assert (await site.get("/sites/page", url=address))["fields"] == heading
    again = [call.status for call in list(site.site.log)[asked:] if call.path == site.site.pages.path(3)]
    assert again == [304]


async def test_wrong_schemas_are_refused_and_name_the_field(small: Linked) -> None:
    url = small.site.url()
    wrong: list[tuple[str, dict[str, Any]]] = [
        ("/scrape", {"url": url, "schema": "unknown"}),
        ("/scrape", {"url": url, "schema": {"fields": {"x": {"css": "h1["}}}}),
        ("/scrape", {"url": url, "schema": {"base": "nothing", "fields": {}}}),
        ("/scrape", {"url": url, "schema": SCHEMA, "target_type": "job_posting"}),
        ("/scrape/batch", {"targets": [{"url": url, "schema": "unknown"}]}),
        ("/sites/crawls", {"url": url, "form": "fields"}),
        ("/sites/crawls", {"url": url, "form": "fields", "fields": "unknown"}),
        ("/sites/crawls", {"url": url, "fields": SCHEMA}),
    ]
    for path, body in wrong:
        refused = await small.post(path, body)
        assert refused.status_code in (400, 422), (path, body, refused.text)
        assert refused.json()["meta"]["fields"], refused.text
    odd = await small.client.put("/api/v1/schemas/Bad%20Name", json=SCHEMA)
    assert odd.status_code in (400, 422)
    empty = await small.client.put("/api/v1/schemas/empty", json={})
    assert empty.status_code in (400, 422)


async def test_a_schema_is_learnt_from_html(small: Linked) -> None:
    pages = small.site.pages
    examples = [
        {"url": small.site.url(pages.path(n)), "html": pages.article(n), "values": {"title": pages.title(n)}}
        for n in (1, 2, 3)
    ]
    learnt = (await small.post("/schemas/learn", {"examples": examples})).json()["data"]
    assert learnt["checked"] == {"title": "3 of 3"}
    assert "title" in learnt["body"]["fields"]
    too_many = await small.post("/schemas/learn", {"examples": examples * 4})
    assert too_many.status_code in (400, 422)


async def test_pages_of_a_list_are_followed_by_next(linked: OpenLinked) -> None:
    site = await linked(pages=90, section_size=90, traps=False)
    items = {"css": "main ul:first-of-type li", "fields": {"name": {"css": "a"}}}
    schema = {"items": items, "next": "main ul:last-of-type a", "pages": 3}
    got = await _scraped(site, {"url": site.site.url("/s0/"), "schema": schema, "render": "http"})
    assert got["data"]["status"] == "completed", got
    assert len(got["data"]["result"]["items"]) >= 80
    assert len(got["meta"]["pages"]) == 3
