"""Stored pages over the API: how much there is, and the removal of what nothing refers to."""

from datetime import timedelta

from forager.core.http import Response
from forager.core.storage import is_blob
from tests.support.api import Front


async def keep(front: Front, name: str, *, days_ago: float = 0.0) -> str:
    blobs = front.app.stored_pages.blobs
    at = front.app.clock.now() - timedelta(days=days_ago)
    return await blobs.keep(Response(f"https://a.example/{name}", 200, {}, name.encode() * 100, at, 1))


async def test_stored_pages_are_counted_and_collected(front: Front) -> None:
    assert (await front.client.get("/api/v1/blobs")).json()["data"]["pages"] == 0
    assert is_blob(await keep(front, "one"))
    await keep(front, "two")
    stat = (await front.client.get("/api/v1/blobs")).json()["data"]
    assert (stat["pages"], stat["size"], stat["segments"]) == (2, 600, 1)
    planned = await front.client.post("/api/v1/blobs/gc", json={"dry_run": True})
    assert planned.json()["data"] == {"pages": 0, "kept": 2, "freed": 0, "segments": 0, "dry_run": True}
    done = await front.client.post("/api/v1/blobs/gc")
    assert (done.status_code, done.json()["data"]["kept"]) == (200, 2), "they were stored lately"
    assert (await front.client.post("/api/v1/blobs/gc", json={"really": True})).status_code == 422


async def test_a_job_is_never_given_a_stored_page_from_outside__S1(simple: Front) -> None:
    blob = await keep(simple, "secret")
    body = {"target_type": "company_website", "target_url": blob}
    for path, sent in (("scrape", body), ("scrape/sync", body), ("scrape/batch", {"targets": [body]})):
        assert (await simple.client.post(f"/api/v1/{path}", json=sent)).status_code == 422
    places = {"pipeline": "places", "params": {"keyword": "bars", "zips": ["85001"], "callback_url": blob}}
    assert (await simple.client.post("/api/v1/jobs", json=places)).status_code == 422
    scrape = {"pipeline": "scrape", "params": {"targets": [body]}}
    assert (await simple.client.post("/api/v1/jobs", json=scrape)).status_code == 422
    schedule = {**scrape, "every": 3600}
    assert (await simple.client.put("/api/v1/schedules/secret", json=schedule)).status_code == 422
    assert (await simple.client.post("/api/v1/proxies", json={"address": blob})).status_code == 422
