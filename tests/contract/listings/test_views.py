"""The views with the seed's names, on both stores."""

import pytest

from forager.sandbox.apify.config import RunRule
from tests.support.listings import Rentals

COLUMNS = {
    "title", "address", "unit", "city", "state", "zip", "latitude", "longitude", "rent_min", "rent_max", "beds_min",
    "beds_max", "baths_min", "baths_max", "area_min", "area_max", "amenities", "photos", "phone", "available_date",
    "source_url", "freshness_confidence", "confidence_updated_at", "verification_status", "verified_at", "times_seen",
    "first_seen_at", "last_seen_at", "market_id", "is_active",
}  # fmt: skip
"""The columns that LI-13 requires."""


async def test_the_views_show_listings_and_scrapes_in_the_words_of_the_seed__LI_13(rentals: Rentals) -> None:
    done = await rentals.scrape("boston")
    listings = await rentals.get("/listings", market="boston", limit=100)
    rows = await rentals.rows("SELECT * FROM apartments ORDER BY id DESC")
    assert rows[0].keys() >= COLUMNS
    assert [row["id"] for row in rows] == [each["id"] for each in listings]
    for row, listing in zip(rows, listings, strict=True):
        assert row["freshness_confidence"] == listing["freshness_confidence"] == 100
        assert bool(row["is_active"]) is True
        names = ("title", "address", "rent_min", "rent_max", "beds_min", "market_id", "times_seen", "source_url")
        assert {name: row[name] for name in names} == {name: listing[name] for name in names}
        assert str(row["first_seen_at"])[:10] == listing["first_seen_at"][:10]
    (job,) = await rentals.rows("SELECT * FROM scrape_jobs")
    assert (job["id"], job["status"], job["market_id"], job["new"]) == (done["id"], "completed", "boston", len(rows))
    (scrape,) = (await rentals.market("boston"))["scrapes"]
    assert scrape["job_id"] == done["id"]
    counted = ("found", "normalised", "errors", "new", "updated", "merged", "skipped", "api_ms")
    assert {name: job[name] for name in counted} == {name: scrape[name] for name in counted}
    assert job["scrape_id"] == scrape["id"]
    before = {"rejected": "errors"}  # the names of the release before, beside the new ones for one release
    for old in ("found", "normalised", "rejected", "new", "updated", "merged", "skipped"):
        assert job[f"listings_{old}"] == job[before.get(old, old)]
    assert float(job["cost_usd"]) == pytest.approx(rentals.apify.spent())
    (source,) = await rentals.rows("SELECT id, is_enabled, max_requests_per_hour FROM data_sources")
    assert (source["id"], bool(source["is_enabled"]), source["max_requests_per_hour"]) == ("apify", True, None)


async def test_confidence_in_the_view_falls_with_time__LI_13(rentals: Rentals) -> None:
    await rentals.scrape("nyc")
    ten_hours = "UPDATE listings SET confidence_updated_at = confidence_updated_at - 36000000"
    await rentals.app.database.write(ten_hours)
    rows = await rentals.rows("SELECT freshness_confidence AS points FROM apartments")
    assert {row["points"] for row in rows} == {70}
    assert {each["freshness_confidence"] for each in await rentals.get("/listings")} == {70}
    await rentals.app.database.write("UPDATE listings SET verify_at = 1")
    rows = await rentals.rows("SELECT verification_status AS status FROM apartments")
    assert {row["status"] for row in rows} == {"pending"}


async def test_scrape_jobs_has_the_id_of_the_job_however_that_was_created__LI_13(rentals: Rentals) -> None:
    """Jobs of the generic route, one with the `job_id` that parameters of the release before contain."""
    scrape = {"market_id": "boston", "city": "Boston", "state": "MA", "tier": "hot", "max_listings": 3}
    old = {"job_id": "0f1c9b52-6a7e-4d0e-8e63-0a2f3c5b7d11"}
    made = [
        await rentals.app.submit("listings", {"action": "scrape", "scrape": {**scrape, "since": since, **more}})
        for since, more in (("2026-03-01T06:00:00Z", {}), ("2026-03-02T06:00:00Z", old), ("2026-03-03T06:00:00Z", old))
    ]
    for each in made:
        await rentals.until_ended(str(each.job))
    await rentals.app.database.write("UPDATE data_sources SET is_enabled = :no", {"no": False})
    skipped = await rentals.scrape("nyc")
    rows = await rentals.rows("SELECT id, market_id, status FROM scrape_jobs ORDER BY started_at")
    assert [str(row["id"]) for row in rows] == [*(str(each.job) for each in made), skipped["id"]]
    assert (rows[-1]["market_id"], rows[-1]["status"]) == ("nyc", "skipped")


async def test_a_scrape_that_runs_has_the_id_of_its_job__LI_13(rentals: Rentals) -> None:
    rentals.apify.script_runs(RunRule(seconds=3_600.0))
    made = (await rentals.client.post("/api/v1/admin/markets/boston/scrape")).json()["data"]["job_id"]
    async with rentals.patience():
        while not (rows := await rentals.rows("SELECT id, status FROM scrape_jobs")):
            await rentals.soon()
    assert [(str(row["id"]), row["status"]) for row in rows] == [(made, "running")]
