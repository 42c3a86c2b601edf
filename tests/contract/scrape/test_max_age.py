"""`max_age`: a recently stored page answers without a request, and the result is marked as stored."""

from pathlib import Path
from typing import Any

import pytest

from forager.core.storage import blobs_in
from forager.sandbox.scrape_pages import SiteAnswer
from tests.support.scrape import API, Service, open_service

PAGE = b"""<!doctype html><html lang="en"><head><title>Peat</title></head><body><main><h1>Peat</h1>
<p>A bog stores water, and it takes centuries until it has grown as deep as this one.</p>
<a href="/moss">Moss</a></main></body></html>"""


def asked(service: Service, path: str) -> int:
    """Requests for a page that the site has received."""
    return sum(each.path == path for each in service.site.log)


async def read(service: Service, path: str = "/peat", **more: Any) -> dict[str, Any]:
    answer = await service.sync(path, **{"target_type": "page", **more})
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


async def test_a_recently_stored_page_answers_without_a_request_and_is_marked_as_stored(service: Service) -> None:
    service.site.answers["/peat"] = SiteAnswer(200, PAGE)
    first = await read(service, max_age=3600)
    assert (first["meta"]["stored"], asked(service, "/peat")) == (False, 1)
    again = await read(service, max_age=3600)
    assert (again["meta"]["stored"], asked(service, "/peat")) == (True, 1)
    assert again["meta"]["fetched_at"] == first["meta"]["fetched_at"]
    assert again["data"]["result"] == first["data"]["result"]


async def test_without_max_age_and_with_zero_the_page_is_fetched(simple: Service) -> None:
    simple.site.answers["/peat"] = SiteAnswer(200, PAGE)
    await read(simple, max_age=3600)
    ages: list[dict[str, Any]] = [{}, {"max_age": 0}]
    for number, more in enumerate(ages, 2):
        answer = await read(simple, **more)
        assert (answer["meta"]["stored"], asked(simple, "/peat")) == (False, number)


async def test_a_page_that_is_too_old_is_fetched_again(simple: Service) -> None:
    simple.site.answers["/peat"] = SiteAnswer(200, PAGE)
    await read(simple, max_age=0)
    await simple.app.database.write("UPDATE scrape_results SET fetched_at = fetched_at - 61000", {})
    assert (await read(simple, max_age=60))["meta"]["stored"] is False
    assert asked(simple, "/peat") == 2
    await simple.app.database.write("UPDATE scrape_results SET fetched_at = fetched_at - 50000", {})
    assert (await read(simple, max_age=60))["meta"]["stored"] is True


async def test_a_page_that_was_read_as_text_answers_a_schema_and_links(simple: Service) -> None:
    simple.site.answers["/peat"] = SiteAnswer(200, PAGE)
    await read(simple, max_age=3600, formats=["text"])
    schema = {"fields": {"heading": {"css": "h1"}}}
    by_schema = await read(simple, max_age=3600, page_schema=schema)
    assert (by_schema["meta"]["stored"], by_schema["data"]["result"]) == (True, {"heading": "Peat"})
    links = await read(simple, max_age=3600, formats=["links"])
    assert links["data"]["result"]["links"] == [{"url": simple.site.url("/moss"), "text": "Moss"}]
    assert asked(simple, "/peat") == 1


async def test_a_page_that_was_fetched_without_max_age_is_not_stored(simple: Service) -> None:
    simple.site.answers["/peat"] = SiteAnswer(200, PAGE)
    await read(simple)
    assert (await read(simple, max_age=3600))["meta"]["stored"] is False
    rows = await simple.app.database.fetch("SELECT stored_pages FROM scrape_results ORDER BY id", {})
    assert [len(blobs_in(row["stored_pages"])) for row in rows] == [0, 1]


async def test_a_stored_page_is_not_rendered_and_a_browser_is_requested(simple: Service) -> None:
    simple.site.answers["/peat"] = SiteAnswer(200, PAGE)
    await read(simple, max_age=3600)
    task = await simple.ask("/peat", target_type="page", max_age=3600, render="browser")
    found = await simple.client.get(f"/api/v1/tasks/{task}")
    assert found.json()["data"]["lane"] != "stored-pages"


async def test_a_stored_page_that_is_lost_is_fetched_again(simple: Service) -> None:
    simple.site.answers["/peat"] = SiteAnswer(200, PAGE)
    await read(simple, max_age=3600)
    gone = "blob:" + "0" * 40
    await simple.app.database.write(
        "UPDATE scrape_results SET stored_pages = :pages",
        {"pages": f'{{"{simple.site.url("/peat")}": "{gone}"}}'},
    )
    answer = await read(simple, max_age=3600)
    assert (answer["meta"]["stored"], asked(simple, "/peat")) == (False, 2)


async def test_a_stored_page_stays_while_its_result_does(simple: Service) -> None:
    simple.site.answers["/peat"] = SiteAnswer(200, PAGE)
    await read(simple, max_age=3600)
    found = [url async for urls in simple.app.stored_pages._references() for url in urls]
    (row,) = await simple.app.database.fetch("SELECT stored_pages FROM scrape_results", {})
    assert blobs_in(row["stored_pages"])[0] in found
    listed = (await simple.client.get("/api/v1/pages?kind=scrape_result")).json()["data"]
    assert [each["url"] for each in listed] == [simple.site.url("/peat")]


async def test_further_pages_of_a_company_are_stored_too(simple: Service) -> None:
    first = await read(simple, "/companies/jsonld/1", target_type="company_website", max_age=3600)
    before = len(simple.site.log)
    again = await read(simple, "/companies/jsonld/1", target_type="company_website", max_age=3600)
    assert again["meta"]["pages"] == first["meta"]["pages"]
    assert (again["meta"]["stored"], len(simple.site.log)) == (True, before)
    assert again["data"]["result"] == first["data"]["result"]


async def test_a_stored_page_does_not_wait_for_the_turn_of_its_site(tmp_path: Path) -> None:
    slow = """
domains:
  default:
    tokens_per_interval: 1
    interval_seconds: 3600
    respect_robots_txt: false
"""
    async with open_service(tmp_path, policies=slow) as service, service.app.engine():
        service.site.answers["/peat"] = SiteAnswer(200, PAGE)
        await read(service, max_age=3600)
        assert (await read(service, max_age=3600, timeout_seconds=30))["meta"]["stored"] is True


async def test_a_batch_names_the_age_for_each_page(simple: Service) -> None:
    for name in ("a", "b"):
        simple.site.answers[f"/{name}"] = SiteAnswer(200, PAGE)
    await read(simple, "/a", max_age=3600)
    targets = [simple.target(f"/{name}", target_type="page", max_age=60) for name in ("a", "b")]
    job = await simple.batch(targets)
    await simple.ended(job)
    results = await simple.data(f"/jobs/{job}/results")
    assert [each["meta"]["stored"] for each in results] == [True, False]


@pytest.mark.parametrize("age", [-1, 366 * 24 * 3600 + 1, "1h", 1.5, True])
async def test_an_age_that_is_not_seconds_is_refused(still: Service, age: object) -> None:
    refused = await still.client.post(API, json=still.target(max_age=age))
    assert refused.status_code == 422, refused.text
    assert [each["field"] for each in refused.json()["meta"]["fields"]] == ["max_age"]


async def test_the_oldest_age_is_taken(still: Service) -> None:
    taken = await still.client.post(API, json=still.target(max_age=366 * 24 * 3600))
    assert taken.status_code == 202, taken.text
