"""The routes of sites: a map, bad input with field and remedy, and what is not there."""

import pytest

from tests.contract.sites.conftest import OpenLinked
from tests.support.linked import Linked


async def test_a_map_lists_every_address_of_sitemap_and_links_and_reads_few_pages(linked: OpenLinked) -> None:
    site = await linked(pages=200, traps=False)
    job = await site.crawl(mode="map")
    assert job["state"] == "completed"
    listed = await site.get(f"/sites/{site.name}/map", limit=1000)
    paths = {row["url"].removeprefix(site.site.url("")) for row in listed}
    assert {site.site.pages.path(number) for number in range(1, 201)} <= paths
    assert "link" in {row["source"] for row in listed} <= {"sitemap", "link"}
    assert len(site.asked()) <= 32
    assert await site.pages() == {}


async def test_a_site_and_a_page_are_shown(small: Linked) -> None:
    await small.crawl()
    shown = await small.get(f"/sites/{small.name}")
    assert shown["pages"] == len(await small.pages())
    assert shown["crawls"][0]["pages"] == shown["pages"]
    page = await small.get("/sites/page", url=small.site.url(small.site.pages.path(1)))
    assert page["content"].startswith("# ")
    missing = await small.client.get("/api/v1/sites/page", params={"url": "https://other.example/"})
    assert missing.status_code == 404
    assert "forager site crawl" in missing.json()["error"]
    unknown = await small.client.get("/api/v1/sites/other.example")
    assert unknown.status_code == 404
    odd = await small.client.get("/api/v1/sites/not%20a%20host")
    assert odd.status_code in (400, 422)


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "url"),
        ({"url": "ftp://docs.example/"}, "url"),
        ({"url": "https://user:secret@docs.example/"}, "url"),
        ({"depth": -1}, "depth"),
        ({"depth": 101}, "depth"),
        ({"limit": 0}, "limit"),
        ({"limit": 1_000_001}, "limit"),
        ({"include": ["docs"]}, "include.0"),
        ({"exclude": ["https://docs.example/a"]}, "exclude.0"),
        ({"include": ["/a"] * 51}, "include"),
        ({"form": "pdf"}, "form"),
        ({"frequency": "59s"}, "frequency"),
        ({"max_bytes": 0}, "max_bytes"),
        ({"max_minutes": 0}, "max_minutes"),
        ({"deep": 1}, "deep"),
    ],
)
async def test_bad_input_names_its_field_and_stores_nothing(small: Linked, body: dict[str, object], field: str) -> None:
    given = {"url": "https://docs.example/", **body} if body else body
    refused = await small.post("/sites/crawls", given)
    assert refused.status_code in (400, 422), refused.text
    assert field in [each["field"] for each in refused.json()["meta"]["fields"]]
    assert await small.get("/jobs") == []


@pytest.mark.parametrize(
    "body", [{"depth": 100}, {"limit": 1_000_000}, {"include": ["/a"] * 50}, {"frequency": "60s"}, {"max_bytes": 1}]
)
async def test_input_at_its_limit_is_accepted(small: Linked, body: dict[str, object]) -> None:
    planned = await small.post("/sites/plan", {"url": "https://docs.example/", **body})
    assert planned.status_code == 200, planned.text


async def test_an_address_that_the_guard_refuses_is_never_requested(small: Linked) -> None:
    made = await small.post("/sites/crawls", {"url": "http://169.254.169.254/latest/"})
    assert made.status_code in (202, 400, 403, 422)
    if made.status_code == 202:
        await small.app.worker.run(until_idle=True)
        job = await small.get(f"/jobs/{made.json()['data']['job_id']}")
        assert job["completed"] == 0
