"""The budget of a crawl (pages, bytes, minutes) at and past its limits, and in its plan."""

from tests.support.linked import Linked


async def test_a_crawl_fetches_exactly_as_many_pages_as_its_limit(small: Linked) -> None:
    job = await small.crawl(limit=5)
    assert job["spent"] == 5
    assert len(await small.pages()) == 5
    assert (await small.row())["pages"] == 5


async def test_no_page_begins_once_the_bytes_are_spent(small: Linked) -> None:
    job = await small.crawl(max_bytes=1)
    assert len(await small.pages()) >= 1
    row = await small.row()
    assert row["pages"] <= 33, "what was in flight when the budget was reached"
    assert job["skipped"] > 0 or row["pages"] == job["completed"] - 2


async def test_no_page_begins_after_the_minutes(small: Linked) -> None:
    job = await small.crawl(max_minutes=0.00001)
    assert job["skipped"] >= 1
    assert await small.pages() == {}


async def test_an_estimate_fetches_nothing_and_is_better_after_a_map(small: Linked) -> None:
    body = {"url": small.site.url(), "limit": 10}
    planned = (await small.post("/sites/plan", body)).json()["data"]
    assert (planned["known"], planned["at_most"]) == (None, 10)
    assert small.asked() == []
    await small.crawl(mode="map")
    planned = (await small.post("/sites/plan", body)).json()["data"]
    assert planned["known"] >= 12
    assert planned["seconds"] is not None
