"""Listings age as a function of time, are verified below 40, and need evidence before they are gone. Simulated time."""

from datetime import timedelta

import pytest

from forager.sandbox.faults import When
from forager.sandbox.site import Outage
from forager.sdk.queries import loads
from tests.contract.listings.conftest import OpenRentals
from tests.support.listings import Rentals

STAYING = {"moving_share": 0.0, "twin_share": 0.0, "homes": 6}
"""Homes that are always listed, on one portal."""


async def scraped(simulated: OpenRentals, market: str = "nyc", **config: object) -> Rentals:
    rentals = await simulated(**{**STAYING, **config})
    await rentals.keep_only(market)
    job = await rentals.scrape(market)
    assert job["state"] == "completed", job
    return rentals


async def test_confidence_falls_with_time_and_no_row_is_written__LI_11__LI_15(simulated: OpenRentals) -> None:
    rentals = await scraped(simulated)
    (before,) = await rentals.rows("SELECT max(id) AS id, count(*) AS n FROM changes")
    shown = []
    for hours in (0, 0.9, 6.5, 9, 3, 0.7):
        await rentals.pass_time(hours=hours)
        (listing, *_) = await rentals.get("/listings", market="nyc")
        shown.append((listing["freshness_confidence"], listing["badge"]["color"], listing["badge"]["text"]))
    assert shown == [
        (100, "green", "Recently verified"),
        (100, "green", "Recently verified"),
        (79, "yellow", "Listed today"),
        (52, "yellow", "Listed today"),
        (43, "orange", "May no longer be available"),
        (40, "orange", "May no longer be available"),
    ]
    (after,) = await rentals.rows("SELECT max(id) AS id, count(*) AS n FROM changes")
    assert after == before


async def test_a_filter_by_confidence_gives_exactly_those_that_have_it__LI_11__LI_14(simulated: OpenRentals) -> None:
    rentals = await scraped(simulated)
    await rentals.pass_time(hours=10)
    (listing, *_) = await rentals.get("/listings", market="nyc")
    level = listing["freshness_confidence"]
    assert len(await rentals.get("/listings", min_confidence=level)) == 6
    assert await rentals.get("/listings", min_confidence=level + 1) == []
    assert len(await rentals.get("/listings", min_confidence=0)) == 6


async def test_below_40_a_live_listing_is_verified_and_has_80_and_again_after_that__LI_12(
    simulated: OpenRentals,
) -> None:
    rentals = await scraped(simulated)
    await rentals.pass_time(hours=20.9)
    assert rentals.pages() == 0
    await rentals.pass_time(hours=0.3)
    listings = await rentals.get("/listings")
    assert len(listings) == 6
    shown = {(each["verification_status"], each["freshness_confidence"], each["badge"]["text"]) for each in listings}
    assert shown == {("verified", 80, "Recently verified")}
    assert {each["times_seen"] for each in listings} == {1}
    await rentals.pass_time(hours=14.1)
    assert rentals.pages() == 12
    assert {each["freshness_confidence"] for each in await rentals.get("/listings")} == {80}


@pytest.mark.parametrize("way", ["404", "410", "phrase", "search"])
async def test_evidence_makes_a_listing_gone__LI_12(simulated: OpenRentals, way: str) -> None:
    rentals = await scraped(simulated, moving_share=1.0, gone=(way,))
    stored = await rentals.get("/listings")
    await rentals.pass_time(hours=24 * 20)
    left = {each["id"] for each in await rentals.get("/listings")}
    gone = [await rentals.get(f"/listings/{each['id']}") for each in stored if each["id"] not in left]
    assert gone
    for each in gone:
        assert (each["is_active"], each["verification_status"], each["badge"]) == (False, "gone", None)
        reason = {"404": "not_found", "410": "not_found", "phrase": "no_longer_available", "search": "search_page"}[way]
        assert each["gone_reason"] == reason
        (row,) = await rentals.rows("SELECT gone_at FROM listings WHERE id = :id", id=each["id"])
        listing = rentals.apify.world.listing(each["listing_key"].rpartition(":")[2])
        assert listing is not None
        assert not rentals.apify.world.listed(listing, row["gone_at"] / 1000)


@pytest.mark.parametrize(
    "fault", ["captcha", "captcha_200", "blocked", "parked", "login_wall", "login_redirect", "http500"]
)
async def test_trouble_is_no_evidence_and_the_next_cycle_looks_again__LI_10__LI_12(
    simulated: OpenRentals, fault: str
) -> None:
    rentals = await scraped(simulated, script=(When(fault, operation="page.get", times=6),), homes=1)
    await rentals.pass_time(hours=21.5)
    (listing,) = await rentals.get("/listings", min_confidence=0)
    assert (listing["verification_status"], listing["is_active"]) == ("pending", True)
    await rentals.pass_time(hours=8)
    (listing,) = await rentals.get("/listings")
    assert listing["verification_status"] == "verified"


async def test_at_0_a_listing_that_could_not_be_verified_is_inactive_and_active_when_seen_again__LI_12(
    simulated: OpenRentals,
) -> None:
    rentals = await scraped(simulated)
    await rentals.apify.fail(Outage.REFUSED, "site")
    await rentals.pass_time(hours=34.1)
    await rentals.app.submit("listings", {"action": "decay_and_verify"})
    await rentals.pass_time(seconds=60)
    inactive = await rentals.get("/listings", min_confidence=0, inactive=True)
    assert {(each["is_active"], each["gone_reason"]) for each in inactive} == {(False, "unconfirmed")}
    assert await rentals.get("/listings", inactive=True) == inactive, "inactive ones have no least confidence"
    assert await rentals.get("/listings", inactive=True, min_confidence=1) == []
    assert await rentals.get("/listings", min_confidence=0) == []
    await rentals.scrape("nyc")
    assert {(each["is_active"], each["times_seen"]) for each in await rentals.get("/listings")} == {(True, 2)}


async def test_a_new_tier_moves_the_crossing_moments_of_its_listings__LI_3(simulated: OpenRentals) -> None:
    rentals = await scraped(simulated)
    changed = await rentals.client.put("/api/admin/markets/nyc", json={"tier": "cool"})
    assert changed.json()["data"]["scrape_frequency_hours"] == 24
    await rentals.pass_time(hours=20)
    assert {each["freshness_confidence"] for each in await rentals.get("/listings")} == {80}
    rows = await rentals.rows("SELECT verify_at - confidence_updated_at AS after, decay_rate FROM listings")
    assert {(row["after"], row["decay_rate"]) for row in rows} == {(timedelta(hours=61) / timedelta(milliseconds=1), 1)}
    assert rentals.pages() == 0


async def test_a_tier_that_is_changed_by_sql_holds_for_stored_listings_from_the_next_hour_on__LI_3(
    simulated: OpenRentals,
) -> None:
    rentals = await scraped(simulated, schedules=True)
    await rentals.pass_time(hours=2)
    rates = "SELECT DISTINCT decay_rate, verify_at - confidence_updated_at AS after FROM listings"
    assert [row["decay_rate"] for row in await rentals.rows(rates)] == [3]
    await rentals.app.database.write("UPDATE market_configs SET tier = 'cool'")
    await rentals.pass_time(hours=1.1)
    assert await rentals.rows(rates) == [{"decay_rate": 1, "after": timedelta(hours=61) / timedelta(milliseconds=1)}]
    aged = "SELECT facts FROM tasks WHERE kind = 'listings.retier' ORDER BY id"
    assert [loads(row["facts"]) for row in await rentals.rows(aged)] == [{"listings": 6}]


async def test_what_a_scrape_of_the_old_tier_stores_gets_the_new_tier_too__LI_3(simulated: OpenRentals) -> None:
    rentals = await simulated(**STAYING, schedules=True)
    await rentals.keep_only("nyc")
    await rentals.client.post("/api/admin/markets/nyc/scrape")
    await rentals.client.put("/api/admin/markets/nyc", json={"tier": "cool"})
    await rentals.pass_time(hours=1.1)
    rows = await rentals.rows("SELECT decay_rate, times_seen FROM listings")
    assert [(row["decay_rate"], row["times_seen"]) for row in rows] == [(1, 1)] * 6


async def test_two_misses_in_complete_scrapes_bring_verification_forward__LI_12(simulated: OpenRentals) -> None:
    rentals = await scraped(simulated, "hartford", homes=12, moving_share=1.0, gone=("404",))
    for _ in range(30):
        await rentals.pass_time(hours=6)
        await rentals.scrape("hartford")
        await rentals.pass_time(seconds=60)
        gone = await rentals.rows("SELECT last_seen_at, gone_at FROM listings WHERE gone_at IS NOT NULL")
        if gone:
            break
    assert gone, "no home was rented in a week"
    assert all(row["gone_at"] - row["last_seen_at"] < 14 * 3_600_000 for row in gone), "by its age it would be 60 h"
