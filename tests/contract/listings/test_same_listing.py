"""One listing on two portals: merged on evidence, split permanently, gone only when both portals dropped it."""

from typing import Any

from tests.contract.listings.conftest import OpenRentals
from tests.support.listings import Rentals

TWINS = {"homes": 6, "moving_share": 0.0, "twin_share": 1.0}
"""Every home is on two portals; the second drops it before the first does, and shows it again."""


async def stored(rentals: Rentals) -> list[dict[str, Any]]:
    return list(await rentals.get("/listings", market="nyc", min_confidence=0, limit=100))


async def test_entries_of_two_portals_are_one_listing_with_evidence__LI_9(simulated: OpenRentals) -> None:
    rentals = await simulated(**TWINS)
    await rentals.scrape("nyc")
    listings = await stored(rentals)
    assert len(listings) == 6
    (scrape,) = (await rentals.market("nyc"))["scrapes"]
    assert (scrape["new"], scrape["merged"]) == (6, scrape["found"] - 6)
    assert scrape["merged"] > 0
    sources = {each["id"]: await rentals.get(f"/listings/{each['id']}/why") for each in listings}
    merged = [source for own in sources.values() for source in own[1:]]
    assert len(merged) == scrape["merged"]
    assert all(source["reason"] and source["evidence"] for source in merged)
    assert {each["times_seen"] for each in listings} == {1}, "two rows of one scrape are one sighting"


async def test_a_merged_listing_that_is_seen_again_brings_no_change__LI_9(simulated: OpenRentals) -> None:
    rentals = await simulated(**TWINS)
    await rentals.scrape("nyc")
    (before,) = await rentals.rows("SELECT count(*) AS n FROM changes WHERE kind = 'listing'")
    await rentals.scrape("nyc")
    (after,) = await rentals.rows("SELECT count(*) AS n FROM changes WHERE kind = 'listing'")
    assert after == before
    assert {each["times_seen"] for each in await stored(rentals)} == {2}
    newest = (await rentals.market("nyc"))["scrapes"][0]
    assert (newest["new"], newest["merged"]) == (0, 0)


async def test_a_merged_listing_survives_the_loss_of_one_source__LI_12(simulated: OpenRentals) -> None:
    rentals = await simulated(**TWINS, gone=("404",))
    await rentals.scrape("nyc")
    twins = await rentals.rows("SELECT source_key FROM listing_sources WHERE source_key <> listing_key")
    await rentals.pass_time(hours=24 * 30)
    gone = await rentals.rows("SELECT source_key FROM listing_sources WHERE gone_at IS NOT NULL")
    assert {row["source_key"] for row in gone} <= {row["source_key"] for row in twins}
    assert len(await rentals.get("/listings", market="nyc")) == 6, "the first portal shows all of them"


async def test_a_listing_with_more_sources_than_one_verification_checks_is_gone_only_when_all_are__LI_12(
    simulated: OpenRentals,
) -> None:
    """Seven sources, newest first; the first six answer 404, the last one shows the home."""
    rentals = await simulated(homes=1, moving_share=0.0, twin_share=0.0)
    await rentals.scrape("nyc")
    await rentals.app.database.write(
        "INSERT INTO listing_sources (id, source_key, listing_key, market_id, source, source_id, url, version,"
        " first_seen_at, last_seen_at, times_seen, changed_at)"
        " SELECT s.id + n, source_key || '-' || n, listing_key, market_id, source, source_id || '-' || n,"
        " url || '-' || n, version, first_seen_at, last_seen_at + n, times_seen, changed_at FROM listing_sources s,"
        " (SELECT 1 AS n UNION SELECT 2 UNION SELECT 3 UNION SELECT 4 UNION SELECT 5 UNION SELECT 6) numbers"
    )
    await rentals.pass_time(hours=21.5)
    (listing,) = await rentals.get("/listings")
    assert (listing["is_active"], listing["verification_status"]) == (True, "verified")
    gone = await rentals.rows("SELECT gone_reason FROM listing_sources WHERE gone_at IS NOT NULL")
    assert [row["gone_reason"] for row in gone] == ["not_found"] * 6


async def test_a_listing_that_two_markets_show_stays_in_its_own__LI_9(rentals: Rentals) -> None:
    """The second market searches for the same city, as a neighbouring one that shows the same homes does."""
    await rentals.scrape("boston")
    before = await rentals.rows("SELECT listing_key, version FROM listings ORDER BY id")
    crossing = "SELECT min(zero_at) AS first, max(zero_at) AS last FROM listings"
    (old,) = await rentals.rows(crossing)
    assert (await rentals.client.put("/api/admin/markets/boston", json={"is_enabled": False})).status_code == 200
    wide = {"id": "greater-boston", "city": "Boston", "state": "MA", "tier": "cool"}
    assert (await rentals.client.post("/api/admin/markets", json=wide)).status_code == 201
    owners = "SELECT DISTINCT market_id, decay_rate FROM listings"
    sources = "SELECT DISTINCT market_id FROM listing_sources"

    await rentals.scrape("greater-boston")
    assert await rentals.rows(owners) == [{"market_id": "boston", "decay_rate": 3}]
    assert await rentals.rows(sources) == [{"market_id": "boston"}], "a disabled market keeps its homes"
    (seen,) = await rentals.rows(crossing)
    assert seen["first"] > old["last"], "the sighting counts, at the rate of its own market"
    assert await rentals.rows("SELECT listing_key, version FROM listings ORDER BY id") == before, "no change"
    assert {row["times_seen"] for row in await rentals.rows("SELECT times_seen FROM listings")} == {2}

    await rentals.client.put("/api/admin/markets/boston", json={"city": "Chelsea"})
    await rentals.scrape("greater-boston")
    in_city = f"{owners} WHERE city = 'Boston'"
    assert await rentals.rows(in_city) == [{"market_id": "greater-boston", "decay_rate": 1}], "that of their city"

    await rentals.client.delete("/api/admin/markets/greater-boston")
    await rentals.client.put("/api/admin/markets/boston", json={"city": "Boston"})
    await rentals.scrape("boston")
    assert await rentals.rows(owners) == [{"market_id": "boston", "decay_rate": 3}], "its market was removed"
    assert await rentals.rows(sources) == [{"market_id": "boston"}]


async def test_a_wrong_merge_is_split_for_good__LI_9(rentals: Rentals) -> None:
    rentals.apify.world.__dict__["twin_share"] = 1.0
    await rentals.scrape("nyc")
    listings = await stored(rentals)
    merged = [(each["id"], await rentals.get(f"/listings/{each['id']}/why")) for each in listings]
    number, (_, twin) = next((number, sources) for number, sources in merged if len(sources) == 2)
    split = await rentals.client.post(f"/api/v1/listings/{number}/split", json={"source": twin["source_id"]})
    assert split.status_code == 202, split.text
    await rentals.until_ended(split.json()["data"]["job_id"])
    assert len(await rentals.get(f"/listings/{number}/why")) == 1
    for _ in range(2):
        await rentals.scrape("nyc")
    now = await stored(rentals)
    assert len(now) == len(listings) + 1
    assert twin["source_key"] in {each["listing_key"] for each in now}
    assert len(await rentals.get(f"/listings/{number}/why")) == 1
    again = await rentals.client.post(f"/api/v1/listings/{number}/split", json={"source": twin["source_id"]})
    assert again.status_code == 404


async def test_a_listing_is_verified_on_request__LI_12(rentals: Rentals) -> None:
    await rentals.scrape("nyc")
    (listing, *_) = await stored(rentals)
    asked = await rentals.client.post(f"/api/v1/listings/{listing['id']}/verify")
    assert asked.status_code == 202
    await rentals.app.rechecker.look()
    async with rentals.patience():
        while (now := await rentals.get(f"/listings/{listing['id']}"))["verification_status"] != "verified":
            await rentals.soon()
    assert now["freshness_confidence"] >= 99, "a verification never lowers what a sighting gave"
